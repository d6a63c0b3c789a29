"""Counts what is not proven of published runs, by reason, with the names of the first few."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from exporter.errors import ExitCode, printable

MAX_NAMES = 20
"""Largest number of names that are kept for a reason."""

MAX_NAME_CHARACTERS = 240
"""Longest name. A name may come out of a file that anybody wrote."""


class UnprovenReason(StrEnum):
    """Why something is not proven. The values are those of ``--allow-unproven``.

    Attributes:
        meaning: what the reason means, for people.
    """

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> UnprovenReason:
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


@dataclass(slots=True)  # and no struct: `exporter --help` imports this module, and must not import msgspec
class Unproven:
    """What is not proven.

    Attributes:
        counts: how much is not proven for each reason.
        names: the names of the first `MAX_NAMES` of each reason.
    """

    counts: dict[UnprovenReason, int] = field(default_factory=dict)
    names: dict[UnprovenReason, list[str]] = field(default_factory=dict)

    def add(self, reason: UnprovenReason, names: Iterable[str]) -> None:
        """Count each of the names for a reason."""
        for name in names:
            self.counts[reason] = self.counts.get(reason, 0) + 1
            first_names = self.names.setdefault(reason, [])
            if len(first_names) < MAX_NAMES:
                first_names.append(printable(name)[:MAX_NAME_CHARACTERS])

    def update(self, other: Unproven) -> None:
        """Add all counts and names of another."""
        for reason, count in other.counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count
            self.names[reason] = [*self.names.get(reason, []), *other.names[reason]][:MAX_NAMES]

    def exit_code(self, allowed: Collection[UnprovenReason] = ()) -> int:
        """`ExitCode.DONE` if every reason that has a count is allowed, `ExitCode.UNPROVEN` otherwise."""
        return ExitCode.DONE if self.counts.keys() <= set(allowed) else ExitCode.UNPROVEN

    def lines(self, allowed: Collection[UnprovenReason] = ()) -> Iterator[tuple[UnprovenReason, str]]:
        """A line for people for each reason that has a count. Lines of allowed reasons say that they are allowed."""
        for reason in sorted(self.counts):
            count, names = self.counts[reason], self.names[reason]
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            word = "not proven, allowed" if reason in allowed else "not proven"
            yield reason, f"{word} ({reason}): {count:,} {reason.meaning}: {', '.join(names)}{more}"

    def facts(self, reason: UnprovenReason) -> dict[str, object]:
        return {"count": self.counts[reason], "names": self.names[reason]}
