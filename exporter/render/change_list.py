"""The list of changes, `/v1/changes`: what a run adds to it, in which order, and what no longer fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    ChangeList,
    RunChange,
)

MAX_CHANGES = 300
"""Largest number of changes in the list. The newest are kept."""

MAX_CHANGES_OF_MARKET = 25
"""Largest number of changes of one market in the list, so that no market pushes out all others."""

UNLISTED_DIVISOR = 4
"""Changes of unlisted markets take at most the list's or feed's size divided by this number."""

FIRST_KINDS = frozenset(
    {"paused", "resumed", "admin", "code", "oracle", "pending", "unread", "listed", "unlisted", "frozen", "archived"}
)
"""Kinds of changes that come before all other kinds in a run, and are left out last."""


class _KeptChanges(Struct, frozen=True):
    """The part of the published list of changes that a run takes over. Fields of an earlier format are ignored."""

    data: list[RunChange]


def earlier_changes(published: bytes | None, before: int) -> list[RunChange]:
    """The changes in a published list at ledgers below ``before``; none if it is missing or cannot be understood.

    Changes from ``before`` on are of a run that died after it replaced the list. That run was not published, and the
    next run finds the same changes again.
    """
    try:
        listed = _KeptChanges([]) if published is None else decode_json(published, _KeptChanges)
    except msgspec.DecodeError:
        return []
    return [change for change in listed.data if change.observed_ledger < before]


def change_list(own: Sequence[RunChange], earlier: Sequence[RunChange], ledger: int) -> ChangeList:
    """The list of a run's own changes and of earlier ones, as many as `bounded` lets in."""
    data = bounded([*own, *earlier], MAX_CHANGES) if own else list(earlier)
    cut = {change.id for change in own} - {change.id for change in data}
    return ChangeList(ledger, data, cut_count=len(cut))


def in_turns(changes: Iterable[RunChange]) -> list[RunChange]:
    """The changes of one run in the order of the list.

    Changes of listed markets come first, and among them the kinds of `FIRST_KINDS`. Among equals, markets take turns.
    """
    turns: Counter[tuple[bool, bool, str]] = Counter()
    ranked = []
    for change in sorted(changes, key=lambda item: (item.market, item.pool or "", item.kind, item.title)):
        group = not change.listed, not _matters(change)
        ranked.append(((*group, turns[*group, change.market]), change))
        turns[*group, change.market] += 1
    return [change for _, change in sorted(ranked, key=lambda item: item[0])]


def bounded(changes: Sequence[RunChange], most: int) -> list[RunChange]:
    """At most ``most`` of the changes, which are newest first, in the same order.

    Kinds of `FIRST_KINDS` are kept before others, and no market has more than `MAX_CHANGES_OF_MARKET`. Unlisted markets
    have only a part of the list, because anybody can create many of them, with many changes.
    """
    of_market: Counter[str] = Counter()
    chosen: set[int] = set()
    by_weight = sorted(enumerate(changes), key=lambda item: not _matters(item[1]))  # equals stay in their order
    for listed in (False, True):
        room = most - len(chosen) if listed else most // UNLISTED_DIVISOR
        for index, change in by_weight:
            if change.listed is listed and room > 0 and of_market[change.market] < MAX_CHANGES_OF_MARKET:
                of_market[change.market] += 1
                chosen.add(index)
                room -= 1
    return [change for index, change in enumerate(changes) if index in chosen]


def _matters(change: RunChange) -> bool:
    return change.kind in FIRST_KINDS
