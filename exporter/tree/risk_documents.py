"""The published risk of listed markets at a proven checkpoint (docs/risk.md). It has sums over positions only.

No holder is named, and none can be told from another. If there are fewer than `MIN_HOLDERS`, only their number is
there.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.values import (
    Amount,
    AmountChange,
    BasisPoints,
    ContractAddress,
    Count,
    Digest,
    Ledger,
    ObjectKey,
    PoolId,
    ProtocolName,
    Timestamp,
    TokenDecimals,
    TokenSymbol,
    UsdCents,
    Words,
    doc,
)

MIN_HOLDERS = 5
"""The smallest number of holders for which shares and sums are published. Fewer could reveal a single account."""

FALLS_BPS = (500, 1_000, 2_000, 3_000, 5_000)
"""The falls of prices that are computed, in basis points."""

MIN_PART_BPS = 100
"""A token that secures less than this part of a pool's debt, in basis points, is not shown by itself."""


class RiskLargest(Struct, frozen=True, forbid_unknown_fields=True):
    """The parts that the largest holders have together. If there are fewer holders, the part is that of all."""

    largest_1_bps: Annotated[BasisPoints, doc("The largest one's part, in basis points, rounded down.")]
    largest_10_bps: Annotated[BasisPoints, doc("The part of the largest 10 together, in basis points, rounded down.")]
    largest_100_bps: Annotated[BasisPoints, doc("The part of the largest 100 together, in basis points, rounded down.")]


class RiskCollateral(Struct, frozen=True, forbid_unknown_fields=True):
    """The debt of a pool that one token secures.

    A borrower's debt is divided among the tokens of the collateral by their worth times their collateral factors.
    """

    token_address: Annotated[ContractAddress, doc("The token that is collateral, a strkey.")]
    symbol: TokenSymbol
    secured_usd_cents: Annotated[UsdCents, doc("The debt that it secures, in US cents.")]


class RiskOfPool(Struct, frozen=True, forbid_unknown_fields=True):
    """How many supplied to a pool and owe to it, how concentrated they are, and what secures the debt.

    The two `_unexplained` numbers are the pool's own total minus the sum over all positions, which should be 0.
    """

    pool: PoolId
    token_address: Annotated[ContractAddress, doc("The token that the pool lends, a strkey.")]
    symbol: TokenSymbol
    decimals: TokenDecimals
    stable: Annotated[bool, doc("Whether the token is stable by the list of identified tokens; if not, it falls.")]
    supplier_count: Annotated[Count, doc("Holders that supplied to the pool, as collateral or not.")]
    borrower_count: Annotated[Count, doc("Holders that owe to the pool.")]
    largest_suppliers: Annotated[RiskLargest | None, doc("Parts of the supply; null with fewer than five suppliers.")]
    largest_borrowers: Annotated[RiskLargest | None, doc("Parts of the debt; null with fewer than five borrowers.")]
    secured_by: Annotated[
        list[RiskCollateral],
        doc("Collateral that secures at least 1 % of the debt, the most first; empty with fewer than five borrowers."),
    ]
    secured_by_others_usd_cents: Annotated[
        UsdCents | None, doc("Debt secured by all other tokens together, in US cents; null with too few borrowers.")
    ]
    not_secured_usd_cents: Annotated[
        UsdCents | None,
        doc("Debt of this pool whose collateral counts for nothing, in US cents; null with too few."),
    ]
    supply_shares: Annotated[Amount, doc("All shares of the supply, by the pool's own entry.")]
    supply_shares_unexplained: Annotated[
        AmountChange, doc("Shares of the supply that no position has, negative where positions have more.")
    ]
    debt_shares: Annotated[Amount, doc("All shares of the debt, by the pool's own entry.")]
    debt_shares_unexplained: Annotated[
        AmountChange, doc("Shares of the debt that no position has, negative where positions have more.")
    ]


class RiskFall(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to a market's debt if prices fall and nothing else changes."""

    token_address: Annotated[
        ContractAddress | None, doc("The token whose price falls; null if all tokens that are not stable fall.")
    ]
    symbol: Annotated[TokenSymbol | None, doc("The symbol of the token whose price falls; null if several fall.")]
    fall_bps: Annotated[BasisPoints, doc("By how much the price falls, in basis points.")]
    liquidatable_usd_cents: Annotated[
        UsdCents, doc("Debt of positions that can be liquidated at the fallen prices, in US cents.")
    ]
    uncovered_usd_cents: Annotated[
        UsdCents, doc("The part of all debt that exceeds the worth of its own collateral then, in US cents.")
    ]


class RiskNow(Struct, frozen=True, forbid_unknown_fields=True):
    """The debt of a market at the checkpoint, by the market's own prices and factors."""

    debt_usd_cents: Annotated[UsdCents, doc("All debt of positions that the contract can judge, in US cents.")]
    liquidatable_usd_cents: Annotated[UsdCents, doc("Debt of positions that can be liquidated now, in US cents.")]
    uncovered_usd_cents: Annotated[
        UsdCents, doc("The part of all debt that exceeds the worth of its own collateral now, in US cents.")
    ]
    without_collateral_usd_cents: Annotated[
        UsdCents, doc("Debt of positions whose collateral is worth nothing, in US cents.")
    ]
    in_auction_usd_cents: Annotated[
        UsdCents, doc("All debt of positions of which a part is in an auction that is not filled, in US cents.")
    ]


class RiskOfMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """The risk of a market's lenders: who owes, and what falling prices do.

    `now`, `largest_borrowers` and `falls` are about positions with debt whose tokens all have a valid price. The
    contract refuses to judge the others. With fewer than five judged borrowers they are null or empty.
    """

    market: Annotated[ContractAddress, doc("The market's contract, a strkey.")]
    protocol: ProtocolName
    name: Annotated[Words, doc("The market's name, as its contract gives it.")]
    supplier_count: Annotated[Count, doc("Holders that supplied anything to the market.")]
    borrower_count: Annotated[Count, doc("Holders that owe anything to the market.")]
    not_judged_count: Annotated[
        Count, doc("Borrowers that the contract cannot judge, because a price is missing or its math has no result.")
    ]
    largest_borrowers: Annotated[
        RiskLargest | None, doc("Parts of the debt in US cents; null with fewer than five judged borrowers.")
    ]
    now: Annotated[RiskNow | None, doc("The debt as it is; null with fewer than five judged borrowers.")]
    falls: Annotated[
        list[RiskFall], doc("All tokens that are not stable together, then each token, by how much the price falls.")
    ]
    backstop_usd_cents: Annotated[
        UsdCents | None, doc("What the market's backstop holds against a loss, in US cents; null when not known.")
    ]
    pools: Annotated[list[RiskOfPool], doc("The pools, in the market's own order.")]


class RiskLeftOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A listed market whose risk is not known, and why."""

    market: Annotated[ContractAddress, doc("The listed market's contract, a strkey.")]
    protocol: ProtocolName
    detail: Annotated[str, doc("Why its risk is not known, in words.")]


class RiskDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """What the borrowers of each listed market owe and hold, at a proven checkpoint, without naming anybody.

    It is not a prediction. It does not consider for how much collateral can be sold, that prices can move in different
    ways, or that somebody may act in the meantime. Prices are those of the markets' own oracles.
    """

    network: Annotated[str, doc("Passphrase of the Stellar network to which the checkpoint belongs.")]
    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint at which every position was read.")]
    checkpoint_close_time: Annotated[Timestamp, doc("When the ledger of the checkpoint closed.")]
    header: Annotated[Digest, doc("SHA-256 of the header of that ledger, 64 hex digits.")]
    data: Annotated[list[RiskOfMarket], doc("The listed markets whose positions can be read, ascending by address.")]
    left_out: Annotated[list[RiskLeftOut], doc("The other listed markets, ascending by address.")]


class MarketRisk(Struct, frozen=True, forbid_unknown_fields=True):
    """A market's risk at a checkpoint. The checkpoint is older than the run, by at most 48 hours."""

    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint, not that of the run.")]
    checkpoint_close_time: Annotated[Timestamp, doc("When that checkpoint's ledger closed.")]
    key: Annotated[ObjectKey, doc("The document that these figures are from.")]
    figures: Annotated[RiskOfMarket, doc("The figures of this market in that document.")]


class PublishedRisk(Struct, frozen=True):
    """A risk document in a tree: its key, the SHA-256 of its bytes (64 hex digits), and its content."""

    key: str
    sha256: str
    document: RiskDocument

    def of(self, market: str) -> MarketRisk | None:
        """The risk of a market. None if the document does not have it."""
        document = self.document
        market_risk = next((item for item in document.data if item.market == market), None)
        if market_risk is None:
            return None
        return MarketRisk(document.checkpoint, document.checkpoint_close_time, self.key, market_risk)
