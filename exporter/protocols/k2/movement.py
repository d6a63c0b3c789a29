"""Describes how a simulated network moves K2's pools (`exporter.protocols.movement`)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import symbol, vec
from exporter.protocols.k2.layout import BITS
from exporter.protocols.movement import (
    DataLookup,
    MovingPool,
    NumberField,
    balance_field,
    fields_at,
    text_at,
    token_of_variant,
)


def moving_pools(key: bytes, look: DataLookup) -> Iterator[MovingPool]:
    """The reserve whose ``RDATA`` entry has this ledger key."""
    token, at = token_of_variant(key, look), fields_at(key)
    shares, debts = (text_at(look, key, symbol(f"{name}_token_address")) for name in ("a", "debt"))
    supply = NumberField(instance_key(shares), (vec(symbol("State")), symbol("total_supply_scaled")))
    debt = NumberField(instance_key(debts), (vec(symbol("State")), symbol("total_debt_scaled")))
    yield MovingPool(
        key=key,
        token=token,
        time=at("last_update_timestamp"),
        accrued=at,
        supply=(supply,),
        debt=(debt,),
        cash=(balance_field(look, token, shares),),
        term=lambda name: NumberField(key, (symbol("configuration"), symbol("data_low")), bits=BITS[name][:2]),
        index=at("variable_borrow_index"),
        scale=10**27,
        settled=("current_liquidity_rate", "current_variable_borrow_rate"),
    )
