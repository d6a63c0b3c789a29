"""The form of answers: percent next to basis points, and the size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ConfigError
from exporter.serve.assistant.form import (
    LEFT_OUT,
    MOST_SHORT_BYTES,
    UNLISTED,
    Json,
    dollars,
    finished,
    listed,
    percent,
    shortened,
    size,
    with_note,
)


@given(st.integers())
def test_a_percent_has_all_digits_of_its_basis_points(basis_points: int) -> None:
    """A percent has all digits: a hundred times it are the basis points again."""
    text = percent(basis_points).removesuffix(" %").replace(",", "")

    assert basis_points == int(text.replace(".", ""))
    assert "." == text[-3]


@given(st.integers())
def test_dollars_have_all_digits_of_their_cents(cents: int) -> None:
    """Dollars have all digits: without the signs between them they are the cents again."""
    text = dollars(str(cents))

    assert cents == int(text.translate(str.maketrans("", "", "$,.")))
    assert ("$", ".") == (text.removeprefix("-")[0], text[-3])


def test_dollars_are_next_to_cents() -> None:
    """An amount of US cents has its dollars, also inside lists; null and what is no amount has none."""
    amounts = {"tvl_usd_cents": "123456789", "room_usd_cents": None, "odd_usd_cents": "12a", "name": "5"}

    assert {"pools": [amounts | {"tvl_dollars": "$1,234,567.89"}]} == finished({"pools": [amounts]})


def test_what_is_not_listed_has_a_warning() -> None:
    """Everything of a market that is not listed has a warning, wherever it is in an answer; nothing else has one."""
    answer = {"pools": [{"listed": False}, {"listed": True}, {"listed": None}, {}], "pool": {"listed": False}}
    found = finished(answer)

    assert [UNLISTED, None, None, None] == [row.get("warning") for row in found["pools"]]
    assert (UNLISTED, False) == (found["pool"]["warning"], "warning" in found)


def test_percent_is_next_to_basis_points() -> None:
    """Each number of basis points has its percent, by its name, by a change's unit, or by a parameter's name."""
    answer = {
        "supply_apy_bps": 476,
        "borrow_apy_bps": None,
        "supply_apy_bps_change": -1_234,
        "tvl_usd_cents": 5,
        "limits": "",
        "changes": [{"unit": "basis_points", "before": "100", "after": None}, {"unit": "usd", "before": "100"}],
        "rate_model": [
            {"name": "base_apr_bps", "value": "100", "decimals": 4},
            {"name": "limit", "value": "100", "decimals": 4},
        ],
    }

    assert answer | {
        "supply_apy_percent": "4.76 %",
        "supply_apy_change": "-12.34 points",
        "changes": [
            {"unit": "basis_points", "before": "100", "after": None, "before_percent": "1.00 %"},
            {"unit": "usd", "before": "100"},
        ],
        "rate_model": [
            {"name": "base_apr_bps", "value": "100", "decimals": 4, "value_percent": "1.00 %"},
            {"name": "limit", "value": "100", "decimals": 4},
        ],
    } == finished(answer)


@given(st.lists(st.text(max_size=900).map(lambda text: {"text": text, "apy_bps": 1}), max_size=20), st.integers(1, 9))
def test_a_list_in_parts(items: list[Json], limit: int) -> None:
    """The parts of a list make the list; each has at most 3,000 bytes or one item, and at most the limit of items."""
    given: list[Json] = []
    cursor = None
    while True:
        part = listed({"observed_ledger": 7}, "items", items, limit=limit, cursor=cursor, detail="short")
        given += part["items"]
        assert len(json.dumps(with_note(part), separators=(",", ":"), ensure_ascii=False).encode()) <= (
            MOST_SHORT_BYTES if len(part["items"]) > 1 else 2 * MOST_SHORT_BYTES
        )
        assert len(part["items"]) <= limit
        cursor = part["next_cursor"]
        if cursor is None:
            break

    assert items == given


@pytest.mark.parametrize("cursor", ["", "5", "x@7", "-1@7", "1@7 ", "1@8"])
def test_a_cursor_of_something_else(cursor: str) -> None:
    """A cursor that is none, or of another run, is an error that says to begin again."""
    with pytest.raises(ConfigError, match=r"without cursor|leave it out"):
        listed({"observed_ledger": 7}, "items", [{}], limit=1, cursor=cursor, detail="full")


def test_one_thing_in_short() -> None:
    """A short answer leaves out its largest fields, names them, and keeps what must stay."""
    answer = {"kept": "k" * 900, "small": 1, "middle": ["m" * 900], "large": ["l" * 900, "l" * 900]}
    short = shortened(answer, "short", ["kept"])

    assert {"kept": answer["kept"], "small": 1, "middle": answer["middle"], LEFT_OUT: ["large"]} == short
    assert size(with_note(short)) <= MOST_SHORT_BYTES
    assert answer == shortened(answer, "full")
