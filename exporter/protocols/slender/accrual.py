"""Slender's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from exporter.exact_columns import by_step
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed
from exporter.protocols.slender import layout, math


def _is_instance(key: bytes) -> bool:
    return len(key) == 48


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    was, is_now = (layout.decode_instance(entry) for entry in changed(key, step))
    for asset in was.reserves:
        try:
            old, new = layout.decode_reserve(was, asset).numbers, layout.decode_reserve(is_now, asset).numbers
        except layout.RwaReserveError:
            continue
        last = old["last_update_timestamp"]
        if last < new["last_update_timestamp"] and old["debt_supply"]:
            # An operation grows the accrued rates by the rates that follow from what it did.
            row: dict[str, int | str] = {name: old[name] for name in ("lender_ar", "borrower_ar", "window")}
            row |= {name: new[name] for name in ("lender_ir", "borrower_ir")}
            row |= {"last_update_timestamp": last, "close_time": step.time}
            yield Transition(row, {name: new[name] for name in ("lender_ar", "borrower_ar")})


def _after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.cast(pl.Int128)
    seconds = math.elapsed_seconds(state["last_update_timestamp"], state["window"], state["close_time"])
    return pl.DataFrame(
        {
            name: math.accrued_rate(state[name], state[f"{name[:-3]}_ir"], seconds)
            for name in ("lender_ar", "borrower_ar")
        }
    )


RULE = AccrualRule(_is_instance, _read, by_step(_after))
