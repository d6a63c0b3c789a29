"""Documents of protocols: their totals, what is read of them, and what is left out."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import (
    Day,
    ObservedLedger,
    PricedCount,
    PricedValue,
    UnlistedMarkets,
    UnlistedPools,
    UnlistedPriced,
    UnlistedValue,
)
from exporter.tree.values import Compounding, ContractAddress, Count, Digest, Positive, ProtocolName, Words, doc


class ProtocolTotals(Struct, frozen=True, forbid_unknown_fields=True):
    """One protocol's part of the summary."""

    protocol: ProtocolName
    market_count: Annotated[Count, doc("Listed markets of the protocol that were read.")]
    pool_count: Annotated[Count, doc("Pools of these markets, read or not.")]
    priced_count: PricedCount
    tvl_usd_cents: PricedValue
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    unlisted_tvl_usd_cents: UnlistedValue


class ProtocolSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """The totals of all listed markets, and of each protocol, ascending by name.

    Pools count whether they could be read or not. The value is the sum over the `priced_count` pools that have a price,
    and null when none has. What markets that are not listed claim is in the fields that begin with `unlisted_`.
    """

    observed_ledger: ObservedLedger
    market_count: Annotated[Count, doc("Listed markets that were read.")]
    pool_count: Annotated[Count, doc("Pools of these markets, read or not.")]
    priced_count: PricedCount
    tvl_usd_cents: PricedValue
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    unlisted_tvl_usd_cents: UnlistedValue
    protocols: Annotated[list[ProtocolTotals], doc("The totals of each protocol, ascending by name.")]


class ContractVersion(Struct, frozen=True, forbid_unknown_fields=True):
    """The markets that were read and run the same code."""

    version: Annotated[Words, doc("Generation of the protocol's contracts, for example v2.")]
    wasm_hash: Annotated[Digest | None, doc("SHA-256 of their code, 64 hex digits; null if they have no code.")]
    market_count: Annotated[Count, doc("Markets that run this code.")]


class KnownAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """A contract that was known beforehand: what it is to the protocol, and where its address was taken from."""

    deployment: Annotated[Words, doc("The list that names the contract.")]
    role: Annotated[Words, doc("What the contract is to the protocol.")]
    address: Annotated[ContractAddress, doc("The contract, a strkey.")]
    name: Annotated[Words, doc("The contract's name.")]
    wasm_hash: Annotated[Digest | None, doc("SHA-256 of its code, 64 hex digits; null if the list has none.")]
    source: Annotated[Words, doc("Where the address was taken from.")]
    date: Annotated[Day, doc("When the address was taken from there: a day, in UTC.")]
    listed: Annotated[bool, doc("Whether it is a market that the exporter's lists vouch for.")]
    listed_source: Annotated[Words | None, doc("What shows the market to people; null if it is not listed.")]


class ProtocolCoverage(Struct, frozen=True, forbid_unknown_fields=True):
    """The coverage of a protocol, and the meaning of its numbers, in which protocols differ."""

    protocol: ProtocolName
    title: Annotated[Words, doc("The protocol's name.")]
    structure: Annotated[Words, doc("What a market and a pool of the protocol are.")]
    year_seconds: Annotated[Positive, doc("The length of the year in its annual rates, in seconds.")]
    supply_yield: Annotated[Words, doc("How suppliers' yield follows from the annual rate.")]
    borrow_yield: Annotated[Words, doc("How borrowers' cost follows from the annual rate.")]
    supply_compounding: Annotated[
        Compounding, doc("Times a year that the suppliers' yield is compounded, such as 365 for daily; or simple.")
    ]
    borrow_compounding: Annotated[
        Compounding, doc("Times a year that the borrowers' cost is compounded, such as 365 for daily; or simple.")
    ]
    rates: Annotated[Words, doc("The state from which the rates follow.")]
    totals: Annotated[Words, doc("The state from which the totals follow, and what is part of them.")]
    prices: Annotated[Words, doc("Where the price comes from.")]
    limits: Annotated[Words, doc("What is not in the numbers.")]
    market_count: Annotated[Count, doc("Markets of the protocol that were read.")]
    listed_market_count: Annotated[Count, doc("Markets of the protocol that were read and are listed.")]
    pool_count: Annotated[Count, doc("Pools of these markets, read or not.")]
    unread_count: Annotated[Count, doc("Markets and pools that could not be read.")]
    unpriced_count: Annotated[Count, doc("Pools that have no price.")]
    absent_count: Annotated[Count, doc("Known market addresses that have no contract.")]
    contract_versions: Annotated[list[ContractVersion], doc("Markets that were read, by the code that they run.")]
    known_contracts: Annotated[list[KnownAddress], doc("Contracts that were known beforehand.")]


class Excluded(Struct, frozen=True, forbid_unknown_fields=True):
    """A protocol that is left out on purpose, and why."""

    name: Annotated[Words, doc("What is left out.")]
    kind: Annotated[Words, doc("What sort of thing it is.")]
    reason: Annotated[Words, doc("Why it is left out, in words.")]


class ProtocolList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every protocol that a run looks for, also those of which it found nothing, and what is left out on purpose.

    `/v1/system/status` names what could not be read and what has no price.
    """

    observed_ledger: ObservedLedger
    data: Annotated[list[ProtocolCoverage], doc("The protocols, ascending by name.")]
    excluded: Annotated[list[Excluded], doc("What is left out on purpose.")]
