"""The bill of materials of a release is that of its lock."""

from __future__ import annotations

from pathlib import Path

from tests.sbom import LOCK, bill_of_materials
from tests.test_project import pins


def test_every_pinned_package_is_listed(project_root: Path) -> None:
    """Each package of the runtime lock is a component with its version and at least one digest."""
    components = bill_of_materials(LOCK.read_text())["components"]

    assert pins(project_root, "runtime") == {item["name"]: item["version"] for item in components}
    assert [] == [item["name"] for item in components if not item["hashes"]]
