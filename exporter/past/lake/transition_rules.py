"""By protocol: which entries a contract writes when it brings a pool up to date, and what they must be.

Only what an action cannot change besides is compared, or what the entries show that it did not change. What a contract
does after the accrual, in the same call, shows as a difference where it changes one of these (docs/lake.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.ledger.observation import Entry
from exporter.numbers import exact
from exporter.protocols.alula import layout as alula
from exporter.protocols.alula import math as alula_math
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.blend import layout as blend
from exporter.protocols.blend import math as blend_math
from exporter.protocols.k2 import layout as k2
from exporter.protocols.k2 import math as k2_math
from exporter.protocols.peridot import layout as peridot
from exporter.protocols.peridot import math as peridot_math
from exporter.protocols.slender import layout as slender
from exporter.protocols.slender import math as slender_math
from exporter.protocols.xoxno import layout as xoxno
from exporter.protocols.xoxno import math as xoxno_math

Look = Callable[[bytes], Entry | None]
"""Gives the entry under a LedgerKey."""


class UntriedError(Exception):
    """A contract brought a pool up to date, and what its math needs besides is not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """A ledger and its close time: entries before it, after the first change that it made of each, and after all."""

    time: int
    before: Look
    first: Look
    after: Look


@dataclass(frozen=True, slots=True)
class Transition:
    """An accrual: the numbers before, with the ``close_time`` of the ledger, and those after, by the field compared."""

    before: dict[str, int | str]
    after: dict[str, int]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a protocol's accruals are known and computed.

    ``owns`` says by a key whether its entry may be one; ``read`` gives the transitions that an update of it shows,
    and raises `UntriedError`.
    ``compute`` gives for a frame of the numbers before the fields compared, under their names.
    """

    protocol: str
    owns: Callable[[bytes], bool]
    read: Callable[[bytes, Step], Iterator[Transition]]
    compute: Callable[[pl.DataFrame], pl.DataFrame]
    texts: tuple[str, ...] = ()


def _variant(name: str, values: int = 1) -> Callable[[bytes], bool]:
    """Whether a key is of an enum variant of this name with this number of values."""
    head = (scval.VEC).to_bytes(4, "big") + b"\0\0\0\1" + (1 + values).to_bytes(4, "big") + encode_scval(symbol(name))
    return lambda key: key.startswith(head, 40)


def _change(key: bytes, step: Step) -> tuple[Entry, Entry]:
    """An updated entry before the ledger, and after its first change."""
    before, first = step.before(key), step.first(key)
    assert before is not None  # or it would not be an update
    assert first is not None
    return before, first


def _blend(key: bytes, step: Step) -> Iterator[Transition]:
    config = step.before(key.replace(encode_scval(symbol("ResData")), encode_scval(symbol("ResConfig")), 1))
    instance_entry = step.before(instance_key(strkey.encode_contract(key[8:40])))
    if config is None or instance_entry is None:
        was, is_now = (Fields.of(entry.value, "ResData").time("last_time") for entry in _change(key, step))
        if was < is_now == step.time:
            raise UntriedError
        return
    instance = blend.decode_instance(instance_entry)
    old, new = (blend.decode_reserve(config, entry) for entry in _change(key, step))
    if not old["last_time"] < new["last_time"] == step.time or not old["b_supply"] or not old["d_supply"]:
        return
    row: dict[str, int | str] = {name: old[name] for name in blend_math.RESERVE_COLUMNS if name != "bstop_rate"}
    row |= {"bstop_rate": instance.backstop_rate, "generation": instance.generation, "close_time": step.time}
    yield Transition(row, {name: new[name] for name in ("b_rate", "d_rate", "ir_mod", "backstop_credit")})


def _blend_after(frame: pl.DataFrame) -> pl.DataFrame:
    return blend_math.project(frame).select(
        pl.col(f"accrued_{name}").alias(name) for name in ("b_rate", "d_rate", "ir_mod", "backstop_credit")
    )


def _xoxno(key: bytes, step: Step) -> Iterator[Transition]:
    entry = step.before(key.replace(encode_scval(symbol("State")), encode_scval(symbol("Params")), 1))
    old, new = (xoxno.decode_state(state) for state in _change(key, step))
    time = step.time * 1000
    if not old["last_timestamp"] < new["last_timestamp"] == time or not old["supplied"] or not old["borrowed"]:
        return
    if entry is None:
        raise UntriedError
    parameters = xoxno.decode_parameters(entry).numbers
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
    ray = xoxno_math.RAY
    supplied = new["supplied"] - new["revenue"] - (old["supplied"] - old["revenue"])
    owed = new["borrowed"] - old["borrowed"]
    unit = 10 ** (xoxno.RAY_DECIMALS - parameters["asset_decimals"])
    users = (supplied * new["supply_index"] - owed * new["borrow_index"]) // ray
    return not -unit < (new["cash"] - old["cash"]) * unit - users < unit


def _xoxno_after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.select(pl.col(xoxno_math.POOL_COLUMNS).cast(pl.Int128))
    accrued = xoxno_math.accrue(state, exact.multiply(frame["close_time"].cast(pl.Int128), 1_000))
    return pl.DataFrame({name: getattr(accrued, name) for name in ("borrow_index", "supply_index", "revenue")})


_K2_INDEXES = ("liquidity_index", "variable_borrow_index")
_K2_RATES = ("current_liquidity_rate", "current_variable_borrow_rate")


def _k2(key: bytes, step: Step) -> Iterator[Transition]:
    old, new = (k2.decode_reserve(entry).numbers for entry in _change(key, step))
    last = old["last_update_timestamp"]
    if not last < new["last_update_timestamp"] == step.time or not old["current_variable_borrow_rate"]:
        return
    row: dict[str, int | str] = {**dict.fromkeys(k2_math.RESERVE_COLUMNS, 0), "close_time": step.time}
    row |= {name: old[name] for name in (*_K2_INDEXES, *_K2_RATES, "last_update_timestamp")}
    settled, rates = _k2_settled(key, step, old)
    row |= settled
    yield Transition(row, {name: new[name] for name in _K2_INDEXES} | rates)


def _k2_settled(key: bytes, step: Step, old: dict[str, int]) -> tuple[dict[str, int | str], dict[str, int]]:
    """What the rates at the end of a ledger follow from, and these; neither where they were not fixed again.

    A reserve within a flash loan is stored with its old rates.
    """
    entry = step.after(key)
    if entry is None:
        return {}, {}
    reserve = k2.decode_reserve(entry)
    asset = entry.contract_data().key[1][1][1]
    a_token, debt_token = (step.after(instance_key(token)) for token in (reserve.a_token, reserve.debt_token))
    own, defaults = (step.after(model) for model in k2.rate_model_keys(reserve.rate_contract, asset))
    rates = {name: reserve.numbers[name] for name in _K2_RATES}
    if a_token is None or debt_token is None or own is defaults is None or rates.items() <= old.items():
        return {}, {}
    totals: dict[str, int | str] = {
        "total_supply_scaled": k2.decode_a_token(a_token).scaled,
        "total_debt_scaled": k2.decode_debt_token(debt_token).scaled,
    }
    totals |= {**k2.decode_rate_model(own, defaults), "reserve_factor": reserve.numbers["reserve_factor"]}
    return totals, rates


def _k2_after(frame: pl.DataFrame) -> pl.DataFrame:
    accrued = k2_math.project(frame)
    names = (*_K2_INDEXES, "current_liquidity_rate", "current_variable_borrow_rate")
    return accrued.select(pl.col(f"accrued_{name.removeprefix('current_')}").alias(name) for name in names)


def _is_slender(key: bytes) -> bool:
    return len(key) == 48


def _slender(key: bytes, step: Step) -> Iterator[Transition]:
    was, is_now = (slender.decode_instance(entry) for entry in _change(key, step))
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
            row |= {"last_update_timestamp": last, "close_time": step.time}
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


_ALULA_STEERED = ("take_rate_fees_sum", "interest_rate_modifier_bps")


def _alula(key: bytes, step: Step) -> Iterator[Transition]:
    was, is_now = _change(key, step)
    old, new = alula.decode_pool(was).numbers, alula.decode_pool(is_now).numbers
    last = old["last_accrual_timestamp"]
    if not last < new["last_accrual_timestamp"] == step.time or not old["total_borrowed"]:
        return
    config, after = Fields.of(was.value, "Pool").struct("config"), Fields.of(is_now.value, "Pool")
    row: dict[str, int | str] = {name: old[name] for name in alula_math.POOL_COLUMNS}
    row |= {"seconds": step.time - last, **{f"found_{name}": new[name] for name in _ALULA_STEERED}}
    row["target_utilization_ratio_bps"] = config.i128("target_utilization_ratio_bps")
    row["ir_reactivity_constant"] = config.u32("ir_reactivity_constant")
    found = {name: after.i128(name) for name in ("borrow_apr_bps", "supply_apr_bps")}
    found["interest_rate_modifier_bps"] = new["interest_rate_modifier_bps"]
    if new["take_rate_fees_sum"] >= old["take_rate_fees_sum"]:  # or they were paid out
        found["take_rate_fees_sum"] = new["take_rate_fees_sum"]
    if new["total_d_tokens"] == old["total_d_tokens"]:
        found["total_borrowed"] = new["total_borrowed"]
    yield Transition(row, found)


def _alula_after(frame: pl.DataFrame) -> pl.DataFrame:
    state = frame.cast(pl.Int128)
    accrued = alula_math.accrue(state, state["seconds"])

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


def _peridot(key: bytes, step: Step) -> Iterator[Transition]:
    contract = strkey.encode_contract(key[8:40])
    old, new = (
        peridot.decode_vault(contract, {each: look(each) for each in peridot.vault_keys(contract)})
        for look in (step.before, step.first)
    )
    numbers, found = old.numbers, new.numbers
    if not numbers["last_update_time"] < found["last_update_time"] == step.time or not numbers["total_borrowed"]:
        return
    cash = old.implied_cash
    aside = numbers["total_reserves"] + numbers["total_admin_fees"]
    implied = numbers["total_deposited"] + aside - numbers["total_borrowed"] - cash
    if old.rule != peridot.BoostRule.CACHED and (old.boosted is not None or implied > 0):
        raise UntriedError  # no entry says what boosted cash counted
    live_cash = 0
    if old.model is None:
        curve = peridot.fixed_curve(old.fixed_rate or 0)
    else:
        balance = step.before(balance_key(old.token, contract))
        if balance is None and cash:
            raise UntriedError  # a token that keeps its balances in its own way
        live_cash = decode_balance(balance)
        keys = peridot.entry_keys(old.model, peridot.MODEL_ENTRIES)
        curve = peridot.decode_model(old.model, {each: step.before(each) for each in keys})
    row: dict[str, int | str] = {**dict.fromkeys(peridot_math.VAULT_COLUMNS, 0), **numbers, **curve}
    row |= {"live_cash": live_cash, "managed_cash": cash, "close_time": step.time}
    row |= {"boost_rule": old.rule, "fixed_rate": -1 if old.fixed_rate is None else old.fixed_rate}
    names = ["borrow_index"]
    if found["total_admin_fees"] >= numbers["total_admin_fees"]:  # or they were paid out
        names.append("total_admin_fees")
    if old.receipt_supply != new.receipt_supply:  # a deposit or a redemption, which changes neither
        names += ["total_borrowed", "total_reserves"]
    yield Transition(row, {name: found[name] for name in names})


def _peridot_after(frame: pl.DataFrame) -> pl.DataFrame:
    accrued = peridot_math.accrue(frame.cast(pl.Int128))
    return pl.DataFrame(
        {
            "borrow_index": accrued.borrow_index,
            "total_admin_fees": accrued.admin_fees,
            "total_borrowed": accrued.borrowed,
            "total_reserves": accrued.reserves,
        }
    )


RULES = (
    Rule("blend", _variant("ResData"), _blend, _blend_after, ("generation",)),
    Rule("xoxno", _variant("State"), _xoxno, _xoxno_after),
    Rule("k2", _variant("RDATA"), _k2, _k2_after),
    Rule("slender", _is_slender, _slender, _slender_after),
    Rule("alula", _variant("Pool"), _alula, _alula_after),
    Rule("peridot", _variant("LastUpdateTime", 0), _peridot, _peridot_after),
)
