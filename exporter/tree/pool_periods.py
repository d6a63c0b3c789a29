"""How a pool did over the last day, week and 30 days. The numbers follow from the history, and are not columns."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from exporter.tree.values import (
    BasisPoints,
    CentsChange,
    Change,
    Count,
    PeriodName,
    Timestamp,
    UsdCents,
    doc,
)


class AssetPeriod(Struct, frozen=True, forbid_unknown_fields=True):
    """The means and changes of a pool over a `period`.

    The period ends at the start of the present hour or, for `30d`, of the present day. Means are over the
    `observed_count` closed buckets of the period in which the pool was observed. Each bucket counts once, and the mean
    is rounded down. A bucket is an hour for `24h` and `7d`, and a day for `30d`. A change is the number in this
    document minus that of the newest bucket before the period. If no bucket ended within a quarter of the period before
    its start, the history is too short: the count is 0 and everything else is null. The value and its change are also
    null without a price.
    """

    period: PeriodName
    observed_count: Annotated[Count, doc("Closed buckets of the period in which the pool was observed.")]
    mean_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers, compounded as the protocol does it, in basis points; to compare "
            "protocols take `mean_comparable_supply_apy_bps`; null if the history is too short."
        ),
    ]
    mean_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers, compounded as the protocol does it, in basis points; to compare "
            "protocols take `mean_comparable_borrow_apy_bps`; null if the history is too short."
        ),
    ]
    mean_utilization_bps: Annotated[
        BasisPoints | None, doc("Mean utilization, in basis points; null if the history is too short.")
    ]
    mean_tvl_usd_cents: Annotated[
        UsdCents | None,
        doc("Mean value of the pool, in US cents; null if the history is too short or has no price."),
    ]
    mean_comparable_supply_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers compounded daily, alike for every protocol, in basis points; null if "
            "the history is too short or does not have it."
        ),
    ]
    mean_comparable_borrow_apy_bps: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers compounded daily, alike for every protocol, in basis points; null if the "
            "history is too short or does not have it."
        ),
    ]
    realized_supply_apy_bps: Annotated[
        Change | None,
        doc(
            "What a supply share gained from `realized_from` to `realized_to` without rewards, as the annual yield of "
            "a year with the same growth, in basis points, rounded down; null if the history is too short."
        ),
    ]
    realized_borrow_apy_bps: Annotated[
        Change | None,
        doc(
            "What a debt grew from `realized_from` to `realized_to` without rewards, as the annual cost of a year "
            "with the same growth, in basis points, rounded down; null if the history is too short."
        ),
    ]
    realized_from: Annotated[
        Timestamp | None,
        doc("Close time of the observation where the realized yields begin; null if the history is too short."),
    ]
    realized_to: Annotated[
        Timestamp | None,
        doc("Close time of the observation where the realized yields end; null if the history is too short."),
    ]
    supply_apy_bps_change: Annotated[
        Change | None, doc("Change of `supply_apy_bps`, in basis points; null if the history is too short.")
    ]
    borrow_apy_bps_change: Annotated[
        Change | None, doc("Change of `borrow_apy_bps`, in basis points; null if the history is too short.")
    ]
    utilization_bps_change: Annotated[
        Change | None, doc("Change of `utilization_bps`, in basis points; null if the history is too short.")
    ]
    tvl_usd_cents_change: Annotated[
        CentsChange | None,
        doc("Change of `tvl_usd_cents`, in US cents; null if the history is too short or has no price."),
    ]


class RecentMeans(Struct, frozen=True, forbid_unknown_fields=True):
    """The mean yields of a pool over the last 7 and 30 days. A row of pools has this part of `periods`."""

    mean_supply_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 7 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_supply_apy_bps_7d`; null while the history is too short."
        ),
    ]
    mean_supply_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 30 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_supply_apy_bps_30d`; null while the history is too short."
        ),
    ]
    mean_borrow_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 7 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_borrow_apy_bps_7d`; null while the history is too short."
        ),
    ]
    mean_borrow_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 30 days, compounded as the protocol does it, in basis points; to "
            "compare protocols take `mean_comparable_borrow_apy_bps_30d`; null while the history is too short."
        ),
    ]
    mean_comparable_supply_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 7 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
    mean_comparable_supply_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual yield of suppliers over 30 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
    mean_comparable_borrow_apy_bps_7d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 7 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
    mean_comparable_borrow_apy_bps_30d: Annotated[
        BasisPoints | None,
        doc(
            "Mean annual cost of borrowers over 30 days, compounded daily, alike for every protocol, in basis points; "
            "null while the history is too short."
        ),
    ]
