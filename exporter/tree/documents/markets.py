"""Documents of markets, and pages of the pools of all markets."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import Listed, MarketAddress, NextCursor, ObservedLedger, PricedCount, PricedValue
from exporter.tree.pool_parts import PendingChange
from exporter.tree.pool_rows import MarketPool, PoolRow
from exporter.tree.pools import PoolSnapshot
from exporter.tree.risk_documents import MarketRisk
from exporter.tree.values import (
    Amount,
    BasisPoints,
    ConfigHash,
    ContractAddress,
    Count,
    EmissionSourceName,
    FixedPoint,
    ListedReasonName,
    ProtocolName,
    RewardReasonName,
    Scale,
    Timestamp,
    UsdCents,
    Words,
    doc,
)


class AssetsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of pool snapshots, by market and then pool, ascending. `next_cursor` is null on the last page.

    An empty page has the observed ledger, too.
    """

    data: Annotated[list[PoolSnapshot], doc("The pools of this page.")]
    next_cursor: NextCursor
    observed_ledger: ObservedLedger


class MarketBackstop(Struct, frozen=True, forbid_unknown_fields=True):
    """The insurance of the suppliers of a market of Blend, as its contracts count it at the observed ledger.

    `lp_tokens` are shares of a pool of Comet, behind which are `blnd` and `usdc`. The fifth root of
    `threshold_product_bps` says how near the funds are to what the contract asks for. Only a call of `update_status`
    changes the market's status, and anybody may make it. A `backfill` is BLND that is not minted yet. If
    `emission_funded` is false, claims fail. What cannot be read is null.
    """

    backstop: Annotated[ContractAddress, doc("The backstop's contract, a strkey.")]
    lp_token: Annotated[
        ContractAddress | None, doc("The token that is deposited, a strkey; null when it could not be read.")
    ]
    shares: Annotated[
        Amount | None, doc("Shares of the market's deposits, queued ones among them, 7 decimals; null when unknown.")
    ]
    lp_tokens: Annotated[
        Amount | None, doc("Deposited tokens, queued ones among them, in base units of `lp_token`; null when unknown.")
    ]
    queued_shares: Annotated[Amount | None, doc("Shares queued for withdrawal, 7 decimals; null when unknown.")]
    queued_part: Annotated[
        FixedPoint | None, doc("Part of the shares that is queued, rounded up; 10000000 is all; null when unknown.")
    ]
    blnd: Annotated[Amount | None, doc("BLND behind `lp_tokens`, in its base units, 7 decimals; null when unknown.")]
    usdc: Annotated[Amount | None, doc("USDC behind `lp_tokens`, in its base units, 7 decimals; null when unknown.")]
    lp_price_usdc: Annotated[FixedPoint | None, doc("USDC for one `lp_token`, times 10^7; null when unknown.")]
    blnd_price_usdc: Annotated[FixedPoint | None, doc("USDC for one BLND, times 10^7; null when unknown.")]
    value_usd_cents: Annotated[
        UsdCents | None, doc("Worth of `lp_tokens` by the market's oracle, in US cents; null without a price of USDC.")
    ]
    threshold_product_bps: Annotated[
        BasisPoints | None, doc("BLND^4 * USDC in basis points of what the contract asks for; null when unknown.")
    ]
    threshold_met: Annotated[bool | None, doc("Whether the funds are what the contract asks for; null when unknown.")]
    status_after_update: Annotated[
        Words | None, doc("The status that `update_status` would set now; null when it sets none or not known.")
    ]
    emission_token: Annotated[
        ContractAddress | None, doc("The token that depositors are paid in, a strkey; null when unknown.")
    ]
    emission_decimals: Annotated[Scale, doc("Decimals of `emission_per_second` beyond base units.")]
    emission_per_second: Annotated[
        Amount | None,
        doc("Paid to depositors per second, in base units times 10^`emission_decimals`; null when unknown."),
    ]
    emission_per_year: Annotated[
        Amount | None, doc("Paid to depositors per year, in base units of `emission_token`; null when unknown.")
    ]
    emission_expiration: Annotated[Timestamp | None, doc("When the emission ends; null without one, or when unknown.")]
    emission_apr_bps: Annotated[
        BasisPoints | None,
        doc("Annual yield of depositors that have not queued, in basis points; null when `emission_reason` says why."),
    ]
    emission_reason: Annotated[RewardReasonName, doc("`valid`, or why the emission is 0 or its yield null.")]
    emission_source: Annotated[
        EmissionSourceName | None,
        doc("Where the BLND comes from that the backstop promises next; null when not known."),
    ]
    emission_funded: Annotated[
        bool | None, doc("Whether the backstop has the BLND that it promised; null when not known.")
    ]
    backfill_remaining: Annotated[
        Amount | None, doc("BLND left of the backfill, in base units, 7 decimals; null unless it is the source.")
    ]
    in_reward_zone: Annotated[
        bool | None, doc("Whether the backstop's reward zone lists the market; null when not known.")
    ]


class MarketSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """One market with its pools, ascending by id.

    `pool_count` counts all pools, also those that were cut from `pools` (`truncated`) and those that could not be read,
    which `/v1/system/status` names. `tvl_usd_cents` is the sum over the `priced_count` pools that have a price, cut or
    not, and null when none has. `config_hash` changes if and only if the market's configuration in the ledger does.
    """

    market: MarketAddress
    config_hash: ConfigHash
    observed_ledger: ObservedLedger
    pool_count: Annotated[Count, doc("The market's pools, read or not.")]
    pools: Annotated[
        list[MarketPool],
        doc("The pools that were read, ascending by id, at most as many as `market_pools_cap` of the status says."),
    ]
    truncated: Annotated[bool, doc("Whether pools were cut from the list.")]
    tvl_usd_cents: PricedValue
    priced_count: PricedCount
    listed: Listed
    listed_reason: ListedReasonName
    listed_source: Annotated[
        Words | None, doc("What shows the market to people, or who vouches for it; null if it is not listed.")
    ]
    backstop: Annotated[MarketBackstop | None, doc("What insures the market's suppliers; null without a backstop.")]
    pending: Annotated[list[PendingChange], doc("Changes that are queued for the market or its pools.")]
    risk: Annotated[
        MarketRisk | None,
        doc("What the market's borrowers owe and hold, at a proven checkpoint; null without a recent one."),
    ]


class MarketEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One market of the list. `/v1/markets/{market}` has its pools.

    The three values are sums over the `priced_count` pools that have a price, and null when none has. Means are over
    the same pools, weighted by what is supplied or borrowed in USD, rounded down, and null if that is nothing.
    """

    market: MarketAddress
    protocol: ProtocolName
    version: Annotated[Words, doc("Generation of the protocol's contracts, for example v2.")]
    name: Annotated[Words, doc("The market's name as its contract gives it.")]
    status: Annotated[Words, doc("The market's status in the protocol's own words.")]
    listed: Listed
    listed_reason: ListedReasonName
    observed_ledger: ObservedLedger
    pool_count: Annotated[Count, doc("The market's pools, read or not.")]
    tvl_usd_cents: PricedValue
    priced_count: PricedCount
    supplied_usd_cents: Annotated[
        UsdCents | None, doc("Supplied in all pools that have a price, in US cents; null when none has.")
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None, doc("Borrowed in all pools that have a price, in US cents; null when none has.")
    ]
    mean_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean `supply_apy_bps`, compounded as the protocol does it, weighted by USD supplied, in basis points; to "
            "compare protocols take `mean_comparable_supply_apy_bps`; null if nothing is supplied."
        ),
    ]
    mean_total_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean `total_supply_apy_bps`, compounded daily, rewards included, weighted by USD supplied, in basis "
            "points; null if nothing is supplied."
        ),
    ]
    mean_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean `borrow_apy_bps`, compounded as the protocol does it, weighted by USD borrowed, in basis points; to "
            "compare protocols take `mean_comparable_borrow_apy_bps`; null if nothing is borrowed."
        ),
    ]
    mean_comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean `comparable_supply_apy_bps`, compounded daily, alike for every protocol, weighted by USD supplied, "
            "in basis points; null if nothing is supplied."
        ),
    ]
    mean_comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean `comparable_borrow_apy_bps`, compounded daily, alike for every protocol, weighted by USD borrowed, "
            "in basis points; null if nothing is borrowed."
        ),
    ]


class MarketList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every market that was read, ascending by address."""

    observed_ledger: ObservedLedger
    data: Annotated[list[MarketEntry], doc("The markets, ascending by address.")]


class PoolsPage(Struct, frozen=True, forbid_unknown_fields=True):
    """Pools in flat rows, by market and then pool, ascending, 500 at most. `next_cursor` is null on the last page."""

    data: Annotated[list[PoolRow], doc("The pools of this page.")]
    next_cursor: NextCursor
    observed_ledger: ObservedLedger
