"""Describes how a simulated network moves the pools of XOXNO Lending (`exporter.protocols.movement`)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval_encode import symbol
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, fields_at, pairs_of, token_decimals


def moving_pools(key: bytes, look: DataLookup) -> Iterator[MovingPool]:
    """The hub market whose ``State`` entry has this ledger key."""
    asset = dict(pairs_of(decode_contract_data(look(key) or b"").key[1][1]))
    token, at = str(asset[symbol("asset")][1]), fields_at(key)
    unit = 10 ** (27 - token_decimals(look, token))
    supply, debt = (NumberField(key, (symbol(name),), unit) for name in ("supplied", "borrowed"))
    yield MovingPool(
        key=key,
        token=token,
        time=at("last_timestamp"),
        accrued=at,
        supply=(supply,),
        debt=(debt,),
        cash=(at("cash"),),
        index=at("borrow_index"),
        scale=10**27 * unit,
        milliseconds=True,
        fees="revenue",
    )
