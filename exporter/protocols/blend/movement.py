"""Describes how a simulated network moves Blend's pools (`exporter.protocols.movement`)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.scval_encode import address
from exporter.protocols.movement import DataLookup, MovingPool, balance_field, fields_at, token_of_variant


def moving_pools(key: bytes, look: DataLookup) -> Iterator[MovingPool]:
    """The reserve whose ``ResData`` entry has this ledger key."""
    token, at = token_of_variant(key, look), fields_at(key)
    scale = 10**12 if at("d_rate").read(look) > 10**11 else 10**9
    market = strkey.encode_contract(key[8:40])
    cash = balance_field(look, token, market)
    config = fields_at(variant_key(market, "ResConfig", address(token)))
    yield MovingPool(
        key=key,
        token=token,
        time=at("last_time"),
        accrued=at,
        supply=(at("b_supply"),),
        debt=(at("d_supply"),),
        cash=(cash,),
        aside=(at("backstop_credit"),),
        term=lambda name: at(name) if name == "ir_mod" else config(name),
        index=at("d_rate"),
        scale=scale,
    )
