"""Describes how a simulated network moves Peridot's pools (`exporter.protocols.movement`)."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.scval_encode import symbol, vec
from exporter.protocols.movement import DataLookup, MovingPool, NumberField, balance_field, text_at

_ENTRY_NAMES = {
    "borrow_index": "BorrowIndex",
    "total_admin_fees": "TotalAdminFees",
    "total_borrowed": "TotalBorrowed",
    "total_reserves": "TotalReserves",
}


def moving_pools(key: bytes, look: DataLookup) -> Iterator[MovingPool]:
    """The vault whose ``LastUpdateTime`` entry has this ledger key."""
    vault = strkey.encode_contract(key[8:40])
    token = text_at(look, variant_key(vault, "UnderlyingToken"))

    def entry(name: str) -> NumberField:
        return NumberField(variant_key(vault, name), ())

    supply = NumberField(instance_key(vault), (vec(symbol("TotalSupply")),)), entry("TotalDeposited")
    model = text_at(look, variant_key(vault, "InterestModel"))
    debt = entry("TotalBorrowed"), entry("TotalBorrowPrincipal")
    cash = entry("ManagedCash"), balance_field(look, token, vault)
    yield MovingPool(
        key=key,
        token=token,
        time=entry("LastUpdateTime"),
        accrued=lambda name: entry(_ENTRY_NAMES[name]),
        supply=supply,
        debt=debt,
        cash=cash,
        aside=(entry("TotalReserves"), entry("TotalAdminFees")),
        term=lambda name: NumberField(variant_key(model, name), ()),
    )
