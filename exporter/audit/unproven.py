"""Unproven parts of published runs, by reason: how many, and the names of the first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from exporter.errors import ExitCode, printable

MAX_NAMED_REASONS = 20

MAX_NAME = 240
"""Of a name, which may come out of somebody's file, at most this many characters."""


class Reason(StrEnum):
    """Why something is not proven, with its meaning. The values are those of ``--allow-unproven``."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Reason:
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    CALLS = "calls", "results of contract calls are the RPC's word"
    CHANGED = "changed", "entries were changed before the checkpoint"
    NOT_LOOKED_UP = "not_looked_up", "entries may be in older buckets, which were not read (--full reads them)"
    SHORT_LIVED = (
        "short_lived",
        "entries left no trace at the checkpoint, which only some that were created shortly before do",
    )
    ABSENT = "absent", "entries are absent at the checkpoint, and could have existed shortly before it"
    NO_ENTRIES = "no_entries", "runs have no entry that could be proven"
    WAITING = "waiting", "runs have no checkpoint yet that can be proven"
    CHANGES = "changes", "changes were found by runs that were not repeated"
    HISTORY = "history", "files of the history have rows of runs that were not repeated, or not proven"
    EARLIER = "earlier", "earlier runs, or files of theirs, were not verified"
    LIBRARIES = "libraries", "files have the right values, but other libraries wrote their bytes"
    UNLISTED = "unlisted", "files are in no run"
    STATEMENTS = "statements", "statements are the publisher's word"
    MARKETS = "markets", "contracts may be markets that the run left out"


@dataclass(slots=True)
class Unproven:
    """Counts by reason, and of each reason the first names, at most `MAX_NAMED_REASONS`."""

    counts: dict[Reason, int] = field(default_factory=dict)
    names: dict[Reason, list[str]] = field(default_factory=dict)

    def add(self, reason: Reason, names: Iterable[str]) -> None:
        for name in names:
            self.counts[reason] = self.counts.get(reason, 0) + 1
            kept = self.names.setdefault(reason, [])
            if len(kept) < MAX_NAMED_REASONS:
                kept.append(printable(name)[:MAX_NAME])

    def update(self, other: Unproven) -> None:
        for reason, count in other.counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count
            self.names[reason] = [*self.names.get(reason, []), *other.names[reason]][:MAX_NAMED_REASONS]

    def exit_code(self, allowed: Collection[Reason] = ()) -> int:
        """`ExitCode.DONE` where every reason is empty or allowed, else `ExitCode.UNPROVEN`."""
        return ExitCode.DONE if self.counts.keys() <= set(allowed) else ExitCode.UNPROVEN

    def lines(self, allowed: Collection[Reason] = ()) -> Iterator[tuple[Reason, str]]:
        """Each reason that is not empty with a line that says so; those allowed are marked as such."""
        for reason in sorted(self.counts):
            count, names = self.counts[reason], self.names[reason]
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            word = "not proven, allowed" if reason in allowed else "not proven"
            yield reason, f"{word} ({reason}): {count:,} {reason.meaning}: {', '.join(names)}{more}"

    def facts(self, reason: Reason) -> dict[str, object]:
        return {"count": self.counts[reason], "names": self.names[reason]}
