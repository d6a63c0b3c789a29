"""Compares our numbers with K2's own getters of a reserve (docs/protocols/k2.md, "Getters").

The borrow index has a getter of its own, which is compared even if the getter of the reserve fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import ComputedPool, ProtocolReading
from exporter.protocols.k2.layout import BPS, Reserve, decode_configuration, decode_reserve_data
from exporter.protocols.k2.math import RAY
from exporter.protocols.protocol import GetterCall, Getters, NoGetter, Pairs

GETTER = "get_current_reserve_data"
BORROW_INDEX = "get_current_var_borrow_idx"


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls to make for all reserves."""
    for pool in reading.pools:
        router, asset = pool.market.address, (address(pool.pool),)
        for function in (GETTER, BORROW_INDEX):
            yield GetterCall(router, pool.pool, ContractCall(router, function, asset))


def fields(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:
    """The fields in a getter's result, next to our own. Raises `DecodeError`."""
    row = computed.row
    if asked.call.function == BORROW_INDEX:
        return {"borrow_index": (row["borrow_index"], expect(value, scval.U128, BORROW_INDEX))}
    reserve: Reserve = computed.pool.state
    answer = Fields.of(value, GETTER)
    configuration, data = decode_configuration(answer.struct("configuration")), decode_reserve_data(answer)
    supplied = _indexed(reserve.total_supply_scaled, data.liquidity_index)
    borrowed = _indexed(reserve.total_debt_scaled, data.variable_borrow_index)
    return {
        "accrued_to": (time, data.last_update_timestamp),
        "supply_index": (row["supply_index"], data.liquidity_index),
        "borrow_index": (row["borrow_index"], data.variable_borrow_index),
        "stored_supply_apr": (row["stored_supply_apr"], data.current_liquidity_rate),
        "stored_borrow_apr": (row["stored_borrow_apr"], data.current_variable_borrow_rate),
        "total_supplied": (row["total_supplied"], supplied),
        "total_borrowed": (row["total_borrowed"], borrowed),
        "utilization_bps": (row["utilization_bps"], borrowed * BPS // supplied if supplied else 0),
        "decimals": (row["decimals"], configuration.decimals),
        "reserve_factor": (reserve.configuration.reserve_factor, configuration.reserve_factor),
        "a_token": (reserve.a_token, answer.address("a_token_address")),
        "debt_token": (reserve.debt_token, answer.address("debt_token_address")),
    }


def _indexed(scaled: int, index: int) -> int:
    return (scaled * index + RAY // 2) // RAY


GETTERS = Getters(calls=calls, fields=fields)
