"""XOXNO's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.protocols.accrual import AccrualRule, Step, Transition, UntriedError, changed, is_variant
from exporter.protocols.xoxno import layout, math


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    entry = step.before(key.replace(encode_scval(symbol("State")), encode_scval(symbol("Params")), 1))
    old, new = (layout.decode_state(state) for state in changed(key, step))
    time = step.time * 1000
    if not old["last_timestamp"] < new["last_timestamp"] == time or not old["supplied"] or not old["borrowed"]:
        return
    if entry is None:
        raise UntriedError
    parameters = layout.decode_parameters(entry).numbers
    compared = ["borrow_index"]
    if new["supply_index"] >= old["supply_index"]:  # or there was a loss
        compared.append("supply_index")
    if not _took_a_fee(old, new, parameters):
        compared.append("revenue")
    row: dict[str, int | str] = {**parameters, **old, "close_time": step.time}
    yield Transition(row, {name: new[name] for name in compared})


def _took_a_fee(old: dict[str, int], new: dict[str, int], parameters: dict[str, int]) -> bool:
    """Whether cash and users' shares show that an operation changed the revenue, by a base unit or more.

    What came in is what the users' supply grew by, less what their debt did; the rest is a fee, a claim or a loss.
    """
    supplied = new["supplied"] - new["revenue"] - (old["supplied"] - old["revenue"])
    owed = new["borrowed"] - old["borrowed"]
    unit = 10 ** (layout.RAY_DECIMALS - parameters["asset_decimals"])
    users = (supplied * new["supply_index"] - owed * new["borrow_index"]) // layout.RAY
    return not -unit < (new["cash"] - old["cash"]) * unit - users < unit


def _compute(before: Mapping[str, Any]) -> dict[str, int]:
    accrued = math.accrue(before, before["close_time"] * 1_000)
    return {name: accrued[name] for name in ("borrow_index", "supply_index", "revenue")}


RULE = AccrualRule(is_variant("State"), _read, _compute)
