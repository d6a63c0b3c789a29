"""Peridot's accruals in the ledger's own changes, for the check of the math (docs/lake.md)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from exporter.exact_columns import by_step
from exporter.ledger.codec import strkey
from exporter.protocols.accrual import AccrualRule, Step, Transition, UntriedError, is_variant
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.peridot import layout, math


def _read(key: bytes, step: Step) -> Iterator[Transition]:
    contract = strkey.encode_contract(key[8:40])
    old, new = (
        layout.decode_vault(contract, {each: look(each) for each in layout.vault_keys(contract)})
        for look in (step.before, step.first)
    )
    numbers, found = old.numbers, new.numbers
    if not numbers["last_update_time"] < found["last_update_time"] == step.time or not numbers["total_borrowed"]:
        return
    cash = old.implied_cash
    implied = numbers["total_deposited"] + old.set_aside - numbers["total_borrowed"] - cash
    if numbers["boost_rule"] != layout.BoostRule.CACHED and (old.boosted is not None or implied > 0):
        raise UntriedError  # no entry says what boosted cash counted
    balance = None if old.model is None else step.before(balance_key(old.token, contract))
    if old.model is not None and balance is None and cash:
        raise UntriedError  # a token that keeps its balances in its own way
    keys = [] if old.model is None else layout.entry_keys(old.model, layout.CURVE.values())
    curve = layout.decode_curve(old, {each: step.before(each) for each in keys})
    row: dict[str, int | str] = {**dict.fromkeys(math.VAULT_COLUMNS, 0), **numbers, **curve}
    row |= {"live_cash": decode_balance(balance), "managed_cash": cash, "close_time": step.time}
    names = ["borrow_index"]
    if found["total_admin_fees"] >= numbers["total_admin_fees"]:  # or they were paid out
        names.append("total_admin_fees")
    if old.receipt_supply != new.receipt_supply:  # a deposit or a redemption, which changes neither
        names += ["total_borrowed", "total_reserves"]
    yield Transition(row, {name: found[name] for name in names})


def _after(frame: pl.DataFrame) -> pl.DataFrame:
    accrued = math.accrue(frame.cast(pl.Int128))
    return pl.DataFrame(
        {
            "borrow_index": accrued.borrow_index,
            "total_admin_fees": accrued.admin_fees,
            "total_borrowed": accrued.borrowed,
            "total_reserves": accrued.reserves,
        }
    )


RULE = AccrualRule(is_variant("LastUpdateTime", 0), _read, by_step(_after))
