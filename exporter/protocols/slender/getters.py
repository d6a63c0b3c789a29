"""Compares our numbers with Slender's own getters of a reserve: its state, shares, cash, and its two coefficients.

The coefficients are accrued to the time of the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import AnyPool, ComputedPool, ProtocolReading
from exporter.protocols.protocol import GetterCall, Getters, NoGetter, Pairs
from exporter.protocols.slender.layout import Reserve

_COEFFICIENTS = ("collat_coeff", "debt_coeff")


def _reserve(pool: AnyPool) -> Reserve:
    reserve: Reserve = pool.state
    return reserve


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls to make for all reserves."""
    for pool in reading.pools:
        market, reserve = pool.market.address, _reserve(pool)
        asset, s_token, debt_token = map(address, (pool.pool, reserve.s_token, reserve.debt_token))
        calls = [(function, (asset,)) for function in ("get_reserve", *_COEFFICIENTS)]
        calls += [("token_total_supply", (s_token,)), ("token_total_supply", (debt_token,))]
        for function, arguments in [*calls, ("token_balance", (asset, s_token))]:
            yield GetterCall(market, pool.pool, ContractCall(market, function, arguments))


def fields(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:  # noqa: ARG001
    """The fields in a getter's result, next to our own. Raises `DecodeError`."""
    function, reserve = asked.call.function, _reserve(computed.pool)
    row = computed.row
    if function == "get_reserve":
        fields = Fields.of(value, function)
        return {
            "lender_ar": (reserve.lender_ar, fields.i128("lender_ar")),
            "lender_ir": (reserve.lender_ir, fields.i128("lender_ir")),
            "borrower_ar": (reserve.borrower_ar, fields.i128("borrower_ar")),
            "borrower_ir": (reserve.borrower_ir, fields.i128("borrower_ir")),
            "last_accrual_time": (row["last_accrual_time"], fields.u64("last_update_timestamp")),
        }
    number = expect(value, scval.I128, function)
    match function:
        case "collat_coeff":
            return {function: (row["supply_index"], number)}
        case "debt_coeff":
            return {function: (row["borrow_index"], number)}
        case "token_balance":
            return {"cash": (reserve.cash, number)}
    if asked.call.arguments == (address(reserve.s_token),):
        return {"s_supply": (reserve.s_supply, number)}
    return {"debt_supply": (reserve.debt_supply, number)}


GETTERS = Getters(calls=calls, fields=fields)
