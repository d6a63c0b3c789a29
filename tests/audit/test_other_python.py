"""The bytes of a tree do not depend on the Python that published it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit.signed_runs import SignedNetwork
from tests.audit.trees import listed_of, small_tree, write
from tests.localnet.recorded import BLEND_V2
from tests.past.archive.simulated_archive import PASSPHRASE

ROOT = Path(__file__).resolve().parents[2]

STAMPED = ("requirements/runtime.lock", "requirements/build.lock", "pyproject.toml", "exporter/__init__.py")
"""The parts of an environment, in the order of its stamp (scripts/_common.sh)."""

MADE = "scripts/suite pythons makes it"

CONFIGURATION = f"""
[network]
passphrase = "{PASSPHRASE}"
max_ledger_age = "0s"

[output]
page_sizes = [1, 50]

[[markets]]
protocol = "blend"
address = "{BLEND_V2}"
"""


def environments() -> dict[str, Path]:
    """The Pythons in build/pythons by version, oldest first: those that have the packages of this checkout."""
    stamp = f"root {ROOT}\n" + "".join((ROOT / name).read_text() for name in STAMPED)
    stamps = [path for path in ROOT.glob("build/pythons/*/exporter-runtime.stamp") if stamp == path.read_text()]
    versions = sorted((path.parent.name for path in stamps), key=lambda version: int(version.removeprefix("3.")))
    return {version: ROOT / "build/pythons" / version / "bin/python" for version in versions}


def exporter(python: Path, *arguments: str | Path) -> str:
    """The output of a command of the exporter under a Python. The command must succeed."""
    command = [python, "-m", "exporter", *arguments]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300)

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_another_python_renders_the_same_bytes(tmp_path: Path) -> None:
    """Another Python renders a run of this one again from its evidence, and finds every file byte for byte."""
    own = "{}.{}".format(*sys.version_info)
    others = [python for version, python in environments().items() if version != own]
    if not others:
        pytest.skip(f"build/pythons has no Python but {own} with the pinned packages; {MADE}")
    files = small_tree()
    said = exporter(others[-1], "check", write(files, tmp_path))

    assert f"{len(listed_of(files))} files rendered again from evidence, byte for byte" in said


@pytest.mark.slow
@pytest.mark.parametrize("publisher", ["oldest", "newest"])
def test_oldest_and_newest_agree(tmp_path: Path, publisher: str) -> None:
    """A tree that the oldest Python published is good and proven for the newest, and the other way round."""
    pythons = list(environments().values())
    if len(pythons) < 2:
        pytest.skip(f"build/pythons has no two Pythons with the pinned packages; {MADE}")
    publishes, judges = (pythons[0], pythons[-1]) if publisher == "oldest" else (pythons[-1], pythons[0])
    network, out, configuration = SignedNetwork(tmp_path, 120), tmp_path / "out", tmp_path / "exporter.toml"
    configuration.write_text(CONFIGURATION)
    archive = ("--archive", network.archive, "--trust", network.trust)
    files = ("--out", out, "--report", tmp_path / "report.json", "--bucket-cache", tmp_path / "kept")
    exporter(publishes, "run", "--config", configuration, *archive, "--checkpoint", "127", *files)

    assert "rendered again from evidence, byte for byte" in exporter(judges, "check", out)
    assert "files follow from the run's evidence and the history, byte for byte" in exporter(
        judges, "verify", out, *archive
    )
