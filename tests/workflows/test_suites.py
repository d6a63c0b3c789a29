"""Tests of scripts/suite: what happened to the weekly suites, and what it leaves behind for the issue."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflows.scripts import SYSTEM_PATH, call

SUITES = {
    "good": "echo '3 passed, 1 skipped in 0.1s'",
    "bad": "echo 'Falsifying example: test_bad(x=3)'; echo '1 failed, 2 passed in 0.1s'; exit 1",
    "left-out": "echo '7 skipped in 0.1s'",
    "dead": "echo 'error: node | is not installed' >&2; exit 1",
}
ROWS = {
    "| good | passed | 3 passed, 1 skipped in 0.1s |",
    "| bad | **failed** | 1 failed, 2 passed in 0.1s |",
    "| left-out | **not run** | 7 skipped in 0.1s |",
    "| dead | **could not be run** | error: node / is not installed |",
}


@pytest.fixture
def root(project_root: Path, tmp_path: Path) -> Path:
    """A checkout with suites that are short."""
    (tmp_path / "scripts" / "suites").mkdir(parents=True)
    for name in ("suite", "_common.sh"):
        shutil.copy2(project_root / "scripts" / name, tmp_path / "scripts")
    for name, script in SUITES.items():
        (tmp_path / "scripts" / "suites" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "scripts" / "suites" / name).chmod(0o755)
    return tmp_path


def test_every_suite_is_reported(root: Path) -> None:
    """The table has what passed, failed, was left out or died; the alarm gets the ends of what failed or died."""
    assert [0, 1, 0, 1] == [call(root, "suite", "--record", name)[0] for name in SUITES]

    code, said = call(root, "suite", "--summary")
    found = (root / "build" / "suites" / "found.md").read_text()
    assert (1, set()) == (code, ROWS - set(said.splitlines()))
    assert (True, True, False) == tuple(text in found for text in ("test_bad(x=3)", "\ndead\n", "\ngood\n"))
    assert said.strip() in found

    for name in ("bad", "dead"):
        (root / "scripts" / "suites" / name).write_text("#!/bin/sh\necho '1 passed in 1s'\n")
        assert 0 == call(root, "suite", "--record", name)[0]
    assert 0 == call(root, "suite", "--summary")[0]
    assert not (root / "build" / "suites" / "found.md").exists()


def test_a_suite_without_a_result(root: Path) -> None:
    """If the machine of a suite was lost, the summary fails."""
    code, said = call(root, "suite", "--summary")

    assert (1, True) == (code, "| good | **could not be run** | its machine left no result |" in said)


def test_a_suite_is_called_by_its_name(root: Path) -> None:
    """Arguments reach the suite, which runs where the caller is; its exit code is the caller's."""
    suite = root / "scripts" / "suites" / "good"
    suite.write_text('#!/bin/sh\necho "$(basename "$PWD"): $*"\nexit 3\n')
    ran = subprocess.run(
        ["./suite", "good", "-k", "one two"],
        cwd=root / "scripts",
        env={"PATH": SYSTEM_PATH},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (3, "scripts: -k one two\n") == (ran.returncode, ran.stdout)


@pytest.mark.parametrize("arguments", [("nonsense",), ("--record", "nonsense"), ("--record",), ("--install", "go.d")])
def test_another_name_is_refused(root: Path, arguments: tuple[str, ...]) -> None:
    """A name that is no suite, or none where one is needed, ends with the names that there are."""
    code, said = call(root, "suite", *arguments)

    assert (1, True) == (code, "bad dead good left-out" in said)


def test_the_suites_are_listed(root: Path) -> None:
    """Without a name the suites are listed."""
    assert (0, "bad\ndead\ngood\nleft-out\n") == call(root, "suite")
