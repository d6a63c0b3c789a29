"""The status document, which says which run is published, with all that the run could not read or price."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import MarketAddress, ObservedLedger, Passphrase
from exporter.tree.values import (
    Amount,
    BasisPoints,
    Count,
    Digest,
    Ledger,
    ObjectKey,
    PoolId,
    Positive,
    ProtocolName,
    Reason,
    RunId,
    SkipReasonName,
    Timestamp,
    Version,
    Words,
    doc,
)


class Unread(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool, or a whole market (then `pool` is null), that could not be read, and why."""

    market: MarketAddress
    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for the whole market.")]
    protocol: ProtocolName
    reason: Reason
    detail: Annotated[str, doc("Why it could not be read, in words.")]


class Unpriced(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool whose price is null, and why."""

    market: MarketAddress
    pool: PoolId
    reason: Reason


class UnpricedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """A market in which pools have no price, with their number and their share."""

    market: MarketAddress
    pool_count: Annotated[Count, doc("Pools of the market that were read.")]
    unpriced_count: Annotated[Count, doc("Pools that were read and have no price.")]
    unpriced_bps: Annotated[BasisPoints, doc("Share of the pools that have no price, in basis points, rounded down.")]


class Bounded(Struct, frozen=True, forbid_unknown_fields=True):
    """A number of a pool that is too large for its column and is published as the column's bound.

    The true number is the bound or more.
    """

    market: MarketAddress
    pool: PoolId
    field: Annotated[str, doc("The name of the number's column in the Parquet history.")]
    bound: Annotated[Amount, doc("The published number: the most that the column can hold, in its unit.")]


class Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """A known market address at which there is no contract at this ledger."""

    market: MarketAddress
    protocol: ProtocolName
    reason: Reason


class SkippedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """A market that a run did not read, or did not read to the end, and why."""

    market: MarketAddress
    protocol: ProtocolName
    reason: SkipReasonName


class SkippedCounts(Struct, frozen=True, forbid_unknown_fields=True):
    """How many markets a run did not read, or not to the end, by the reason."""

    excluded: Annotated[Count, doc("Markets that the publisher's configuration excludes.")]
    pools: Annotated[Count, doc("Unlisted markets for whose pools there was no room.")]
    time: Annotated[Count, doc("Unlisted markets for which there was no time.")]
    changed: Annotated[Count, doc("Unlisted markets that changed while they were read; they are unread.")]
    failed: Annotated[Count, doc("Unlisted markets about which the source gave no usable answer; they are unread.")]


class SkippedList(Struct, frozen=True, forbid_unknown_fields=True):
    """Markets that the run did not read, or not to the end, by address, ascending; 500 a page."""

    observed_ledger: ObservedLedger
    page: Annotated[Positive, doc("The number of this page, from 1.")]
    page_count: Annotated[Positive, doc("The number of pages. The next ones are at /v1/skipped/2 and so on.")]
    data: Annotated[list[SkippedMarket], doc("The markets of this page.")]


class SystemStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """The status document, which says which run is published. It is written last, so all files of that run exist.

    The network `local` runs on a single machine, as that of `exporter demo` does. Until `/v1/proofs` lists the run, its
    numbers are the RPC's word. `proof_checkpoint` can be proven when the network has published the checkpoint after it,
    64 ledgers later.
    """

    run_id: RunId
    format: Version
    network: Passphrase
    network_name: Annotated[Words, doc("`mainnet`, `testnet`, `local`, or `custom` for any other.")]
    observed_ledger: ObservedLedger
    ledger_close_time: Annotated[Timestamp, doc("Close time of the observed ledger.")]
    generated_at: Annotated[Timestamp, doc("When the run was made.")]
    next_expected_at: Annotated[
        Timestamp | None, doc("When a newer run should have replaced this one; null when not known.")
    ]
    market_count: Annotated[Count, doc("Markets that were read.")]
    listed_market_count: Annotated[Count, doc("Markets that were read and are listed.")]
    pool_count: Annotated[Count, doc("Pools of the markets that were read, whether these were read or not.")]
    token_count: Annotated[Count, doc("Different tokens of the pools that were read.")]
    unread_count: Annotated[Count, doc("Entries of `unread`.")]
    unpriced_count: Annotated[Count, doc("Entries of `unpriced`.")]
    unread: Annotated[list[Unread], doc("The markets and pools that could not be read, each with the reason.")]
    unpriced: Annotated[list[Unpriced], doc("Pools whose price is null.")]
    bounded: Annotated[list[Bounded], doc("Numbers that are published as the most that their column can hold.")]
    absent: Annotated[list[Absent], doc("Known market addresses at which there is no contract.")]
    notices: Annotated[list[str], doc("What else people should know about the run.")]
    page_sizes: Annotated[list[Positive], doc("The sizes in which pages are rendered, in rows, ascending.")]
    default_page_size: Annotated[Positive, doc("Rows of a page without a limit.")]
    retention_hours: Annotated[Count, doc("How long files of earlier runs are kept, in hours.")]
    manifest_key: Annotated[ObjectKey, doc("Key of the run's manifest.")]
    manifest_sha256: Annotated[Digest, doc("SHA-256 of the run's manifest, 64 hex digits.")]
    previous_run_id: Annotated[RunId | None, doc("The id of the previous run; null for the first run.")]
    evidence_key: Annotated[ObjectKey, doc("Key of the file with everything that the run's numbers come from.")]
    market_pools_cap: Annotated[Positive, doc("Largest number of pools in the document of a market.")]
    proof_checkpoint: Annotated[Ledger, doc("The ledger with whose state the run can be compared.")]
    risk_key: Annotated[ObjectKey | None, doc("Key of the risk document that markets show; null if none is recent.")]
    risk_sha256: Annotated[Digest | None, doc("SHA-256 of that risk document, 64 hex digits; null without one.")]
    unpriced_bps: Annotated[
        BasisPoints, doc("Share of the pools read in listed markets that have no price, in basis points, rounded down.")
    ]
    unpriced_markets: Annotated[list[UnpricedMarket], doc("Markets with pools that have no price, ascending.")]
    skipped_counts: Annotated[SkippedCounts, doc("Markets that were not read, or not to the end, by the reason.")]
    skipped: Annotated[list[SkippedMarket], doc("The first 20 skipped markets; all are at `/v1/skipped`.")]
