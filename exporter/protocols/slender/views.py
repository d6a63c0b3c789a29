"""Slender's own views of a reserve: its state, shares and cash, and its two coefficients as of the call's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import NoView, ProtocolReading, ProtocolViews, Row, ViewCall

_COEFFICIENTS = {"collat_coeff": "supply_index", "debt_coeff": "borrow_index"}
_RATES = ("lender_ar", "lender_ir", "borrower_ar", "borrower_ir")


class SlenderViews(ProtocolViews):
    """The view functions of Slender."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for pool in reading.pools:
            asset, s_token, debt_token = (address(pool[name]) for name in ("pool", "s_token", "debt_token"))
            calls = [(function, (asset,)) for function in ("get_reserve", *_COEFFICIENTS)]
            calls += [("token_total_supply", (s_token,)), ("token_total_supply", (debt_token,))]
            for function, arguments in [*calls, ("token_balance", (asset, s_token))]:
                yield ViewCall(pool["market"], pool["pool"], ContractCall(pool["market"], function, arguments))

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:  # noqa: ARG002
        function = asked.call.function
        if function == "get_reserve":
            reserve = Fields.of(value, function)
            last_update = row["last_accrual_time"], reserve.u64("last_update_timestamp")
            return {name: (row["raw"][name], reserve.i128(name)) for name in _RATES} | {
                "last_accrual_time": last_update
            }
        found = expect(value, scval.I128, function)
        if function in _COEFFICIENTS:
            return {function: (row[_COEFFICIENTS[function]], found)}
        name = "cash"
        if function == "token_total_supply":
            name = "s_supply" if asked.call.arguments == (address(row["raw"]["s_token"]),) else "debt_supply"
        return {name: (row["raw"][name], found)}
