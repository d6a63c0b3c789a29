"""Parts of the documents of a pool and its market that are not columns of the pools frame."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.values import (
    Amount,
    BasisPoints,
    Count,
    FixedPoint,
    PendingKind,
    PoolId,
    Scale,
    Timestamp,
    Words,
    doc,
)


class TokenIdentity(Struct, frozen=True, forbid_unknown_fields=True):
    """Who stands behind a token, by a source that the exporter's list of identified tokens names.

    The list identifies a token by its contract's address, never by what a contract says about itself.
    """

    who: Annotated[str, doc("Who issues the token or answers for it.")]
    home_domain: Annotated[str | None, doc("The domain that the issuer names as its own; null if it names none.")]
    stable: Annotated[bool, doc("Whether the token is meant to be worth one unit of a national currency at any time.")]


NullableIdentity = Annotated[
    TokenIdentity | None, doc("Who stands behind the token; null if it is not on the list of identified tokens.")
]


class RateModelParameter(Struct, frozen=True, forbid_unknown_fields=True):
    """One parameter of the pool's configuration, under the contract's own name.

    The number is `value` divided by 10^`decimals`. Yes is 1, no is 0. If `no_limit` is true, the contract takes
    this value to mean that there is no limit.
    """

    name: Annotated[Words, doc("The parameter's name in the contract.")]
    value: Annotated[FixedPoint, doc("The parameter's value, times 10^`decimals`; yes is 1, no is 0.")]
    decimals: Annotated[Scale, doc("Decimals of `value`.")]
    no_limit: Annotated[bool, doc("Whether the contract takes this value to mean that there is no limit.")]


class RatePoint(Struct, frozen=True, forbid_unknown_fields=True):
    """A point of the curve of the borrow rate over the utilization. Between two points the curve is a straight line."""

    utilization_bps: Annotated[BasisPoints, doc("Utilization, in basis points, rounded down.")]
    borrow_apr_bps: Annotated[
        BasisPoints, doc("Annual rate of borrowers at this utilization, in basis points, rounded down.")
    ]


class AssetSpoke(Struct, frozen=True, forbid_unknown_fields=True):
    """One spoke's terms for a pool. A spoke is a set of limits for the accounts that belong to it.

    The terms have the meaning that they have in `operations`, `liquidity` and `risk`, for this spoke alone. A spoke
    that is `deprecated`, or in which the pool is `frozen`, takes nothing new. A spoke that is `paused` takes nothing
    but liquidations of what secures a debt. What cannot be seized secures no liquidation. A cap of "0" is closed.
    """

    spoke: Annotated[Count, doc("The spoke's number.")]
    deprecated: Annotated[bool, doc("Whether the spoke takes nothing new.")]
    paused: Annotated[bool, doc("Whether the spoke takes nothing but liquidations of what secures a debt.")]
    frozen: Annotated[bool, doc("Whether the pool takes nothing new in the spoke.")]
    can_supply: Annotated[bool, doc("Whether the spoke takes supplies.")]
    can_withdraw: Annotated[bool, doc("Whether the spoke lets its accounts withdraw.")]
    can_borrow: Annotated[
        bool | None, doc("Whether the spoke lends; null if it is not known whether the market has a price.")
    ]
    can_repay: Annotated[bool, doc("Whether the spoke takes repayments.")]
    can_liquidate: Annotated[
        bool | None, doc("Whether debt can be liquidated; null if it is not known whether the market has a price.")
    ]
    can_be_seized: Annotated[bool, doc("Whether liquidators can get the supply.")]
    available_to_supply: Annotated[Amount, doc("Most that the spoke's cap lets in, in token base units.")]
    available_to_borrow: Annotated[
        Amount | None, doc("Most that can be borrowed, in token base units; null when `can_borrow` is.")
    ]
    collateral_factor_bps: Annotated[
        BasisPoints, doc("Share of the value of collateral that counts when a debt is opened, in basis points.")
    ]
    liquidation_threshold_bps: Annotated[
        BasisPoints, doc("Share of the value of collateral that counts against liquidation, in basis points.")
    ]
    liquidation_bonus_bps: Annotated[BasisPoints, doc("What a liquidator gets above the debt, in basis points.")]
    supply_cap: Annotated[Amount, doc("Most that may be supplied, in token base units; 0 is closed.")]
    borrow_cap: Annotated[Amount, doc("Most that may be borrowed, in token base units; 0 is closed.")]
    can_be_collateral: Annotated[bool, doc("Whether the spoke's configuration lets the supply secure a debt.")]
    can_be_borrowed: Annotated[bool, doc("Whether the spoke's configuration lets the pool be borrowed.")]


class PendingChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A change that the market's contracts have queued and that is not in effect yet.

    From `takes_effect` on, anybody who may do so can put it into effect. It is listed until that is done, or until the
    contracts drop it.
    """

    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for a change of the market.")]
    kind: Annotated[PendingKind, doc("What would change: terms, admin, code or oracle.")]
    value: Annotated[Words, doc("The value that is queued, as text.")]
    takes_effect: Annotated[
        Timestamp | None, doc("The time from which it can be put into effect; null if none is set, or known.")
    ]
