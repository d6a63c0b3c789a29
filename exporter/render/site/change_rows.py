"""Changes from run to run for people: what changed, from what to what, in the units that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl
from msgspec import Struct

from exporter.render.site.text import exact_amount, exact_percent, harmless, price, round_amount, short_address, words
from exporter.tables import PoolKey, pool_keys
from exporter.tree.documents import RunChange

_KINDS_WITHOUT_VALUES = frozenset(
    {"configuration", "paused", "resumed", "status", "listed", "unlisted", "supply_rate", "borrow_rate", "archived"}
)
"""Kinds of changes whose values are not shown: the title names both already, or they are digests."""

_PARTS_OF_CONFIGURATION = frozenset(
    {
        "parameter",
        "status",
        "paused",
        "resumed",
        "admin",
        "oracle",
        "supply_cap",
        "borrow_cap",
        "new_pool",
        "removed_pool",
    }
)
"""Kinds of changes that change a market's digest of its configuration, too, and say more than it."""

UNEXPLAINED_CONFIGURATION = "in a part that the exporter does not show as a parameter"
"""What is known of a changed configuration of a market if nothing else of it changed that is shown."""

_DIGEST_LENGTH = 64


class ChangeRow(Struct, frozen=True):
    """One change as pages show it. ``values`` is empty for `_KINDS_WITHOUT_VALUES`."""

    market: str
    pool: str | None
    listed: bool
    title: str
    values: str
    exact: str
    takes_effect: str | None
    ledger: int
    time: str


def change_rows(changes: Sequence[RunChange], pools: pl.DataFrame) -> list[ChangeRow]:
    """The rows of changes, in the same order. ``pools`` is a frame of `with_names`.

    A change of a market's configuration is left out if changes of its parts in the same ledger explain it.
    """
    decimals = dict(zip(pool_keys(pools), pools["decimals"], strict=True))
    read = {market for market, _ in decimals}
    explained = {
        (change.market, change.observed_ledger) for change in changes if change.kind in _PARTS_OF_CONFIGURATION
    }
    return [
        _row(change, decimals, read)
        for change in changes
        if change.kind != "configuration" or (change.market, change.observed_ledger) not in explained
    ]


def _row(change: RunChange, decimals: Mapping[PoolKey, int], read: set[str]) -> ChangeRow:
    where = PoolKey(change.market, change.pool or "")
    shown, exact = "", ""
    if change.kind not in _KINDS_WITHOUT_VALUES:
        before, after = (_value(value, change.unit, decimals.get(where)) for value in (change.before, change.after))
        shown = _from_to(before and before.short, after and after.short)
        exact = _from_to(before and before.exact, after and after.exact)
    elif change.kind == "configuration":
        shown, exact = UNEXPLAINED_CONFIGURATION, f"its digest: {_from_to(change.before, change.after)}"
    return ChangeRow(
        market=change.market if change.market in read else "",
        pool=change.pool if where in decimals else None,
        listed=change.listed,
        title=harmless(change.title),
        values=shown,
        exact=exact if exact != shown else "",
        takes_effect=change.takes_effect,
        ledger=change.observed_ledger,
        time=change.ledger_close_time,
    )


def _from_to(before: str | None, after: str | None) -> str:
    if before is not None and after is not None:
        return f"from {before} to {after}"
    if after is not None:
        return f"now {after}"
    return "" if before is None else f"it was {before}"


class _ShownValue(NamedTuple):
    """A value in short, and with every digit or character."""

    short: str
    exact: str


def _value(value: str | None, unit: str | None, decimals: int | None) -> _ShownValue | None:
    """A value as people read it; None for no value."""
    if value is None:
        return None
    plain = value.isascii() and value.isdigit()
    if unit == "usd":
        return _ShownValue(price(value), f"{value} USD")
    if unit == "basis_points" and plain:
        return _ShownValue(exact_percent(int(value)), exact_percent(int(value)))
    if unit == "base_units" and value == "none":
        return _ShownValue("no cap", "no cap")
    if unit == "base_units" and plain and decimals is not None:
        return _ShownValue(round_amount(int(value), decimals), exact_amount(int(value), decimals))
    if len(value) == _DIGEST_LENGTH or (len(value) == 56 and value.isalnum()):
        return _ShownValue(short_address(value), value)
    return _ShownValue(words(value), value)
