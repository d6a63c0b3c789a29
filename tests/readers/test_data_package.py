"""The data package, by the program that its makers check packages with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.readers.snippets import OTHER_PYTHON

pytestmark = pytest.mark.xdist_group("readers")  # the published tree is made once

FRICTIONLESS = OTHER_PYTHON.with_name("frictionless")


@pytest.mark.slow
@pytest.mark.parametrize(("change", "valid"), [(("", ""), True), (('"type":"boolean"', '"type":"integer"'), False)])
def test_frictionless_takes_it_for_valid(published: Path, change: tuple[str, str], valid: bool, tmp_path: Path) -> None:
    """Every row of every table is as the package says; of a package that says something else it is not."""
    if not FRICTIONLESS.is_file():
        pytest.skip("there is no build/readers with frictionless; scripts/test-readers makes it")
    for name in ("v1", "history"):
        (tmp_path / name).symlink_to(published / name)
    (tmp_path / "datapackage.json").write_text((published / "datapackage.json").read_text().replace(*change))
    done = subprocess.run(
        [FRICTIONLESS, "validate", "datapackage.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert valid is (done.returncode == 0), done.stdout + done.stderr
    assert ("INVALID" in done.stdout) is not valid
