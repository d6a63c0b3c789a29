"""Documents of tokens: where a token can be lent and borrowed, and the list of all tokens."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.documents.kinds import (
    Listed,
    MarketAddress,
    ObservedLedger,
    PricedCount,
    UnlistedMarkets,
    UnlistedPools,
    UnlistedPriced,
)
from exporter.tree.pool_parts import NullableIdentity
from exporter.tree.values import (
    AccountAddress,
    Amount,
    BasisPoints,
    Change,
    ContractAddress,
    Count,
    Ledger,
    PoolId,
    ProtocolName,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Words,
    doc,
)


class PoolReference(Struct, frozen=True, forbid_unknown_fields=True):
    """The market and the id of a pool, whose document is `/v1/assets/{market}/{pool}`."""

    market: MarketAddress
    pool: PoolId
    listed: Listed


class TokenDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A token and the pools that lend it, by market and then pool, ascending.

    `symbol` and `decimals` are what the token's contract says. `issuer` is the account that issues a classic asset. It
    follows from the Stellar asset contract, which nobody can forge, and is null for every other token.
    `first_seen_ledger` does not change if a token vanishes and comes back.
    """

    address: Annotated[ContractAddress, doc("The token's contract, a strkey.")]
    symbol: TokenSymbol
    decimals: TokenDecimals
    first_seen_ledger: Annotated[Ledger, doc("The lowest ledger at which the history has a pool of this token.")]
    observed_ledger: ObservedLedger
    pools: Annotated[list[PoolReference], doc("The pools that lend the token.")]
    issuer: Annotated[
        AccountAddress | None, doc("The account that issues the classic asset, a strkey; null for any other token.")
    ]
    name: Annotated[Words | None, doc("What the token's contract calls it in full; null if it has no name.")]
    identity: NullableIdentity


class BestRate(Struct, frozen=True, forbid_unknown_fields=True):
    """The best rate of a token, and its pool. It is the highest `total_apy_bps` to supply, or the lowest to borrow."""

    market: MarketAddress
    pool: PoolId
    protocol: ProtocolName
    market_name: Annotated[Words, doc("The market's name as its contract gives it.")]
    apy_bps: Annotated[
        BasisPoints,
        doc(
            "Annual yield or cost, compounded as the protocol does it, in basis points, rounded down; to compare "
            "protocols take `comparable_apy_bps`."
        ),
    ]
    comparable_apy_bps: Annotated[
        BasisPoints,
        doc("The annual rate compounded daily, alike for every protocol, in basis points, rounded down."),
    ]
    reward_apr_bps: Annotated[
        BasisPoints | None,
        doc("Annual yield of the reward, not compounded, in basis points; null when not funded or without a price."),
    ]
    total_apy_bps: Annotated[
        Change,
        doc(
            "`comparable_apy_bps` plus the reward if the rate is to supply, minus the reward if it is to borrow, in "
            "basis points."
        ),
    ]
    total_supplied: Annotated[Amount, doc("What the pool holds: lent into it, interest included, in base units.")]
    supplied_usd_cents: Annotated[UsdCents, doc("`total_supplied` in US cents, rounded down.")]
    available_to_withdraw: Annotated[
        Amount | None, doc("What can leave the pool now, in base units; null when not known.")
    ]
    available_usd_cents: Annotated[
        UsdCents | None, doc("`available_to_withdraw` in US cents, rounded down; null when not known.")
    ]
    room: Annotated[
        Amount | None,
        doc("How much more can be supplied or borrowed, in base units; null without a cap, or when not known."),
    ]
    room_usd_cents: Annotated[UsdCents | None, doc("`room` in US cents, rounded down; null like `room`.")]


class TokenEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A token with the totals of its pools in listed markets, and its best rates.

    The two sums are over the `priced_count` pools that have a price. A pool qualifies for a best rate if its market is
    listed, if the operation is open now, if its price is at most a day old and not far from those of other listed
    markets, if it holds at least 1,000 US dollars, and if it has room for as much. Pools of other markets are in the
    fields that begin with `unlisted_`.
    """

    address: Annotated[ContractAddress, doc("The token's contract, a strkey.")]
    symbol: TokenSymbol
    decimals: TokenDecimals
    market_count: Annotated[Count, doc("Listed markets that have a pool of the token.")]
    pool_count: Annotated[Count, doc("Pools of the token in these markets.")]
    open_pool_count: Annotated[Count, doc("Pools of the token in listed markets that let anybody supply.")]
    priced_count: PricedCount
    supplied_usd_cents: Annotated[
        UsdCents | None,
        doc("Supplied in all pools of listed markets that have a price, in US cents; null when none has."),
    ]
    borrowed_usd_cents: Annotated[
        UsdCents | None,
        doc("Borrowed in all pools of listed markets that have a price, in US cents; null when none has."),
    ]
    unlisted_market_count: UnlistedMarkets
    unlisted_pool_count: UnlistedPools
    unlisted_priced_count: UnlistedPriced
    unlisted_supplied_usd_cents: Annotated[
        UsdCents | None,
        doc("Supplied in markets that are not listed, by their own prices, in US cents; null when none has a price."),
    ]
    unlisted_borrowed_usd_cents: Annotated[
        UsdCents | None,
        doc("Borrowed in markets that are not listed, by their own prices, in US cents; null when none has a price."),
    ]
    best_supply: Annotated[BestRate | None, doc("The highest rate to supply; null when no pool qualifies.")]
    best_borrow: Annotated[BestRate | None, doc("The lowest rate to borrow; null when no pool qualifies.")]
    issuer: Annotated[
        AccountAddress | None, doc("The account that issues the classic asset, a strkey; null for any other token.")
    ]
    name: Annotated[Words | None, doc("What the token's contract calls it in full; null if it has no name.")]
    identity: NullableIdentity


class TokenList(Struct, frozen=True, forbid_unknown_fields=True):
    """Every token that a pool lends, ascending by address; those of one symbol with the identified ones first."""

    observed_ledger: ObservedLedger
    data: Annotated[list[TokenEntry], doc("The tokens, ascending by address; with a symbol, identified ones first.")]
