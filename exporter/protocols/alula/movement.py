"""Describes how a simulated network moves Alula's pools (`exporter.protocols.movement`)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval_encode import symbol
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, balance_field, fields_at, token_of_variant


def moving_pools(key: bytes, look: DataLookup) -> Iterator[MovingPool]:
    """The pool whose ``Pool`` entry has this ledger key."""
    token, at = token_of_variant(key, look), fields_at(key)
    supply = (NumberField(key, (symbol("total_j_tokens"),), 10),)
    debt = at("total_borrowed"), at("total_d_tokens")
    cash = at("total_available"), balance_field(look, token, strkey.encode_contract(key[8:40]))
    yield MovingPool(
        key=key,
        token=token,
        time=at("last_accrual_timestamp"),
        accrued=at,
        supply=supply,
        debt=debt,
        cash=cash,
        aside=(at("take_rate_fees_sum"), at("total_collateral")),
    )
