"""The documentation says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from exporter import FORMAT
from exporter.config import ACCEPTED, ENVIRONMENT, Settings, load
from exporter.protocols import PROTOCOLS
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


def test_every_protocol_has_its_page() -> None:
    """A protocol's formulas have a page, which the README links, and the README says that it is read."""
    readme = (DOCS.parent / "README.md").read_text()
    (reads,) = re.findall(r"^It reads (.+)", readme, re.MULTILINE)

    assert [] == [name for name in PROTOCOLS if not (DOCS / "protocols" / f"{name}.md").is_file()], "in docs/protocols"
    assert [] == [name for name in PROTOCOLS if f"(docs/protocols/{name}.md)" not in readme], "links in the README"
    titles = [protocol.words.coverage.title for protocol in PROTOCOLS.values()]
    assert [] == [title for title in titles if title not in reads], "in the README's sentence: It reads ..."


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


@pytest.mark.parametrize(
    "name",
    [
        # messages.txt is made from all the source, which takes longest to parse; scripts/check runs it.
        pytest.param(name, marks=[pytest.mark.slow] if name == "messages.txt" else [])
        for name in PAGES
    ],
)
def test_what_is_made_from_the_code(name: str) -> None:
    """Pages have the parts that scripts/docs writes from the code."""
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


@pytest.mark.slow
def test_what_a_run_writes_is_still_what_was_measured() -> None:
    """The smaller network, measured now, is within a fifth of what the formula has: python -m tools.costs."""
    assert pytest.approx(costs.SMALL, rel=0.2) == costs.measure(50)


@pytest.mark.parametrize("name", ["export", "pages"])
def test_the_variables_of_the_workflows_are_documented(name: str) -> None:
    """The page of operations names every variable and secret that the workflows of this repository read."""
    text = (DOCS / "operations.md").read_text()
    read = re.findall(r"(?:vars|secrets)\.(\w+)", (DOCS.parent / ".github/workflows" / f"{name}.yml").read_text())

    assert [] == [variable for variable in read if f"`{variable}`" not in text]


def tables_without_rows(text: str) -> list[str]:
    """The headers of tables that have no row: none at all, or prose where the rows were."""
    lines, hollow, is_code = [*text.splitlines(), "", ""], [], False
    for index, line in enumerate(lines[:-2]):
        is_code ^= line.lstrip().startswith("```")
        is_rule = re.fullmatch(r"[ :|-]*-[ :|-]*", lines[index + 1]) is not None and "|" in lines[index + 1]
        if "|" in line and is_rule and not is_code and "|" not in lines[index + 2]:
            hollow.append(line)
    return hollow


@pytest.mark.parametrize(
    ("text", "hollow"),
    [
        ("a | b\n---|---\n1 | 2\n", []),
        ("| a | b |\n|:--|--:|\n| 1 | 2 |", []),
        ("a | b\n---|---\n\nSome prose.", ["a | b"]),
        ("a | b\n---|---\nRows that became prose.", ["a | b"]),
        ("a | b\n-|-", ["a | b"]),
        ("a | b\r\n---|---\r\n", ["a | b"]),
        ("a\n---\nA heading, and a rule.\n\n---\n", []),
        ("```\na | b\n---|---\n```\n", []),
    ],
)
def test_a_table_without_rows_is_found(text: str, hollow: list[str]) -> None:
    """A header without a row below it is found, whether nothing or prose follows; what is no table is not."""
    assert hollow == tables_without_rows(text)


def rows_without_table(text: str) -> list[str]:
    """Rows that a blank line or prose has cut off from their table: readers see their bars."""
    lines, stray, is_code, is_table = ["", *text.splitlines(), ""], [], False, False
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        is_code ^= line.lstrip().startswith("```")
        begins = re.fullmatch(r"[ :|-]*-[ :|-]*", after) is not None and "|" in after
        is_table = "|" in line and (begins or (is_table and "|" in before))
        if " | " in re.sub(r"`[^`]*`", "", line) and not is_table and not is_code:
            stray.append(line)
    return stray


@pytest.mark.parametrize(
    ("text", "stray"),
    [
        ("a | b\n---|---\n1 | 2\n3 | 4\n", []),
        ("a | b\n---|---\n1 | 2\n\n3 | 4\n", ["3 | 4"]),
        ("Some prose.\n1 | 2\n", ["1 | 2"]),
        ("```\nexporter plan | head\n```\nand `exporter plan | head` in prose\n", []),
    ],
)
def test_a_row_without_a_table_is_found(text: str, stray: list[str]) -> None:
    """A row that a blank line cuts off from its table is found; a bar in code is none."""
    assert stray == rows_without_table(text)


def test_no_table_is_without_rows() -> None:
    """Every table of the documentation has a row, and every row a table."""
    pages = [path for path in DOCS.parent.rglob("*.md") if not {".venv", "build"} & set(path.parts)]

    assert len(pages) > 30
    assert {} == {
        path.name: found for path in pages if (found := tables_without_rows(path.read_text(encoding="utf-8")))
    }


def test_the_api_page_says_the_written_format_number(project_root: Path) -> None:
    """docs/api.md says the format number that a run writes."""
    text = " ".join((project_root / "docs/api.md").read_text().split())

    assert f"is the format number of the tree, now {FORMAT}." in text
