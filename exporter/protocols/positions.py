"""Positions: what somebody owes and holds in a market, and how a protocol's own rule judges it (docs/risk.md).

A protocol has `PositionRules` if its positions are entries of the market's contract. Holders have no name here. The
risk of a market is about sums, and about which positions its contract would let be liquidated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from exporter.protocols.base import AnyPool


class Position(Struct, frozen=True):
    """The shares of one holder, by the pool's index in the market's list. All numbers are above zero.

    ``collateral`` secures the debt, ``supply`` does not.
    """

    debt: Mapping[int, int]
    collateral: Mapping[int, int]
    supply: Mapping[int, int]


class PoolTerms(Struct, frozen=True):
    """What a share of a pool is worth and counts for, accrued to the ledger's close time."""

    supply_rate: int
    """The worth of one share of the supply in base units of the token, times ``rate_scale``."""
    debt_rate: int
    """The worth of one share of the debt in base units of the token, times ``rate_scale``."""
    rate_scale: int
    """The scale of the two rates."""
    token_scale: int
    """10 to the power of the token's decimals."""
    collateral_factor: int
    """The part of the collateral's worth that counts, 7 decimals."""
    liability_factor: int
    """The number by which the worth of the debt is divided, 7 decimals."""
    supply_shares: int
    """All shares of the supply, as the pool itself states them."""
    debt_shares: int
    """All shares of the debt, as the pool itself states them."""


class Health(Struct, frozen=True):
    """The worth of a position in the smallest unit of the market's oracle, as the contract computes it.

    Attributes:
        collateral: the worth of the collateral.
        debt: the worth of the debt.
        effective_collateral: the collateral after its factors, which the contract compares with the effective debt.
        effective_debt: the debt after its factors.
        debt_by_pool: the part of ``debt`` in each pool, by the pool's index.
        collateral_by_pool: the part of ``effective_collateral`` in each pool, by the pool's index.
    """

    collateral: int
    debt: int
    effective_collateral: int
    effective_debt: int
    debt_by_pool: Mapping[int, int]
    collateral_by_pool: Mapping[int, int]


class PositionRules(Struct, frozen=True, kw_only=True):
    """How a protocol keeps positions, and what it lets be liquidated."""

    position_prefix: bytes
    """The beginning of a position's key, as ScVal XDR. The rest of the key is the holder's address, as ScVal XDR."""
    auction_prefix: bytes
    """The beginning of an auction's key, as ScVal XDR."""
    decode: Callable[[bytes], Position]
    """The position in an entry, LedgerEntryData XDR. Raises `DecodeError`."""
    auctioned: Callable[[bytes], bytes | None]
    """The LedgerKey of the position whose debt an auction sells, from the auction's entry; None if it sells no debt.

    Raises `DecodeError`.
    """
    terms: Callable[[AnyPool, int], PoolTerms]
    """The terms of a pool at a close time (unix seconds). Raises `ExactError`."""
    health: Callable[[Position, Sequence[PoolTerms], Sequence[int | None]], Health | None]
    """The worth of a position, given the prices of all pools in the oracle's smallest unit.

    None if a price is missing, so that the contract would refuse to judge the position. Raises `ExactError` if its math
    has no result.
    """
    is_liquidatable: Callable[[Health, str], bool]
    """Whether the contract lets a part of the position be auctioned. The second argument is the market's version."""
