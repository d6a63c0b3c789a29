"""scripts/suite: what became of the weekly suites, and what it leaves behind for the issue."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workflows.scripts import call

SUITES = {
    "test-good": "echo '3 passed, 1 skipped in 0.1s'",
    "test-bad": "echo 'Falsifying example: test_bad(x=3)'; echo '1 failed, 2 passed in 0.1s'; exit 1",
    "test-left-out": "echo '7 skipped in 0.1s'",
    "test-dead": "echo 'error: node | is not installed' >&2; exit 1",
}
ROWS = {
    "| test-good | passed | 3 passed, 1 skipped in 0.1s |",
    "| test-bad | **failed** | 1 failed, 2 passed in 0.1s |",
    "| test-left-out | **not run** | 7 skipped in 0.1s |",
    "| test-dead | **could not be run** | error: node / is not installed |",
}


@pytest.fixture
def root(project_root: Path, tmp_path: Path) -> Path:
    """A checkout with suites that are short."""
    (tmp_path / "scripts").mkdir()
    for name in ("suite", "_common.sh"):
        shutil.copy2(project_root / "scripts" / name, tmp_path / "scripts")
    for name, script in SUITES.items():
        (tmp_path / "scripts" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "scripts" / name).chmod(0o755)
    return tmp_path


def test_every_suite_is_reported(root: Path) -> None:
    """The table has what passed, failed, was left out or died; the alarm gets the ends of what failed or died."""
    assert [0, 1, 0, 1] == [call(root, "suite", name)[0] for name in SUITES]

    code, said = call(root, "suite", "--summary")
    found = (root / "build" / "suites" / "found.md").read_text()
    assert (1, set()) == (code, ROWS - set(said.splitlines()))
    assert (True, True, False) == tuple(text in found for text in ("test_bad(x=3)", "\ntest-dead\n", "\ntest-good\n"))
    assert said.strip() in found

    for name in ("test-bad", "test-dead"):
        (root / "scripts" / name).write_text("#!/bin/sh\necho '1 passed in 1s'\n")
        assert 0 == call(root, "suite", name)[0]
    assert 0 == call(root, "suite", "--summary")[0]
    assert not (root / "build" / "suites" / "found.md").exists()


def test_a_suite_without_a_result(root: Path) -> None:
    """Where the machine of a suite was lost the summary fails; a name that is not a suite is refused."""
    code, said = call(root, "suite", "--summary")

    assert (1, True) == (code, "| test-good | **could not be run** | its machine left no result |" in said)
    assert 1 == call(root, "suite", "nonsense")[0]
