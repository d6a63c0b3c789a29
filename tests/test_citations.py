"""Whatever a file of the repository names, files, sections of a page, modules, is there."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

from tests.test_project import repository_files

FOLDERS = r"docs|exporter|tests|scripts|site_templates|requirements|\.github|\.ci"
PATH = re.compile(rf"(?<![\w/.@-])(?:\.\./)?((?:{FOLDERS})/[\w./*<>{{}}…-]*[\w*>}}])")
SECTION = re.compile(r'(?<![\w/.-])(docs/[\w/-]+\.md),? (?:section )?"([^"]+)"((?:(?:,| and|, and) "[^"]+")*)')
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MODULE = re.compile(r"(?:`+|-m )((?:exporter|tests)(?:\.[A-Za-z_]\w*)+)\b(?!/)")

ELSEWHERE = {
    ".github/workflows/markets.yml",  # of a repository that is made from templates/
    "exporter/_site_templates",  # in the wheel
    "exporter/protocols/pawn",
    "tests/protocols/test_pawn_reader.py",  # what a test of the recipe makes
    "scripts/NAME",
}


READ_BY_PEOPLE = {".py", ".md", ".j2", ".toml", ".yml", ".txt", ".html", ".js", ".css", ".mjs", ".ts", ".rs", ""}


@cache
def text_files(root: Path) -> list[tuple[Path, str]]:
    """The files of the repository that people read."""
    return [
        (path.relative_to(root), path.read_text(encoding="utf-8"))
        for path in repository_files(root)
        if path.suffix in READ_BY_PEOPLE
    ]


def flat(text: str) -> str:
    return re.sub(r"\s*\n[ \t]*(?:#:? |// |\| )?", " ", text)


@cache
def headings(path: Path) -> frozenset[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return frozenset(heading.strip() for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE))


def anchor(heading: str) -> str:
    """A heading as GitHub makes a link of it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_path_is_there(project_root: Path) -> None:
    """A path of the repository that any file names exists; one with a wildcard matches something."""
    missing = []
    for path, text in text_files(project_root):
        for named in PATH.findall(text):
            if named in ELSEWHERE or re.search(r"[<>{}…]|\.\.\.", named):
                continue
            there = any(project_root.glob(named)) if "*" in named else (project_root / named).exists()
            if not there:
                missing.append(f"{path}: {named}")

    assert [] == missing


def test_nothing_is_cited_that_readers_do_not_have(project_root: Path) -> None:
    """No file cites notes that are not in the repository."""
    cites = re.compile(r"(?<![\w/.])(?:shared/)?fact[s]/")

    assert [] == [str(path) for path, text in text_files(project_root) if cites.search(text)]


def test_every_section_is_there(project_root: Path) -> None:
    """A section that is cited by its heading is in the page."""
    missing = []
    for path, text in text_files(project_root):
        for page, first, more in SECTION.findall(flat(text)):
            for heading in [first, *re.findall(r'"([^"]+)"', more)]:
                if not (project_root / page).is_file() or heading not in headings(project_root / page):
                    missing.append(f'{path}: {page}, "{heading}"')

    assert [] == missing


def test_every_link_leads_somewhere(project_root: Path) -> None:
    """A link from one page to another file, or to a heading, has a target."""
    missing = []
    for path, text in text_files(project_root):
        for link in LINK.findall(text) if path.suffix == ".md" else ():
            file, _, fragment = link.partition("#")
            target = (project_root / path.parent / file) if file else project_root / path
            if "://" in link:
                continue
            if not target.exists() or (fragment and fragment not in set(map(anchor, headings(target)))):
                missing.append(f"{path}: {link}")

    assert [] == missing


def test_every_name_is_in_its_file(project_root: Path) -> None:
    """Where a page says a file and, in brackets, names in it, the file defines them."""
    named = re.compile(r"`(exporter/[\w/]+\.py)`\s+\((`\w+`(?:(?:,| and) `\w+`)*)\)")
    missing = []
    for path, text in text_files(project_root):
        for file, names in named.findall(text) if path.suffix == ".md" else ():
            place = project_root / file
            code = place.read_text(encoding="utf-8") if place.is_file() else ""
            for name in re.findall(r"\w+", names.replace(" and ", " ")):
                if not re.search(rf"^ *(?:async def|def|class) {name}\b|^{name}\b", code, re.MULTILINE):
                    missing.append(f"{path}: {file} does not define {name}")

    assert [] == missing


def test_every_package_is_described(project_root: Path) -> None:
    """docs/architecture.md has every folder of the package, and no other."""
    described = re.findall(
        r"^`exporter/(\w+)` \|", (project_root / "docs" / "architecture.md").read_text(), re.MULTILINE
    )

    assert sorted(described) == sorted(path.parent.name for path in (project_root / "exporter").glob("*/__init__.py"))


def test_every_module_is_there(project_root: Path) -> None:
    """A module, or a name in one, that a text has in backticks exists."""
    missing = []
    for path, text in text_files(project_root):
        missing += [f"{path}: {named}" for named in MODULE.findall(text) if not exists(named)]

    assert [] == missing


@cache
def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, or is found from one."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:size]))
        except ImportError:
            continue
        for part in parts[size:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
