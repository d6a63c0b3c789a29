"""Slender's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.protocols.accrual import AccrualRule, Step, Transition, changed
from exporter.protocols.slender import layout, math


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    was, is_now = (layout.decode_instance(entry) for entry in changed(key, step))
    for asset in was.reserves:
        try:
            old, new = layout.decode_reserve(was, asset).numbers, layout.decode_reserve(is_now, asset).numbers
        except layout.RwaReserveError:
            continue
        if old["last_update_timestamp"] < new["last_update_timestamp"] and old["debt_supply"]:
            # An operation grows the accrued rates by the rates that follow from what it did.
            rates = {name: new[name] for name in ("lender_ir", "borrower_ir")}
            after = {name: new[name] for name in ("lender_ar", "borrower_ar")}
            yield Transition(old | rates | {"close_time": step.time}, after)


RULE = AccrualRule(lambda key: len(key) == 48, _read, math.accrue)
