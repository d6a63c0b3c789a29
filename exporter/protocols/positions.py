"""What somebody owes and holds in a market, and what a protocol's own rule says of it (docs/risk.md).

A protocol whose positions are entries of the market's contract has a `PositionRules`. Holders have no name here: the
risk of a market is a matter of sums, and of which positions its contract would let be liquidated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from exporter.protocols.base import AnyPool


@dataclass(frozen=True, slots=True)
class Position:
    """Shares of one holder, each by the pool's place in the market's list; all above zero.

    ``collateral`` secures debt, ``supply`` does not.
    """

    debt: Mapping[int, int]
    collateral: Mapping[int, int]
    supply: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """What a share of a pool is worth and counts for, accrued to the ledger's close time."""

    supply_rate: int
    """What a share of the supply is worth in base units of the token, times ``rate_scale``."""
    debt_rate: int
    """What a share of the debt is worth in base units of the token, times ``rate_scale``."""
    rate_scale: int
    token_scale: int
    """10 to the power of the token's decimals."""
    collateral_factor: int
    """The part of collateral's worth that counts, 7 decimals."""
    liability_factor: int
    """What the worth of debt is divided by, 7 decimals."""
    supply_shares: int
    """All shares of the supply, by the pool itself."""
    debt_shares: int
    """All shares of the debt, by the pool itself."""


@dataclass(frozen=True, slots=True)
class Health:
    """A position's worth in the smallest unit of the market's oracle, as the contract computes it.

    ``collateral`` and ``debt`` are worth that much; ``effective_collateral`` and ``effective_debt`` are what the
    contract compares. ``debt_by_pool`` and ``collateral_by_pool`` are the parts, the collateral's with its factor.
    """

    collateral: int
    debt: int
    effective_collateral: int
    effective_debt: int
    debt_by_pool: Mapping[int, int]
    collateral_by_pool: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRules:
    """How a protocol keeps positions, and what it lets be liquidated."""

    position_prefix: bytes
    """How the key of a position begins, as ScVal XDR; the holder's address follows, as ScVal XDR to the key's end."""
    auction_prefix: bytes
    """How the key of an auction begins, as ScVal XDR."""
    decode: Callable[[bytes], Position]
    """The position in an entry, LedgerEntryData XDR. Raises `DecodeError`."""
    auctioned: Callable[[bytes], bytes | None]
    """The LedgerKey of the position whose debt an auction sells, by the auction's entry; None for other auctions.

    Raises `DecodeError`.
    """
    terms: Callable[[AnyPool, int], PoolTerms]
    """The terms of a pool at a close time, unix seconds. Raises `ExactError`."""
    health: Callable[[Position, Sequence[PoolTerms], Sequence[int | None]], Health | None]
    """The worth of a position by prices in the oracle's smallest unit; None where the contract would refuse to judge
    it, because a price is missing. Raises `ExactError` where its math has no result."""
    is_liquidatable: Callable[[Health, str], bool]
    """Whether the contract lets a part of the position be auctioned; the second argument is the market's version."""
