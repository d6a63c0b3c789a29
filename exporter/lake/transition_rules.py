"""By protocol: which entries a contract writes when it brings a pool up to date, and what they must be.

Only what an action cannot change besides is compared: indexes and modifiers, and for Blend the backstop's credit. What
a contract does after the accrual, in the same call, shows as a difference where it changes one of these (docs/lake.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.ledger.observation import Entry
from exporter.numbers import exact
from exporter.protocols.blend import layout as blend
from exporter.protocols.blend import math as blend_math
from exporter.protocols.k2 import layout as k2
from exporter.protocols.k2 import math as k2_math
from exporter.protocols.slender import layout as slender
from exporter.protocols.slender import math as slender_math
from exporter.protocols.xoxno import layout as xoxno
from exporter.protocols.xoxno import math as xoxno_math

Look = Callable[[bytes], Entry | None]
"""Gives the entry under a LedgerKey as it stands before the change."""


@dataclass(frozen=True, slots=True)
class Transition:
    """An accrual: the numbers before, with the ``close_time`` of the ledger, and those after, by the field compared."""

    before: dict[str, int | str]
    after: dict[str, int]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a protocol's accruals are known and computed.

    ``owns`` tells from a key whether its entry may be one; ``read`` gives the transitions of a change of it, from the
    entry before, the one after, what else stood before, and the ledger's close time. ``compute`` gives for a frame of
    the numbers before the fields compared, under their names.
    """

    protocol: str
    owns: Callable[[bytes], bool]
    read: Callable[[Entry, Entry, Look, int], Iterator[Transition]]
    compute: Callable[[pl.DataFrame], pl.DataFrame]
    texts: tuple[str, ...] = ()


def _variant(name: str) -> Callable[[bytes], bool]:
    """Whether a key is of an enum variant of this name with one value."""
    head = (scval.VEC).to_bytes(4, "big") + b"\0\0\0\1\0\0\0\2" + encode_scval(symbol(name))
    return lambda key: key.startswith(head, 40)


def _blend(before: Entry, after: Entry, look: Look, time: int) -> Iterator[Transition]:
    config = look(before.key.replace(encode_scval(symbol("ResData")), encode_scval(symbol("ResConfig")), 1))
    instance_entry = look(instance_key(strkey.encode_contract(before.key[8:40])))
    if config is None or instance_entry is None:
        return
    instance = blend.decode_instance(instance_entry)
    old, new = blend.decode_reserve(config, before), blend.decode_reserve(config, after)
    if not old["last_time"] < new["last_time"] == time or not old["b_supply"] or not old["d_supply"]:
        return
    row: dict[str, int | str] = {name: old[name] for name in blend_math.RESERVE_COLUMNS if name != "bstop_rate"}
    row |= {"bstop_rate": instance.backstop_rate, "generation": instance.generation, "close_time": time}
    yield Transition(row, {name: new[name] for name in ("b_rate", "d_rate", "ir_mod", "backstop_credit")})


def _blend_after(frame: pl.DataFrame) -> pl.DataFrame:
    return blend_math.project(frame).select(
        pl.col(f"accrued_{name}").alias(name) for name in ("b_rate", "d_rate", "ir_mod", "backstop_credit")
    )


def _xoxno(before: Entry, after: Entry, look: Look, time: int) -> Iterator[Transition]:
    parameters = look(before.key.replace(encode_scval(symbol("State")), encode_scval(symbol("Params")), 1))
    if parameters is None:
        return
    old, new = xoxno.decode_state(before), xoxno.decode_state(after)
    if not old["last_timestamp"] < new["last_timestamp"] == time * 1000 or not old["supplied"] or not old["borrowed"]:
        return
    row: dict[str, int | str] = {**xoxno.decode_parameters(parameters).numbers, **old, "close_time": time}
    yield Transition(row, {name: new[name] for name in ("borrow_index", "supply_index")})


def _xoxno_after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.select(pl.col(xoxno_math.POOL_COLUMNS).cast(pl.Int128))
    accrued = xoxno_math.accrue(state, exact.multiply(frame["close_time"].cast(pl.Int128), 1_000))
    return pl.DataFrame({"borrow_index": accrued.borrow_index, "supply_index": accrued.supply_index})


_K2_FIELDS = ("liquidity_index", "variable_borrow_index")
_K2_RATES = ("current_liquidity_rate", "current_variable_borrow_rate")


def _k2(before: Entry, after: Entry, look: Look, time: int) -> Iterator[Transition]:  # noqa: ARG001 - as the others
    old, new = k2.decode_reserve(before).numbers, k2.decode_reserve(after).numbers
    last = old["last_update_timestamp"]
    if last < new["last_update_timestamp"] == time and old["current_variable_borrow_rate"]:
        row: dict[str, int | str] = {name: old[name] for name in (*_K2_FIELDS, *_K2_RATES)}
        row |= {"last_update_timestamp": last, "close_time": time}
        yield Transition(row, {name: new[name] for name in _K2_FIELDS})


def _k2_after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.cast(pl.Int128)
    seconds = k2_math.elapsed(state["last_update_timestamp"], state["close_time"])
    supply = k2_math.linear_interest(state["current_liquidity_rate"], seconds)
    debt = k2_math.compound_interest(state["current_variable_borrow_rate"], seconds)
    return pl.DataFrame(
        {
            "liquidity_index": k2_math.ray_mul(state["liquidity_index"], supply),
            "variable_borrow_index": k2_math.ray_mul(state["variable_borrow_index"], debt),
        }
    )


def _is_slender(key: bytes) -> bool:
    return len(key) == 48


def _slender(before: Entry, after: Entry, look: Look, time: int) -> Iterator[Transition]:  # noqa: ARG001 - as above
    was, is_now = slender.decode_instance(before), slender.decode_instance(after)
    for asset in was.reserves:
        try:
            old, new = slender.decode_reserve(was, asset).numbers, slender.decode_reserve(is_now, asset).numbers
        except slender.RwaReserveError:
            continue
        last = old["last_update_timestamp"]
        if last < new["last_update_timestamp"] and old["debt_supply"]:
            # An operation grows the accrued rates by the rates that follow from what it did.
            row: dict[str, int | str] = {name: old[name] for name in ("lender_ar", "borrower_ar", "window")}
            row |= {name: new[name] for name in ("lender_ir", "borrower_ir")}
            row |= {"last_update_timestamp": last, "close_time": time}
            yield Transition(row, {name: new[name] for name in ("lender_ar", "borrower_ar")})


def _slender_after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.cast(pl.Int128)
    seconds = slender_math.elapsed_seconds(state["last_update_timestamp"], state["window"], state["close_time"])
    return pl.DataFrame(
        {
            name: slender_math.accrued_rate(state[name], state[f"{name[:-3]}_ir"], seconds)
            for name in ("lender_ar", "borrower_ar")
        }
    )


RULES = (
    Rule("blend", _variant("ResData"), _blend, _blend_after, ("generation",)),
    Rule("xoxno", _variant("State"), _xoxno, _xoxno_after),
    Rule("k2", _variant("RDATA"), _k2, _k2_after),
    Rule("slender", _is_slender, _slender, _slender_after),
)
