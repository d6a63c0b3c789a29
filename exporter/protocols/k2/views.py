"""K2's own view of a reserve, and of its borrow index alone, should the first fail (docs/protocols/k2.md, "Views")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import NoView, ProtocolReading, ProtocolViews, Row, ViewCall
from exporter.protocols.k2.layout import BPS, RESERVE, bits_of
from exporter.protocols.k2.math import RAY

VIEW = "get_current_reserve_data"
BORROW_INDEX = "get_current_var_borrow_idx"


class K2Views(ProtocolViews):
    """The view functions of K2."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        for pool in reading.pools:
            router, asset = pool["market"], (address(pool["pool"]),)
            for function in (VIEW, BORROW_INDEX):
                yield ViewCall(router, pool["pool"], ContractCall(router, function, asset))

    def fields(self, asked: ViewCall, value: ScVal, row: Row, time: int) -> Mapping[str, tuple[object, object]]:
        if asked.call.function == BORROW_INDEX:
            return {"borrow_index": (row["borrow_index"], expect(value, scval.U128, BORROW_INDEX))}
        reserve = Fields.of(value, VIEW)
        bits, numbers = bits_of(reserve.struct("configuration")), reserve.numbers(RESERVE)
        liquidity, borrow = numbers["liquidity_index"], numbers["variable_borrow_index"]
        supplied = _indexed(row["raw"]["total_supply_scaled"], liquidity)
        borrowed = _indexed(row["raw"]["total_debt_scaled"], borrow)
        return {
            "accrued_to": (time, numbers["last_update_timestamp"]),
            "supply_index": (row["supply_index"], liquidity),
            "borrow_index": (row["borrow_index"], borrow),
            "stored_supply_apr": (row["stored_supply_apr"], numbers["current_liquidity_rate"]),
            "stored_borrow_apr": (row["stored_borrow_apr"], numbers["current_variable_borrow_rate"]),
            "total_supplied": (row["total_supplied"], supplied),
            "total_borrowed": (row["total_borrowed"], borrowed),
            "utilization_bps": (row["utilization_bps"], borrowed * BPS // supplied if supplied else 0),
            "decimals": (row["decimals"], bits["decimals"]),
            "reserve_factor": (row["raw"]["reserve_factor"], bits["reserve_factor"]),
            "a_token": (row["raw"]["a_token"], reserve.address("a_token_address")),
            "debt_token": (row["raw"]["debt_token"], reserve.address("debt_token_address")),
        }


def _indexed(scaled: int, index: int) -> int:
    return (scaled * index + RAY // 2) // RAY
