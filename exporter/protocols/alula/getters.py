"""Compares our numbers with Alula's own getter of a pool (docs/protocols/alula.md, "Getters").

The getter fails if the contract refuses the price.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.source import ContractCall
from exporter.protocols.base import ComputedPool, ProtocolReading
from exporter.protocols.protocol import GetterCall, Getters, NoGetter, Pairs

GETTER = "get_pool_data"
_BPS = 10_000
_PRICE_REFUSED = re.compile(r"Error\(Contract, #50[0-2]\)")
"""The contract's errors for a price that is unknown, stale, or not above zero (docs/protocols/alula.md, "Getters")."""


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls to make for all pools."""
    for pool in reading.pools:
        call = ContractCall(pool.market.address, GETTER, (address(pool.pool),))
        yield GetterCall(pool.market.address, pool.pool, call)


def fields(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:  # noqa: ARG001
    """The fields in the getter's result, next to our own. Raises `DecodeError`."""
    row = computed.row
    answer = Fields.of(value, GETTER)
    stored, apy = answer.struct("pool"), answer.struct("apy")
    supplied, borrowed = answer.i128("total_supply"), stored.i128("total_borrowed")
    return {
        "pool": (row["pool"], stored.address("pool_address")),
        "token_address": (row["token_address"], stored.address("token_address")),
        "decimals": (row["decimals"], stored.u32("token_decimals")),
        "supply_apy_bps": (row["supply_apy_bps"], apy.u32("supply_bps")),
        "borrow_apy_bps": (row["borrow_apy_bps"], apy.u32("borrow_bps")),
        "utilization_bps": (row["utilization_bps"], borrowed * _BPS // supplied if supplied else 0),
        "total_supplied": (row["total_supplied"], supplied),
        "total_borrowed": (row["total_borrowed"], borrowed),
        "total_collateral": (row["total_collateral"], stored.i128("total_collateral")),
        "supply_index": (row["supply_index"], answer.i128("j_token_rate_floor_bps")),
        "borrow_index": (row["borrow_index"], answer.i128("d_token_rate_ceil_bps")),
        "rate_modifier": (row["rate_modifier"], stored.i128("interest_rate_modifier_bps")),
        "backstop_credit": (row["backstop_credit"], stored.i128("take_rate_fees_sum")),
        "last_accrual_time": (row["last_accrual_time"], stored.u64("last_accrual_timestamp")),
        "oracle_price": (row["oracle_price"], answer.i128("oracle_asset_price")),
    }


def refused(error: str, computed: ComputedPool) -> Pairs:
    """The price as a field that the contract does not have, if its error says that it refuses the price; else empty."""
    return {"oracle_price": (computed.row["oracle_price"], None)} if _PRICE_REFUSED.search(error) else {}


GETTERS = Getters(calls=calls, fields=fields, refused=refused)
