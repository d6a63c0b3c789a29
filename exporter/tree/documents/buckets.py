"""The histories of pools and of totals, in time buckets."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import (
    MarketAddress,
    ObservedLedger,
    OlderCursor,
    UnlistedMarkets,
    UnlistedPools,
    UnlistedPriced,
    UnlistedValue,
)
from exporter.tree.values import (
    Amount,
    BasisPoints,
    BucketName,
    Change,
    Count,
    Ledger,
    PoolId,
    Positive,
    Price,
    Scope,
    ScopeId,
    Timestamp,
    UsdCents,
    doc,
)


class HistoryBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """The observations of a pool from `start_time` (inclusive) to `end_time` (exclusive).

    Amounts and the value are averages over the observations, rounded down. Rates and the price are medians: the middle
    value or, if their number is even, the mean of the two in the middle, rounded down. A price is rounded at the most
    decimals that a price of the bucket has. The value and the price are computed from the `priced_count` observations
    that have a price, and null when none has.
    """

    start_time: Annotated[Timestamp, doc("When the bucket begins.")]
    end_time: Annotated[Timestamp, doc("When it ends; this time is not part of it.")]
    total_supplied: Annotated[Amount, doc("Mean of what was lent into the pool, in token base units, rounded down.")]
    total_borrowed: Annotated[Amount, doc("Mean of what was owed to the pool, in token base units, rounded down.")]
    supply_apy_bps: Annotated[
        BasisPoints,
        doc(
            "Median annual yield of suppliers, compounded as the protocol does it, in basis points, rounded down; to "
            "compare protocols take `comparable_supply_apy_bps`."
        ),
    ]
    realized_supply_apy_bps: Annotated[
        Change | None,
        doc(
            "What a supply share gained from the first to the last observation without rewards, as the annual yield "
            "of a year with the same growth, in basis points, rounded down; null with one observation."
        ),
    ]
    realized_supply_reward: Annotated[
        Price | None,
        doc(
            "What one token that was supplied at the first observation was paid until the last, in whole reward "
            "tokens, rounded down; null with one observation, and when unknown."
        ),
    ]
    borrow_apy_bps: Annotated[
        BasisPoints,
        doc(
            "Median annual cost of borrowers, compounded as the protocol does it, in basis points, rounded down; to "
            "compare protocols take `comparable_borrow_apy_bps`."
        ),
    ]
    realized_borrow_apy_bps: Annotated[
        Change | None,
        doc(
            "What a debt grew from the first to the last observation without rewards, as the annual cost of a year "
            "with the same growth, in basis points, rounded down; null with one observation."
        ),
    ]
    comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Median annual yield of suppliers compounded daily, alike for every protocol, in basis points, rounded "
            "down; null if rows of that time do not have it."
        ),
    ]
    comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Median annual cost of borrowers compounded daily, alike for every protocol, in basis points, rounded "
            "down; null if rows of that time do not have it."
        ),
    ]
    interest_paid: Annotated[
        Amount | None,
        doc(
            "Interest of borrowers since the pool's observation before the bucket, in token base units: at each "
            "observation, what was owed at the one before times the growth of the borrow index, rounded down; null "
            "for the pool's first observation."
        ),
    ]
    interest_paid_usd_cents: Annotated[
        UsdCents | None, doc("`interest_paid` at `oracle_price_usd`, in US cents, rounded down; null without a price.")
    ]
    interest_to_protocol: Annotated[
        Amount | None,
        doc(
            "The part of `interest_paid` that suppliers did not get, by the growth of the supply index, in token base "
            "units; 0 if suppliers got more, null if they shared a loss."
        ),
    ]
    interest_to_protocol_usd_cents: Annotated[
        UsdCents | None,
        doc("`interest_to_protocol` at `oracle_price_usd`, in US cents, rounded down; null without a price."),
    ]
    utilization_bps: Annotated[BasisPoints, doc("Median utilization, in basis points, rounded down.")]
    tvl_usd_cents: Annotated[
        UsdCents | None, doc("Mean value of the pool, in US cents, rounded down; null when no observation has a price.")
    ]
    oracle_price_usd: Annotated[
        Price | None, doc("Median price of one token, in USD; null when no observation has one.")
    ]
    observation_count: Annotated[Positive, doc("Observations in the bucket.")]
    priced_count: Annotated[Count, doc("Observations that have a price.")]
    listed: Annotated[bool, doc("Whether the market was listed at the last observation.")]
    first_ledger: Annotated[Ledger, doc("The first ledger observed in the bucket.")]
    last_ledger: Annotated[Ledger, doc("The last ledger observed in the bucket.")]


class AssetHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """The closed time buckets of one pool and one length, ascending. A bucket without observations is left out.

    `data` is empty until a bucket closes; `/v1/assets/{market}/{pool}` has the present state. `next_cursor` leads to
    the page with older buckets, which never changes, and is null on the oldest page. `observed_ledger` is the last
    ledger in the buckets, or without buckets the first ledger at which the pool was observed.
    """

    market: MarketAddress
    pool: PoolId
    bucket: BucketName
    observed_ledger: ObservedLedger
    data: Annotated[list[HistoryBucket], doc("The buckets, ascending.")]
    next_cursor: OlderCursor


class TotalsBucket(Struct, frozen=True, forbid_unknown_fields=True):
    """The totals of a market, or of the listed markets of a token, a protocol or the network, in a time bucket.

    A market counts as listed in a bucket if it was listed at its last observation there. Markets that were not are only
    in the fields that begin with `unlisted_`. The totals of a market are those of all its pools. A pool counts with the
    mean of its observations in the bucket, as in its own history. The three values are sums over the `priced_count`
    pools that had a price, and null when none had; a pool that was not observed in the bucket is in no sum. Means of
    rates are weighted by what is supplied or borrowed in USD, rounded down, and null if that is nothing. The best
    rates are those of pools worth at least 1,000 USD in listed markets that were open for lending and borrowing at
    every observation. The best rate to borrow is the lowest one among the pools that are not lent out completely. Best
    rates are null when no pool counts.
    """

    start_time: Annotated[Timestamp, doc("When the bucket begins.")]
    end_time: Annotated[Timestamp, doc("When it ends; this time is not part of it.")]
    supplied_usd_cents: Annotated[
        UsdCents | None, doc("Supplied in all pools that had a price, in US cents; null when none had.")
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None, doc("Borrowed in all pools that had a price, in US cents; null when none had.")
    ]
    tvl_usd_cents: Annotated[
        UsdCents | None, doc("Value of all pools that had a price, in US cents; null when none had.")
    ]
    mean_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield, compounded as each protocol does it, weighted by USD supplied, in basis points; to "
            "compare protocols take `mean_comparable_supply_apy_bps`; null if nothing was supplied."
        ),
    ]
    mean_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost, compounded as each protocol does it, weighted by USD borrowed, in basis points; to "
            "compare protocols take `mean_comparable_borrow_apy_bps`; null if nothing was borrowed."
        ),
    ]
    mean_comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield, compounded daily, alike for every protocol, weighted by USD supplied, in basis points; "
            "null if nothing was supplied, and where rows of that time do not have it."
        ),
    ]
    mean_comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost, compounded daily, alike for every protocol, weighted by USD borrowed, in basis points; "
            "null if nothing was borrowed, and where rows of that time do not have it."
        ),
    ]
    best_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The highest annual yield to supply, compounded as its protocol does it, in basis points; to compare "
            "protocols take `best_comparable_supply_apy_bps`; null when no pool counts."
        ),
    ]
    best_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The lowest annual cost to borrow, compounded as its protocol does it, in basis points; to compare "
            "protocols take `best_comparable_borrow_apy_bps`; null when no pool counts."
        ),
    ]
    best_comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The highest annual yield to supply, compounded daily, alike for every protocol, in basis points; null "
            "when no pool counts, and where rows of that time do not have it."
        ),
    ]
    best_comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "The lowest annual cost to borrow, compounded daily, alike for every protocol, in basis points; null "
            "when no pool counts, and where rows of that time do not have it."
        ),
    ]
    market_count: Annotated[Count, doc("Markets that were observed.")]
    pool_count: Annotated[Count, doc("Pools that were observed.")]
    priced_count: Annotated[Count, doc("Pools that had a price.")]
    listed: Annotated[bool | None, doc("Whether the market was listed; null for other totals.")]
    unlisted_supplied_usd_cents: Annotated[
        UsdCents | None,
        doc("Supplied in markets that were not listed, by their own prices, in US cents; null when none had a price."),
    ]
    unlisted_borrowed_usd_cents: Annotated[
        UsdCents | None,
        doc("Borrowed in markets that were not listed, by their own prices, in US cents; null when none had a price."),
    ]
    unlisted_tvl_usd_cents: UnlistedValue
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    first_ledger: Annotated[Ledger, doc("The first ledger observed in the bucket.")]
    last_ledger: Annotated[Ledger, doc("The last ledger observed in the bucket.")]


class TotalsHistory(Struct, frozen=True, forbid_unknown_fields=True):
    """The closed time buckets of a market, a token, a protocol or the network, of one length, ascending.

    `scope` says which of these it is, and `id` is an address, a protocol's name, or `network`. As in the history of a
    pool, a bucket without observations is left out, `next_cursor` leads to older buckets, and `observed_ledger` is the
    last ledger in the buckets, or without buckets the first ledger at which one of the pools was observed; before any
    was, it is the run's ledger.
    """

    scope: Scope
    id: ScopeId
    bucket: BucketName
    observed_ledger: ObservedLedger
    data: Annotated[list[TotalsBucket], doc("The buckets, ascending.")]
    next_cursor: OlderCursor

    @property
    def market(self) -> str | None:
        """The market's address, which the key has; None for other scopes."""
        return self.id if self.scope == "market" else None

    @property
    def address(self) -> str | None:
        """The token's address, which the key has; None for other scopes."""
        return self.id if self.scope == "token" else None

    @property
    def protocol(self) -> str | None:
        """The protocol's name, which the key has; None for other scopes."""
        return self.id if self.scope == "protocol" else None
