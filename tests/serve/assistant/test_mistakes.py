"""Calls that cannot be made, and the errors that they get."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.serve.assistant.mistakes import Argument, MistakeError, checked
from tests.serve.assistant.conftest import Ask, Json

LONG = "x" * 20_000


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        (
            "pool",
            {"market": "main"},
            ["pool is missing: the pool's id in", "It takes market (required)"],
        ),
        ("pool", {}, ["market is missing", "pool is missing"]),
        ("pool", {"market": "main", "pool": None}, ["pool is missing"]),
        ("pool", {"market": 5, "pool": ["x"]}, ["market must be a text, not 5", "pool must be a text, not a list"]),
        ("find_pools", {"tokn": "USDC"}, ["there is no argument 'tokn'; did you mean token?"]),
        ("find_pools", {LONG: 1}, ["there is no argument a text of 20,000 characters"]),
        ("find_pools", {"token": {}}, ["token must be a text, not an object"]),
        ("find_pools", {"limit": "many"}, ["limit must be a whole number, not 'many'"]),
        ("find_pools", {"limit": 1.5}, ["limit must be a whole number, not 1.5"]),
        ("find_pools", {"limit": True}, ["limit must be a whole number, not true"]),
        ("find_pools", {"limit": 10**30}, ["limit must be a whole number, not a number of more than 18 digits"]),
        ("find_pools", {"sort_by": "Tvl"}, ["sort_by must be one of tvl, supply_apy", "not 'Tvl'"]),
        ("find_pools", {"detail": "all"}, ["detail must be one of short, full, not 'all'"]),
        ("find_pools", {"token": LONG}, ["token has 20,000 characters, more than 200"]),
        ("find_pools", {"cursor": "next"}, ["cursor is the next_cursor of an earlier answer"]),
        ("find_pools", {"cursor": "5@1"}, ["a newer run was published", "without cursor"]),
        ("changes", {"since": "2026-02-30"}, ["the calendar has no '2026-02-30'"]),
        ("changes", {"since": "soon"}, ["'soon' is not understood as a date", "yesterday"]),
        ("history", {"since": "2026-11-02", "until": "2026-11-01"}, ["until 2026-11-02T00:00:00Z", "exchange them"]),
        ("pools", {}, ["there is no tool 'pools'; did you mean pool?", "find_pools"]),
        (LONG, {}, ["there is no tool a text of 20,000 characters"]),
    ],
)
def test_each_mistake_names_the_argument_and_what_is_accepted(
    call: Ask, tool: str, given: Json, said: list[str]
) -> None:
    """Each kind of mistake is an error in our words that names the argument and says what is accepted."""
    answer: Any = call(tool, **given)
    text = answer.content[0].text

    assert answer.is_error
    assert [] == [part for part in said if part not in text]
    assert [] == [word for word in ("pydantic", "http", "validation", "Error executing", "Traceback") if word in text]
    assert len(text) <= 1_000


def test_what_is_meant_is_taken(call: Ask) -> None:
    """Null is as left out, and a number may be written as text or with a zero fraction, as assistants do."""
    plain, odd = (
        call("find_pools", **given).structured_content
        for given in ({"limit": 2}, {"limit": "2", "token": None, "min_utilization_bps": -0.0})
    )

    assert plain["pools"] == odd["pools"]


def test_a_fault_of_ours(call: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to an error that nobody foresaw says that it is the exporter's, and what it was."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nobody")

    monkeypatch.setattr("exporter.serve.assistant.answers.in_order", broken)
    answer: Any = call("best_rate", token="USDC")

    assert answer.is_error
    assert answer.content[0].text.startswith(
        "the exporter has a fault and could not answer (ZeroDivisionError: by nobody)"
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=2)
)


@given(st.dictionaries(st.sampled_from(["text", "number", "choice", "other"]), VALUES))
def test_any_arguments_are_taken_whole_or_refused_whole(values: dict[str, Any]) -> None:
    """Whatever is given, each value is one that the tool takes, or all of them are refused with one error."""
    takes = [Argument("text", False), Argument("number", False, is_number=True), Argument("choice", True, ("a", "b"))]
    try:
        taken = checked("it", takes, values)
    except MistakeError:
        return

    assert taken["choice"] in ("a", "b")
    assert isinstance(taken.get("number", 0), int)
    assert isinstance(taken.get("text", ""), str)
    assert {name for name, value in values.items() if value is not None} == taken.keys()
