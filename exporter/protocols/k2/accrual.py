"""K2's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from exporter.exact_columns import by_step
from exporter.ledger.codec.entries import instance_key
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed, is_variant
from exporter.protocols.k2 import layout, math

_INDEXES = ("liquidity_index", "variable_borrow_index")
_RATES = ("current_liquidity_rate", "current_variable_borrow_rate")


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    old, new = (layout.decode_reserve(entry).numbers for entry in changed(key, step))
    last = old["last_update_timestamp"]
    if not last < new["last_update_timestamp"] == step.time or not old["current_variable_borrow_rate"]:
        return
    row: dict[str, int | str] = {**dict.fromkeys(math.RESERVE_COLUMNS, 0), "close_time": step.time}
    row |= {name: old[name] for name in (*_INDEXES, *_RATES, "last_update_timestamp")}
    settled, rates = _settled(key, step, old)
    row |= settled
    yield Transition(row, {name: new[name] for name in _INDEXES} | rates)


def _settled(key: bytes, step: Step, old: dict[str, int]) -> tuple[dict[str, int | str], dict[str, int]]:
    """The state that the rates at the end of a ledger follow from, and the rates, if they were fixed again.

    A reserve within a flash loan is stored with its old rates.
    """
    entry = step.after(key)
    if entry is None:
        return {}, {}
    reserve = layout.decode_reserve(entry)
    asset = entry.contract_data().key[1][1][1]
    tokens = {side: step.after(instance_key(token)) for side, token in reserve.share_tokens.items()}
    own, defaults = (step.after(model) for model in layout.rate_model_keys(reserve.rate_contract, asset))
    rates = {name: reserve.numbers[name] for name in _RATES}
    if None in tokens.values() or own is defaults is None or rates.items() <= old.items():
        return {}, {}
    totals: dict[str, int | str] = {
        layout.SHARE_TOKENS[side][2]: layout.decode_share_token(token, side)[2]
        for side, token in tokens.items()
        if token is not None
    }
    totals |= {**layout.decode_rate_model(own, defaults), "reserve_factor": reserve.numbers["reserve_factor"]}
    return totals, rates


def _after(frame: pl.DataFrame) -> pl.DataFrame:
    accrued = math.project(frame)
    names = (*_INDEXES, "current_liquidity_rate", "current_variable_borrow_rate")
    return accrued.select(pl.col(f"accrued_{name.removeprefix('current_')}").alias(name) for name in names)


RULE = AccrualRule(is_variant("RDATA"), _read, by_step(_after))
