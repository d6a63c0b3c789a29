"""Alula's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from exporter import exact_columns as exact
from exporter.exact_columns import by_step
from exporter.ledger.codec.fields import Fields
from exporter.protocols.accrual import AccrualRule, Step, Transition, changed, is_variant
from exporter.protocols.alula import layout, math

_STEERED = ("take_rate_fees_sum", "interest_rate_modifier_bps")


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    was, is_now = changed(key, step)
    old, new = layout.decode_pool(was).row, layout.decode_pool(is_now).row
    last = old["last_accrual_timestamp"]
    if not last < new["last_accrual_timestamp"] == step.time or not old["total_borrowed"]:
        return
    config, after = Fields.of(was.value, "Pool").struct("config"), Fields.of(is_now.value, "Pool")
    row: dict[str, int | str] = {name: old[name] for name in math.POOL_COLUMNS}
    row |= {"seconds": step.time - last, **{f"found_{name}": new[name] for name in _STEERED}}
    row["target_utilization_ratio_bps"] = config.i128("target_utilization_ratio_bps")
    row["ir_reactivity_constant"] = config.u32("ir_reactivity_constant")
    found = {name: after.i128(name) for name in ("borrow_apr_bps", "supply_apr_bps")}
    found["interest_rate_modifier_bps"] = new["interest_rate_modifier_bps"]
    if new["take_rate_fees_sum"] >= old["take_rate_fees_sum"]:  # or they were paid out
        found["take_rate_fees_sum"] = new["take_rate_fees_sum"]
    if new["total_d_tokens"] == old["total_d_tokens"]:
        found["total_borrowed"] = new["total_borrowed"]
    yield Transition(row, found)


def _after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.cast(pl.Int128)
    accrued = math.accrue(state, state["seconds"])

    def either(name: str, newest: pl.Series, older: pl.Series) -> pl.Series:
        return exact.select(state[f"found_{name}"] == older, older, newest)

    return pl.DataFrame(
        {
            "borrow_apr_bps": accrued.borrow_apr,
            "supply_apr_bps": accrued.supply_apr,
            "total_borrowed": accrued.total_borrowed,
            "take_rate_fees_sum": either("take_rate_fees_sum", accrued.fees, accrued.fees_up),
            "interest_rate_modifier_bps": either(
                "interest_rate_modifier_bps", accrued.modifier, accrued.modifier_wholly
            ),
        }
    )


RULE = AccrualRule(is_variant("Pool"), _read, by_step(_after))
