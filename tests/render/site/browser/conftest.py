"""Chromium, axe-core, and the trees that the browser tests open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.render.site.made import big_tables, pool_row, series_of, site_of, tables_of, unpriced
from tests.served_commands import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STATUS = Path("v1/system/status.json")


@pytest.fixture(scope="module")
def browser(tree: Path, made_url: str) -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright.

    Its event loop runs as long as it does, and no other may run next to it: so the trees come before, and the next
    module has none of it.
    """
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    assert found is not None, "the module is skipped without it"
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=arguments)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def axe(project_root: Path) -> str:
    """The source of axe-core."""
    source = project_root / "build" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
    if not source.is_file():
        pytest.skip("axe-core is not installed; scripts/suite browser does it")
    return source.read_text("utf-8")


@pytest.fixture(scope="module")
def url(tree: Path) -> Iterator[str]:
    """The address at which that tree is served."""
    with serving("serve", "--out", str(tree)) as address:
        yield address


@pytest.fixture(scope="module")
def made_url(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Made pages below folders: ``empty`` has no priced pool, ``many`` lists of several pages, ``days`` 20 days."""
    root = tmp_path_factory.mktemp("made") / "public"
    empty = tables_of([pool_row(0, number, **unpriced()) for number in range(3)])
    many = big_tables(30, 400)
    few = big_tables(2, 4)
    for prefix, tables, seconds in (("empty", empty, 3_600), ("many", many, 3_600), ("days", few, 86_400)):
        for key, text in site_of(tables, series_of(tables, 30 if seconds == 3_600 else 20, seconds)).items():
            file = root / prefix / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        (root / prefix / STATUS).parent.mkdir(parents=True)
        shutil.copy(tree / STATUS, root / prefix / STATUS)
    (root / STATUS).parent.mkdir(parents=True)
    shutil.copy(tree / STATUS, root / STATUS)
    with serving("serve", "--out", str(root)) as address:
        yield address
