"""Peridot's own views of a vault: what can be paid out, what is lent, the reserves and the exchange rate.

None of them accrues, so they are held against the state as it was read, not against what is projected from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.source import ContractCall
from exporter.protocols.base import NoView, ProtocolReading, ProtocolViews, Row, ViewCall
from exporter.protocols.peridot.layout import SCALE, decode_amount

FUNCTIONS = ("get_available_liquidity", "get_total_borrowed", "get_total_reserves", "get_exchange_rate")


class PeridotViews(ProtocolViews):
    """The view functions of Peridot."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for pool in reading.pools:
            for function in FUNCTIONS:
                yield ViewCall(pool["market"], pool["pool"], ContractCall(pool["pool"], function))

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:  # noqa: ARG002
        function, raw = asked.call.function, row["raw"]
        owned, supply = max(raw["net_cash"] + raw["total_borrowed"], 0), raw["receipt_supply"]
        ours = {
            "get_available_liquidity": max(owned - raw["total_borrowed"], 0),
            "get_total_borrowed": raw["total_borrowed"],
            "get_total_reserves": raw["total_reserves"],
            "get_exchange_rate": owned * SCALE // supply if owned and supply else raw["initial_exchange_rate"],
        }[function]
        return {function: (ours, decode_amount(value, f"{function}()"))}
