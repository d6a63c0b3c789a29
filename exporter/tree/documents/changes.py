"""What changed from one run to the next, and the values of a run that the next one compares."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from exporter.tree.documents.kinds import Listed, MarketAddress, ObservedLedger
from exporter.tree.pool_parts import PendingChange
from exporter.tree.values import (
    Amount,
    BasisPoints,
    ChangeKind,
    ChangeUnit,
    ConfigHash,
    Count,
    Ledger,
    PoolId,
    Price,
    ProtocolName,
    Reason,
    Timestamp,
    TokenSymbol,
    Words,
    doc,
)


class RunChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A change of a market or of one of its pools since the previous run, or since the last one that read it.

    docs/api.md lists the kinds. The `id` of a change never changes.
    """

    id: Annotated[str, Meta(pattern="^urn:uuid:[0-9a-f-]{36}$", description="Identifies the change.")]
    kind: Annotated[ChangeKind, doc("What changed, such as new_market, paused, price or supply_rate.")]
    market: MarketAddress
    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for a change of the market.")]
    listed: Annotated[bool, doc("Whether the market was listed at that run, or when it was last read.")]
    title: Annotated[Words, doc("The change in words.")]
    before: Annotated[Words | None, doc("The value before the change, as text; null if there was none.")]
    after: Annotated[Words | None, doc("The value after the change, as text; null if there is none.")]
    unit: Annotated[
        ChangeUnit | None,
        doc("Unit of `before` and `after`: usd, basis_points or base_units of the token; null for words."),
    ]
    takes_effect: Annotated[
        Timestamp | None, doc("The time from which a queued change can be put into effect; null without one.")
    ]
    observed_ledger: ObservedLedger
    ledger_close_time: Annotated[Timestamp, doc("Close time of the observed ledger.")]
    previous_ledger: Annotated[
        Ledger,
        doc(
            "The ledger of the values that were compared: that of the previous run, or of the last run that read the "
            "market or pool. The change happened after it, and at the observed ledger at the latest."
        ),
    ]


class WatchedValue(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that decides over a market: an admin, a code or an oracle."""

    kind: Annotated[Words, doc("What is watched: admin, code or oracle.")]
    subject: Annotated[Words, doc("Which admin, or which contract.")]
    value: Annotated[Words, doc("The address, or the SHA-256 of the code; `none` without one.")]


class WatchedMarket(Struct, frozen=True, forbid_unknown_fields=True):
    """The values of a market that the next run compares with its own."""

    market: MarketAddress
    protocol: ProtocolName
    name: Annotated[Words, doc("The market's name as its contract gives it.")]
    status: Annotated[Words, doc("The market's status in the protocol's own words.")]
    config_hash: ConfigHash
    listed: Listed
    values: Annotated[list[WatchedValue], doc("Who decides, which code runs, and who gives the prices.")]


class WatchedPool(Struct, frozen=True, forbid_unknown_fields=True):
    """The values of a pool that the next run compares with its own. Null means that the value is not known."""

    market: MarketAddress
    pool: PoolId
    symbol: Annotated[TokenSymbol, doc("The symbol that people use for the token: XLM for the native asset.")]
    status: Annotated[Words | None, doc("The pool's own status in the protocol's own words; null when it has none.")]
    utilization_bps: Annotated[BasisPoints, doc("What is borrowed of what is supplied, in basis points, rounded down.")]
    can_supply: Annotated[bool | None, doc("Whether anybody may supply; null when unknown.")]
    can_withdraw: Annotated[bool | None, doc("Whether anybody may withdraw; null when unknown.")]
    can_borrow: Annotated[bool | None, doc("Whether anybody may borrow; null when unknown.")]
    can_repay: Annotated[bool | None, doc("Whether anybody may repay; null when unknown.")]
    can_liquidate: Annotated[bool | None, doc("Whether anybody may liquidate debt of this pool; null when unknown.")]
    archived: Annotated[bool, doc("Whether an entry that the numbers follow from is archived.")]
    oracle_price_usd: Annotated[Price | None, doc("Price of one token, in USD; null without a valid price.")]
    supply_apy_bps: Annotated[
        BasisPoints | None, doc("Annual yield of suppliers, in basis points; null below 1,000 US dollars.")
    ]
    borrow_apy_bps: Annotated[
        BasisPoints | None, doc("Annual cost of borrowers, in basis points; null below 1,000 US dollars.")
    ]
    supply_reward: Annotated[
        Words | None, doc("The suppliers' reward: paid, ends_soon, not_funded or none; null when unknown.")
    ]
    borrow_reward: Annotated[
        Words | None, doc("The borrowers' reward: paid, ends_soon, not_funded or none; null when unknown.")
    ]
    supply_cap: Annotated[
        Words | None, doc("Most that may be supplied, in base units; `none` without a cap; null when unknown.")
    ]
    borrow_cap: Annotated[
        Words | None, doc("Most that may be borrowed, in base units; `none` without a cap; null when unknown.")
    ]
    total_supplied: Annotated[Amount, doc("Supplied, in base units.")]
    total_borrowed: Annotated[Amount, doc("Borrowed, in base units.")]
    parameters: Annotated[
        dict[str, str],
        doc("The parameters of its configuration by their names in the contract, with their decimals, or `no limit`."),
    ] = {}


class WatchedUnread(Struct, frozen=True, forbid_unknown_fields=True):
    """A market or pool that could not be read. The next run reports it only if that is new."""

    market: MarketAddress
    protocol: ProtocolName
    pool: Annotated[PoolId | None, doc("The pool's id inside its market; null for the whole market.")]
    reason: Reason


class WatchedPending(PendingChange, frozen=True, forbid_unknown_fields=True):
    """A queued change, with its market."""

    market: MarketAddress


class WatchedReading(Struct, frozen=True, forbid_unknown_fields=True):
    """What a run, or a part of it, read of what is compared from run to run."""

    observed_ledger: ObservedLedger
    exporter_version: Annotated[Words, doc("The version of the exporter that read these values.")]
    markets: Annotated[list[WatchedMarket], doc("The markets that were read.")]
    pools: Annotated[list[WatchedPool], doc("The pools that were read.")]
    unread: Annotated[list[WatchedUnread], doc("The markets and pools that could not be read.")]
    pending: Annotated[list[WatchedPending], doc("The changes that are queued.")]


class WatchedValues(WatchedReading, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The values of a run that the next run compares with its own.

    Its own values follow from the run's evidence. For what it did not read, it has the last known values in addition,
    as an earlier run read them.
    """

    carried: Annotated[
        list[WatchedReading],
        doc("The last known values of what this run did not read, by the run that read them, newest first."),
    ] = []


class ChangeList(Struct, frozen=True, forbid_unknown_fields=True):
    """The newest changes, newest first.

    At most 300 changes are kept, and at most 25 of a market. A run that has nothing to compare with finds no changes.
    """

    observed_ledger: ObservedLedger
    data: Annotated[list[RunChange], doc("The changes, newest first.")]
    cut_count: Annotated[Count, doc("Changes of this run that are not in `data`, for which there was no room.")] = 0
