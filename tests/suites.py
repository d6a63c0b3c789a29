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
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path("build") / "suites"
FOUND = RESULTS / "found.md"
"""What failed, as the alarm's issue shows it; missing where nothing did."""
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


def names() -> list[str]:
    """Every suite: the scripts that are named for what they test."""
    return sorted(path.name for path in (ROOT / "scripts").glob("test-*"))


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
    result = read_report(report)
    worked, broke = (PASSED, FAILED) if result["tests"] else (NOT_RUN, DIED)
    why = said if not result["tests"] and not result["skipped"] else ""
    (RESULTS / f"{name}.json").write_text(json.dumps(result | {"outcome": broke if code else worked, "why": why}))
    return code


def read_report(report: Path) -> dict[str, Any]:
    """Of a JUnit report: how many tests ran and failed, how many were skipped for which reason, and each failure.

    A failure has the end of what pytest says of it, in Markdown.
    """
    ran, found = 0, list[str]()
    skipped: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase") if report.is_file() else ():
        faults = [*case.iter("failure"), *case.iter("error")]
        skips = [skip.get("message", "") for skip in case.iter("skipped")]
        skipped.update(skips)
        ran += not skips
        if faults:
            text = (faults[0].text or "")[-MAX_FOUND_LENGTH:]
            found.append(f"{case.get('classname')}::{case.get('name')}\n\n~~~~\n{text}\n~~~~\n")
    skipped_most_first = dict(skipped.most_common())
    return {"tests": ran, "failed": len(found), "skipped": skipped_most_first, "found": found[:MAX_FOUND]}


def summary() -> int:
    """Print the table of all suites in Markdown; 1 where one failed or died, and then `FOUND` has what failed."""
    lines = ["| suite | | tests | left out |", "|---|---|---:|---|"]
    well, found = True, list[str]()
    for name in names():
        path = RESULTS / f"{name}.json"
        if not path.is_file():
            lines.append(f"| {name} | **{DIED}** | | its machine left no result |")
            well = False
            continue
        result = json.loads(path.read_text())
        well = well and result["outcome"] in (PASSED, NOT_RUN)
        found += result["found"]
        outcome = result["outcome"] if result["outcome"] == PASSED else f"**{result['outcome']}**"
        failed = f", {result['failed']} failed" if result["failed"] else ""
        left = [f"{count} tests: {reason}" for reason, count in result["skipped"].items()]
        cell = "<br>".join(
            re.sub(r"\s+", " ", text).replace("|", "\\|")[:300] for text in [result["why"], *left] if text
        )
        lines.append(f"| {name} | {outcome} | {result['tests']}{failed} | {cell} |")
    table = "\n".join(lines) + "\n"
    print(table)
    FOUND.unlink(missing_ok=True)
    if not well:
        RESULTS.mkdir(parents=True, exist_ok=True)
        FOUND.write_text("\n".join([table, *found]))
    if result_file := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(result_file).open("a") as file:
            file.write(table)
    return 0 if well else 1


def main(arguments: list[str]) -> int:
    """See the module."""
    match arguments:
        case ["--summary"]:
            return summary()
        case ["--install", name] if name in names():
            install(name)
            return 0
        case [name] if name in names():
            return run(name)
    print(f"usage: scripts/suite [--install] NAME | --summary\nNAME is one of: {', '.join(names())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
