"""docs/operations.md says what is: its homes, its tables, its names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import costs
from tests.workflows.act import load

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("name", ["export", "pages"])
def test_the_variables_are_those_of_the_workflows(name: str) -> None:
    """The page names every variable and secret that the workflows of this repository read."""
    read = set(re.findall(r"(?:vars|secrets)\.(\w+)", json.dumps(load(name), default=str)))

    assert [] == [variable for variable in read if f"`{variable}`" not in TEXT]


def test_each_home_has_at_most_eight_steps() -> None:
    """The first page chooses one of four homes, each of few numbered steps."""
    first = TEXT.partition("### The schedule on GitHub")[0]
    homes = re.split(r"^### ", first, flags=re.MULTILINE)[1:]

    assert ["GitHub Pages", "S3 and CloudFront", "R2 and a Worker", "Own server"] == [
        home.partition("\n")[0] for home in homes
    ]
    assert [True] * 4 == [1 <= len(re.findall(r"^\d+\. ", home, re.MULTILINE)) <= 8 for home in homes]


def test_costs_are_those_of_the_formula() -> None:
    """The tables on the page are what `python -m tests.costs` prints; scripts/docs writes them."""
    assert TEXT == costs.written(TEXT)
    assert costs.tables() in TEXT


def test_prices_are_those_that_the_page_names() -> None:
    """Every price in the formula is stated next to the tables."""
    prices = (costs.PER_1000_PUTS, costs.PER_1000_GETS, costs.PER_GIGABYTE_MONTH, costs.PER_GIGABYTE_READ)

    assert [] == [
        price for price in (*prices, costs.PER_GIGABYTE_OUT, costs.PER_10000_QUESTIONS) if f"{price:g}" not in TEXT
    ]


def test_what_a_run_writes_is_still_what_was_measured() -> None:
    """The smaller network, measured now, is within a fifth of what the formula has: python -m tests.costs --measure."""
    now = costs.measure(50)

    for name in ("documents", "site", "aliases", "pages", "histories", "document_bytes", "page_bytes"):
        assert pytest.approx(getattr(costs.SMALL, name), rel=0.2) == getattr(now, name), name
