"""Describes how a simulated network moves Slender's pools (`exporter.protocols.movement`)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import decode_contract_data, instance_of, is_instance_key, variant_key
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, fields_at, pairs_of


def moving_pools(key: bytes, look: DataLookup) -> Iterator[MovingPool]:
    """The reserves of the market whose instance has this ledger key."""
    if not is_instance_key(key):
        return
    market = strkey.encode_contract(key[8:40])
    storage = instance_of(decode_contract_data(look(key) or b"")).storage
    for name, value in storage or ():
        if name[0] != scval.VEC or name[1][0] != symbol("ReserveAssetKey"):
            continue
        token = str(name[1][1][1])
        _, (_, (_, shares), (_, debts)) = dict(pairs_of(value))[symbol("reserve_type")]
        supply, debt = (NumberField(key, (vec(symbol("TokenSupply"), address(each)),)) for each in (shares, debts))
        cash = NumberField(variant_key(market, "TokenBalance", address(token), address(shares)), ())
        at = fields_at(key, name)
        yield MovingPool(
            key=key,
            token=token,
            time=at("last_update_timestamp"),
            accrued=at,
            supply=(supply,),
            debt=(debt,),
            cash=(cash,),
            index=at("borrower_ar"),
            scale=10**9,
        )
