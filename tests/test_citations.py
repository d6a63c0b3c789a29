"""Whatever a file of the repository names, files, sections of a page, modules, is there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

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
    "tests/protocols/test_pawn_reader.py",  # made by a test of the recipe
    "scripts/NAME",
}


READ_BY_PEOPLE = {".py", ".md", ".j2", ".toml", ".yml", ".txt", ".html", ".js", ".css", ".mjs", ".ts", ".rs", ""}


@cache
def text_files(root: Path) -> list[tuple[Path, str]]:
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


def paths(root: Path, path: Path, text: str) -> Iterator[str]:
    """Paths of the repository that do not exist; one with a wildcard must match something."""
    for named in PATH.findall(text):
        if named not in ELSEWHERE and not re.search(r"[<>{}…]|\.\.\.", named):
            there = any(root.glob(named)) if "*" in named else (root / named).exists()
            if not there:
                yield named


def notes(root: Path, path: Path, text: str) -> Iterator[str]:
    """Notes that readers of the repository do not have."""
    yield from re.findall(r"(?<![\w/.])(?:shared/)?fact[s]/", text)


def sections(root: Path, path: Path, text: str) -> Iterator[str]:
    """Sections, cited by their headings, that are not in the page."""
    for page, first, more in SECTION.findall(flat(text)):
        for heading in [first, *re.findall(r'"([^"]+)"', more)]:
            if not (root / page).is_file() or heading not in headings(root / page):
                yield f'{page}, "{heading}"'


def links(root: Path, path: Path, text: str) -> Iterator[str]:
    """Links from a page to another file, or to a heading, that have no target."""
    for link in LINK.findall(text) if path.suffix == ".md" else ():
        file, _, fragment = link.partition("#")
        target = (root / path.parent / file) if file else root / path
        if "://" not in link and (
            not target.exists() or (fragment and fragment not in set(map(anchor, headings(target))))
        ):
            yield link


def definitions(root: Path, path: Path, text: str) -> Iterator[str]:
    """Names in brackets after a file that the file does not define."""
    named = re.compile(r"`(exporter/[\w/]+\.py)`\s+\((`\w+`(?:(?:,| and) `\w+`)*)\)")
    for file, names in named.findall(text) if path.suffix == ".md" else ():
        code = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
        for name in re.findall(r"\w+", names.replace(" and ", " ")):
            if not re.search(rf"^ *(?:async def|def|class) {name}\b|^{name}\b", code, re.MULTILINE):
                yield f"{file} does not define {name}"


def modules(root: Path, path: Path, text: str) -> Iterator[str]:
    """Modules, and names in them, that a text has in backticks and that do not exist."""
    yield from (named for named in MODULE.findall(text) if not exists(named))


@pytest.mark.parametrize("missing", [paths, notes, sections, links, definitions, modules])
def test_what_a_file_names_is_there(project_root: Path, missing: Callable[[Path, Path, str], Iterator[str]]) -> None:
    """No file of the repository names what readers of the repository do not find."""
    assert [] == [
        f"{path}: {name}" for path, text in text_files(project_root) for name in missing(project_root, path, text)
    ]


def test_every_package_is_described(project_root: Path) -> None:
    """docs/architecture.md has every folder of the package, and no other."""
    page = (project_root / "docs" / "architecture.md").read_text()
    described = re.findall(r"^`exporter/(\w+)` \|", page, re.MULTILINE)

    assert sorted(described) == sorted(path.parent.name for path in (project_root / "exporter").glob("*/__init__.py"))


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
