"""The weekly workflow, run by act with short suites in the place of the long ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.workflows.act import copy_repository
from tests.workflows.conftest import ActMaker

pytestmark = pytest.mark.workflows

SUITES = {
    "test-slow": 'exec "$PYTHON" -m pytest -q one.py "$@"',
    "test-s3": 'exec "$PYTHON" -m pytest -q two.py "$@"',
    "test-clients": "echo 'error: node is not installed' >&2; exit 1",
    "test-real": "echo 'Skipped: there is no data'",
}


def test_every_suite_is_reported(act: ActMaker, project_root: Path, tmp_path: Path) -> None:
    """The summary has what passed, failed, was left out, did not run by itself, and could not be run, with reasons."""
    machine = act()
    machine.checkout = copy_repository(project_root, tmp_path / "markets")
    for name in sorted(path.name for path in (project_root / "scripts").glob("test-*")):
        script = "#!/usr/bin/env bash\n" + SUITES.get(name, SUITES["test-s3"])
        (machine.checkout / "scripts" / name).write_text(script)
    (machine.checkout / "one.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no Java here')\ndef test_c(): assert False\n"
    )
    (machine.checkout / "two.py").write_text("def test_a(): pass\n")
    installer = tmp_path / "apt"
    installer.mkdir()
    for name in ("sudo", "apt-get"):
        (installer / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/installed\n')
        (installer / name).chmod(0o755)
    machine.path = (installer, *machine.path)
    machine.actions = {
        "actions/download-artifact": 'mkdir -p build\ncp -a "$KEPT"/suite-*/build/suites build/\n',
    }
    jobs = machine.run("slow")

    assert ("failure", "failure") == (jobs["suite"].result, jobs["summary"].result)
    rows = dict(re.findall(r"^\| ([a-z0-9-]+) \| (.*) \|$", jobs["summary"].summary, re.MULTILINE))
    assert {
        "test-slow": "**failed**",
        "test-s3": "passed",
        "test-clients": "**could not be run**",
        "test-real": "**not run**",
    } == {name: rows[name].partition(" |")[0] for name in SUITES}
    assert "radosgw" in (tmp_path / "installed").read_text()
    assert "0\n" == (machine.kept / "suite-test-s3" / "build" / "suites" / "test-s3.code").read_text()
