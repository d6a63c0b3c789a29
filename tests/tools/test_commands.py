"""Each tool can be found: the page of tools names it, with the command that runs it."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_page_names_every_tool(project_root: Path) -> None:
    """docs/tools.md names each module and each package of `tools` that is a program, and no other."""
    tools = project_root / "tools"
    programs = {path.stem for path in tools.glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    programs |= {path.parent.name for path in tools.glob("*/__main__.py")}
    page = (project_root / "docs" / "tools.md").read_text()

    assert "bench" in programs
    assert programs == set(re.findall(r"\btools\.(\w+)", page))


def test_the_scripts_of_the_page_exist(project_root: Path) -> None:
    """Each script that docs/tools.md gives as a command is in the repository."""
    named = re.findall(r"^`(scripts/\w+)", (project_root / "docs" / "tools.md").read_text(), re.MULTILINE)

    assert named
    assert [] == [name for name in named if not (project_root / name).is_file()]
