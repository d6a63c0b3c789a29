"""The suites that are too slow, or need too much, for every change: runs one, and reports what became of all.

``scripts/suite NAME`` runs one and leaves ``build/suites/NAME.json``; ``scripts/suite --summary`` makes a table of
these files, and fails where a suite failed or ended before it had run a test. Standard library only: it runs before
there is an environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET  # of a file that pytest has just written here
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path("build") / "suites"
FOUND = "found.md"
"""In the folder of results: what failed, as the alarm's issue shows it; missing where nothing did."""
MAX_FOUND, MAX_FOUND_LENGTH = 10, 3_000
"""How many failures are kept of a suite, and how many characters of the end of each, where the example is."""

ARGUMENTS = {
    "test-real": ["--fetch", "build/real"],
    "test-rpc": ["--image", "stellar/stellar-rpc:latest", "--fetch", "build/real"],
}
"""What a suite is called with, so that it finds what it reads."""

PACKAGES = {
    "test-s3": ["ceph-mon", "ceph-osd", "radosgw"],
    "test-readers": ["nginx-light", "openssl", "default-jre-headless", "curl", "jq"],
    "test-templates": ["prometheus"],
    "test-slow": ["nginx-light", "openssl"],
}
"""Debian's packages that a suite needs, next to what GitHub's machines have: Go, Node, Rust, Chromium."""

PASSED, FAILED, NOT_RUN, DIED = "passed", "failed", "not run", "could not be run"


def names(root: Path = ROOT) -> list[str]:
    """Every suite: the scripts that are named for what they test."""
    return sorted(path.name for path in (root / "scripts").glob("test-*"))


def install(name: str) -> None:
    """Install what a suite needs from Debian's packages; the suite itself reports what is missing."""
    if packages := PACKAGES.get(name):
        root = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*root, "apt-get", "update", "--quiet", "--quiet"], check=False)
        subprocess.run([*root, "apt-get", "install", "--yes", "--no-install-recommends", *packages], check=False)


def run(name: str) -> int:
    """Run a suite and write what became of it; gives the exit code of its script."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    report = RESULTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [f"scripts/{name}", *ARGUMENTS.get(name, []), f"--junitxml={report}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(line)
        said = line.strip() or said
    code = process.wait()
    counts, skipped = tests_of(report)
    if code:
        outcome = FAILED if counts["run"] else DIED
    else:
        outcome = PASSED if counts["run"] else NOT_RUN
    result = {
        "suite": name,
        "outcome": outcome,
        "tests": counts["run"],
        "failed": counts["failed"],
        "why": said if not counts["run"] and not skipped else "",
        "skipped": dict(skipped.most_common()),
        "found": found_in(report),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1))
    return code


def tests_of(report: Path) -> tuple[Counter[str], Counter[str]]:
    """How many tests of a JUnit report ran and failed, and how many were skipped for which reason."""
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase") if report.is_file() else ():
        if (skip := case.find("skipped")) is not None:
            skipped[skip.get("message", "")] += 1
            continue
        counts["run"] += 1
        counts["failed"] += case.find("failure") is not None or case.find("error") is not None
    return counts, skipped


def found_in(report: Path) -> list[str]:
    """The failures of a JUnit report, each with the end of what pytest says of it, in Markdown."""
    found = []
    for case in ET.parse(report).iter("testcase") if report.is_file() else ():
        failure = case.find("failure")
        if (failure := case.find("error") if failure is None else failure) is not None:
            text = (failure.text or "")[-MAX_FOUND_LENGTH:]
            found.append(f"{case.get('classname')}::{case.get('name')}\n\n~~~~\n{text}\n~~~~\n")
    return found[:MAX_FOUND]


def write_found(table: str, root: Path = ROOT) -> None:
    """Leave the table and all failures for the alarm."""
    results = (RESULTS / f"{name}.json" for name in names(root))
    found = [item for path in results if path.is_file() for item in json.loads(path.read_text())["found"]]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / FOUND).write_text("\n".join([table, *found]))


def summary(root: Path = ROOT) -> tuple[str, bool]:
    """The table of all suites in Markdown, and whether none of them failed or died."""
    lines = ["| suite | | tests | left out |", "|---|---|---:|---|"]
    well = True
    for name in names(root):
        path = RESULTS / f"{name}.json"
        if not path.is_file():
            lines.append(f"| {name} | **{DIED}** | | its machine left no result |")
            well = False
            continue
        result = json.loads(path.read_text())
        well = well and result["outcome"] in (PASSED, NOT_RUN)
        outcome = result["outcome"] if result["outcome"] == PASSED else f"**{result['outcome']}**"
        failed = f", {result['failed']} failed" if result["failed"] else ""
        left = [f"{count} tests: {reason}" for reason, count in result["skipped"].items()]
        cell = "<br>".join(_one_line(text) for text in [result["why"], *left] if text)
        lines.append(f"| {name} | {outcome} | {result['tests']}{failed} | {cell} |")
    return "\n".join(lines) + "\n", well


def _one_line(text: str) -> str:
    """A text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")[:300]


def main(arguments: list[str]) -> int:
    """See the module."""
    match arguments:
        case ["--summary"]:
            table, well = summary()
            print(table)
            (RESULTS / FOUND).unlink(missing_ok=True)
            if not well:
                write_found(table)
            if result := os.environ.get("GITHUB_STEP_SUMMARY"):
                with Path(result).open("a") as file:
                    file.write(table)
            return 0 if well else 1
        case ["--install", name] if name in names():
            install(name)
            return 0
        case [name] if name in names():
            return run(name)
    print(f"usage: scripts/suite [--install] NAME | --summary\nNAME is one of: {', '.join(names())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
