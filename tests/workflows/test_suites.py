"""What the weekly suites leave behind for the issue."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import suites

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_good"/>
<testcase classname="tests.a" name="test_left_out"><skipped message="no Java"/></testcase>
<testcase classname="tests.a" name="test_bad"><failure message="m">{long}E   Falsifying example: test_bad(x=3)</failure>
</testcase>
<testcase classname="tests.a" name="test_broken"><error message="m">no fixture</error></testcase>
</testsuite></testsuites>"""


def test_failures_are_kept_with_their_example(tmp_path: Path) -> None:
    """Each failure and error has the end of what pytest says, where the example is; a test left out did not run."""
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(long="x" * 10_000))
    result = suites.read_report(report)
    bad, broken = result.pop("found")

    assert {"tests": 3, "failed": 2, "skipped": {"no Java": 1}} == result
    assert bad.startswith("tests.a::test_bad\n\n~~~~\nxxx")
    assert bad.endswith("E   Falsifying example: test_bad(x=3)\n~~~~\n")
    assert suites.MAX_FOUND_LENGTH + 100 > len(bad)
    assert "tests.a::test_broken\n\n~~~~\nno fixture\n~~~~\n" == broken
    assert 0 == suites.read_report(tmp_path / "missing.xml")["tests"]


def test_a_summary_leaves_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a suite failed there is a file for the alarm, with the table and the failures; else there is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    good = {"outcome": suites.PASSED, "tests": 1, "failed": 0, "why": "", "skipped": {}, "found": []}
    failed = good | {"outcome": suites.FAILED, "failed": 1, "found": ["tests.a::test_bad\n"]}
    suites.RESULTS.mkdir(parents=True)
    for name in suites.names():
        (suites.RESULTS / f"{name}.json").write_text(json.dumps(good))
    for result, code in ((good, 0), (failed, 1), (good, 0)):
        (suites.RESULTS / "test-random.json").write_text(json.dumps(result))

        assert code == suites.main(["--summary"])
        text = suites.FOUND.read_text() if suites.FOUND.is_file() else ""
        assert bool(code) is ("| test-random | **failed** | 1, 1 failed |" in text)
        assert bool(code) is text.endswith("\ntests.a::test_bad\n")
