"""Calls scripts of the repository as a workflow does."""

from __future__ import annotations

import subprocess
from pathlib import Path

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def call(root: Path, name: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Call a script of a checkout, with no other variables; gives its exit code and what it printed."""
    ran = subprocess.run(
        [root / "scripts" / name, *arguments],
        cwd=root,
        env={"PATH": SYSTEM_PATH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.returncode, ran.stdout
