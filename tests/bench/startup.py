"""How long ``exporter --help`` takes in a new process, against one that does nothing, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import perf_counter

from tests.bench.child import PROJECT_ROOT, environment
from tests.bench.timing import Finding, Spread, Target

SECONDS = 0.4
HEAVY = ("polars", "pyarrow", "stellar_sdk", "httpx", "msgspec", "starlette", "uvicorn", "jinja2", "asyncio")


def run(quick: bool = False) -> list[Finding]:
    """The seconds that help takes, in several new processes, and how many heavy packages it loads."""
    repeats = 1 if quick else 15
    script = Path(sys.executable).with_name("exporter")
    help_command = [str(script), "--help"] if script.is_file() else [sys.executable, "-m", "exporter", "--help"]
    nothing = [sys.executable, "-c", "pass"]
    _seconds(help_command)  # bytecode and the disk's cache: "cold" is the process, not the machine
    helped, empty = [], []
    for _ in range(repeats):
        helped.append(_seconds(help_command))
        empty.append(_seconds(nothing))
    facts: dict[str, object] = {"python_that_does_nothing_s": round(Spread.of(empty).median, 3)}
    loaded = heavy_imports()
    return [
        Finding("exporter --help in a new process", Spread.of(helped), "s", Target(SECONDS, at_least=False), facts),
        Finding(
            "heavy packages that exporter --help loads",
            Spread.of([float(len(loaded))]),
            "packages",
            Target(0, at_least=False),
            {"looked_for": ", ".join(HEAVY), "loaded": ", ".join(loaded)},
        ),
    ]


def heavy_imports() -> list[str]:
    """Which of the heavy packages are loaded once help was shown."""
    code = (
        "import sys, contextlib, io\n"
        "from exporter.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=PROJECT_ROOT, env=environment(), capture_output=True, timeout=60, check=True)
    return result.stdout.decode().split()


def _seconds(command: list[str]) -> float:
    began = perf_counter()
    subprocess.run(command, cwd=PROJECT_ROOT, env=environment(), capture_output=True, timeout=60, check=True)
    return perf_counter() - began
