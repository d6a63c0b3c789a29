"""The published risk of listed markets at a proven checkpoint (docs/risk.md): sums over positions, and no position.

No holder is named or can be told from another: below `LEAST_HOLDERS` there is only their number.
"""

from __future__ import annotations

from dataclasses import dataclass
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

LEAST_HOLDERS = 5
"""With fewer holders a share or a sum would be an account's own."""

FALLS_BPS = (500, 1_000, 2_000, 3_000, 5_000)
"""By how much prices fall, in basis points."""

SHOWN_PART_BPS = 100
"""Collateral that secures less than this part of a pool's debt is shown together with other such."""


class RiskLargest(Struct, frozen=True, forbid_unknown_fields=True):
    """What the largest holders have together, of all; with fewer holders than that, all of them."""

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
    """Who supplied to a pool and who owes to it, and what secures that.

    The two `_unexplained` numbers are the pool's own total less the sum over all positions: 0 is exact.
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
    """What becomes of a market's debt if prices fall; all else stays as it was."""

    token_address: Annotated[
        ContractAddress | None, doc("The token whose price falls; null: all that are not stable together.")
    ]
    symbol: Annotated[TokenSymbol | None, doc("That token's symbol; null where several fall together.")]
    fall_bps: Annotated[BasisPoints, doc("By how much the price falls, in basis points.")]
    liquidatable_usd_cents: Annotated[
        UsdCents, doc("Debt of positions that the contract lets be liquidated then, at the fallen prices, in US cents.")
    ]
    uncovered_usd_cents: Annotated[
        UsdCents, doc("What of all debt is more than its own collateral is worth then, in US cents.")
    ]


class RiskNow(Struct, frozen=True, forbid_unknown_fields=True):
    """The debt of a market at the checkpoint, by the market's own prices and factors."""

    debt_usd_cents: Annotated[UsdCents, doc("All debt of positions that the contract can judge, in US cents.")]
    liquidatable_usd_cents: Annotated[UsdCents, doc("What of it is of positions that can be liquidated, in US cents.")]
    uncovered_usd_cents: Annotated[
        UsdCents, doc("What of all debt is more than its own collateral is worth now, in US cents.")
    ]
    without_collateral_usd_cents: Annotated[
        UsdCents, doc("Debt of positions whose collateral is worth nothing, in US cents.")
    ]
    in_auction_usd_cents: Annotated[
        UsdCents, doc("All debt of positions of which a part is in an auction that is not filled, in US cents.")
    ]


class RiskOfMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """The risk of a market's lenders: who owes, and what falling prices do.

    `now`, `largest_borrowers` and `falls` are of positions with debt of which every token has a valid price; the
    contract refuses to judge the others. With fewer than five such borrowers they are null or empty.
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

    It is no prediction. It takes no account of what collateral can be sold for, of several prices that move apart, or
    of what anybody does in the meantime; prices are those of the markets' own oracles.
    """

    network: Annotated[str, doc("Passphrase of the Stellar network that the checkpoint is of.")]
    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint that every position is of.")]
    checkpoint_close_time: Annotated[Timestamp, doc("When the ledger of the checkpoint closed.")]
    header: Annotated[Digest, doc("SHA-256 of the header of that ledger, 64 hex digits.")]
    data: Annotated[list[RiskOfMarket], doc("The listed markets whose positions can be read, ascending by address.")]
    left_out: Annotated[list[RiskLeftOut], doc("The other listed markets, ascending by address.")]


class MarketRisk(Struct, frozen=True, forbid_unknown_fields=True):
    """A market's risk, of a checkpoint that is older than the run: of at most 48 hours before."""

    checkpoint: Annotated[Ledger, doc("The ledger of the checkpoint, not that of the run.")]
    checkpoint_close_time: Annotated[Timestamp, doc("When that checkpoint's ledger closed.")]
    key: Annotated[ObjectKey, doc("The document that these figures are from.")]
    figures: Annotated[RiskOfMarket, doc("The figures of this market in that document.")]


@dataclass(frozen=True, slots=True)
class PublishedRisk:
    """A risk document as it is in a tree: its key, the SHA-256 of its bytes (64 hex digits), and what it says."""

    key: str
    sha256: str
    document: RiskDocument

    def of(self, market: str) -> MarketRisk | None:
        """The risk of a market; None where the document has none."""
        document = self.document
        market_risk = next((item for item in document.data if item.market == market), None)
        if market_risk is None:
            return None
        return MarketRisk(document.checkpoint, document.checkpoint_close_time, self.key, market_risk)
