"""The document that says what is covered: protocols, the code of their contracts, and what is left out on purpose."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from exporter.api.fields import Compounding, ContractAddress, Count, Digest, Ledger, Positive, ProtocolName, Words

Day = Annotated[
    str,
    Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="A day, in UTC.", examples=["2026-11-18"]),
]


class ContractVersion(Struct, frozen=True, forbid_unknown_fields=True):
    """Markets that were read and run the same code; `wasm_hash` is null for those that have none."""

    version: Words
    wasm_hash: Digest | None
    market_count: Count


class KnownAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that was known beforehand: what it is to the protocol, and where its address was taken from."""

    deployment: Words
    role: Words
    address: ContractAddress
    name: Words
    wasm_hash: Digest | None
    source: Words
    date: Day


class ProtocolCoverage(Struct, frozen=True, forbid_unknown_fields=True):
    """What is read of a protocol, and what its numbers mean.

    `year_seconds` is the year that the protocol's annual rates are of; the texts say what is a market and a pool of
    it, how the yields follow from the rates, of which state rates and totals are and what is part of them, where the
    price comes from, and what is not in the numbers. In these the protocols differ. The counts are those of the
    published run.
    """

    protocol: ProtocolName
    title: Words
    structure: Words
    year_seconds: Positive
    supply_yield: Words
    borrow_yield: Words
    supply_compounding: Compounding
    borrow_compounding: Compounding
    rates: Words
    totals: Words
    prices: Words
    limits: Words
    market_count: Count
    pool_count: Count
    unread_count: Count
    unpriced_count: Count
    absent_count: Count
    contract_versions: list[ContractVersion]
    known_contracts: list[KnownAddress]


class Excluded(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out on purpose, and why."""

    name: Words
    kind: Words
    reason: Words


class ProtocolList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every protocol that a run looks for, also where it found nothing of it, and what is left out on purpose.

    What could not be read, and what has no price, is named in `/v1/system/status`.
    """

    observed_ledger: Ledger
    data: list[ProtocolCoverage]
    excluded: list[Excluded]
