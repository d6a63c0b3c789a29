"""K2's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
    before = {name: old[name] for name in layout.RESERVE} | {"close_time": step.time}
    after = {name: new[name] for name in _INDEXES}
    settled = _settled(key, step)
    if any(settled[name] != old[name] for name in _RATES if settled):  # a flash loan stores the old rates
        before = settled | before
        after |= {name: settled[name] for name in _RATES}
    yield Transition({**before}, after)


def _settled(key: bytes, step: Step) -> dict[str, int]:
    """All numbers of a reserve at the end of a ledger, from which its rates follow; none where an entry is gone."""
    entry = step.after(key)
    if entry is None:
        return {}
    reserve = layout.decode_reserve(entry)
    numbers = dict(reserve.numbers)
    for side, token in reserve.share_tokens.items():
        instance = step.after(instance_key(token))
        if instance is None:
            return {}
        numbers[layout.SHARE_TOKENS[side][2]] = layout.decode_share_token(instance, side)[2]
    asset = entry.contract_data().key[1][1][1]
    own, defaults = (step.after(model) for model in layout.rate_model_keys(reserve.rate_contract, asset))
    return {} if own is defaults is None else numbers | layout.decode_rate_model(own, defaults)


def _compute(before: Mapping[str, Any]) -> dict[str, int]:
    indexes = math.accrued_indexes(before)
    found = dict(zip(_INDEXES, indexes, strict=True))
    if "total_debt_scaled" in before:
        found |= zip(_RATES, math.rates(before, math.totals(before, *indexes).utilization), strict=True)
    return found


RULE = AccrualRule(is_variant("RDATA"), _read, _compute)
