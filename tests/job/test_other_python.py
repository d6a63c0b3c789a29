"""The bytes of a tree do not depend on the Python that published it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.check.trees import listed_of, small_tree, write

VARIABLE = "EXPORTER_OTHER_PYTHON"
"""Names the interpreter of another Python that has the pinned packages."""

OTHER = os.environ.get(VARIABLE)  # tests themselves run without the exporter's variables

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(OTHER is None, reason=f"{VARIABLE} names no interpreter of another Python")
def test_another_python_renders_the_same_bytes(tmp_path: Path) -> None:
    """Another Python renders the run again from its evidence, and finds every file byte for byte."""
    files = small_tree()
    command = [str(OTHER), "-m", "exporter", "check", str(write(files, tmp_path))]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300)

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"{len(listed_of(files))} files rendered again from evidence, byte for byte" in ended.stdout + ended.stderr
