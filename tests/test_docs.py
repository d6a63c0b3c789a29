"""The documentation says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from exporter.config import ACCEPTED, ENVIRONMENT, Settings, load
from exporter.tables import COLUMNS
from exporter.tree.verifier import checker_digests
from tools import costs
from tools.generated_docs import DOCS, PAGES


def rows(text: str, heading: str) -> dict[str, str]:
    """The two columns of the table under a heading."""
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    return {key: value.strip() for key, value in re.findall(r"^`([^`]+)` \| (.*)$", section, re.MULTILINE)}


def test_every_page_begins_with_what_its_reader_can_do() -> None:
    """Each page says in its first sentence what one can do, or knows, after reading it."""
    pages = [*DOCS.rglob("*.md"), *(DOCS.parent / name for name in ("CHANGELOG.md", "SECURITY.md"))]

    assert len(pages) > 30
    assert [] == [page.name for page in pages if "\n\nAfter reading this page you " not in page.read_text()[:120]]


def test_every_key_and_variable_is_documented() -> None:
    """The tables have every key, with what error messages say, and every environment variable with its key."""
    text = (DOCS / "configuration.md").read_text()
    documented = rows(text, "Environment")

    assert ACCEPTED == rows(text, "Keys")
    assert ENVIRONMENT == {variable: key.strip("`") for variable, key in documented.items()}


def test_the_example_holds_the_defaults(tmp_path: Path) -> None:
    """The example file is accepted, and apart from the endpoint it says what is the case without it."""
    example = (DOCS / "configuration.md").read_text().split("```toml\n")[1].split("```")[0]
    path = tmp_path / "example.toml"
    path.write_text(re.sub(r"^rpc_urls.*$", "", example, flags=re.MULTILINE))

    assert Settings() == load(path, environment={}).settings
    assert set(tomllib.loads(example)) == set(msgspec.to_builtins(Settings())) - {"markets"}


@pytest.mark.parametrize("name", PAGES)
def test_what_is_made_from_the_code(name: str) -> None:
    """What a page takes from the code is in it; scripts/docs writes it."""
    page = (DOCS / name).read_text()

    assert PAGES[name](page) == page


def test_the_pages_have_what_is_written_into_them() -> None:
    """The places in pages that scripts/docs fills are there: each digest, each column, and the costs."""
    made = {"proofs.md": checker_digests().values(), "history.md": (column.name for column in COLUMNS)}

    for name, texts in {**made, "operations.md": [costs.tables()]}.items():
        page = (DOCS / name).read_text()
        assert [] == [text for text in texts if text not in page]


def test_the_costs_name_their_prices() -> None:
    """Every price in the formula is stated next to the tables."""
    text = (DOCS / "operations.md").read_text()
    prices = [value for name, value in vars(costs).items() if name.startswith("PER_")]

    assert [] == [price for price in prices if f"{price:g}" not in text]


def test_what_a_run_writes_is_still_what_was_measured() -> None:
    """The smaller network, measured now, is within a fifth of what the formula has: python -m tools.costs."""
    assert pytest.approx(costs.SMALL, rel=0.2) == costs.measure(50)


@pytest.mark.parametrize("name", ["export", "pages"])
def test_the_variables_of_the_workflows_are_documented(name: str) -> None:
    """The page of operations names every variable and secret that the workflows of this repository read."""
    text = (DOCS / "operations.md").read_text()
    read = re.findall(r"(?:vars|secrets)\.(\w+)", (DOCS.parent / ".github/workflows" / f"{name}.yml").read_text())

    assert [] == [variable for variable in read if f"`{variable}`" not in text]


def test_no_table_is_without_rows() -> None:
    """A table of the documentation has a row below its header: prose that was once its rows is no table."""
    pages = [path for path in DOCS.parent.rglob("*.md") if ".venv" not in path.parts]
    header = re.compile(r"^[ :|-]*-{3}[ :|-]*\n[ \t]*$", re.MULTILINE)
    hollow = [
        str(path.relative_to(DOCS.parent))
        for path in pages
        if any("|" in match[0] for match in header.finditer(path.read_text(encoding="utf-8")))
    ]

    assert [] == hollow
