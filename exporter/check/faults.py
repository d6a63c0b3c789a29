"""What is wrong with a tree, and how much of it was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.errors import CheckError
from exporter.numbers.wording import counted

SHOWN_FAULTS = 20
"""How many faults a message lists."""

KEPT_FAULTS = 10_000
"""How many faults are remembered; further ones are only counted."""

MAX_FAULT_CHARACTERS = 400
"""A fault may repeat what a file says, and a file may say anything."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong: the key of the file in which it shows, and what it is."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class TreeFaultsError(CheckError):
    """A tree fails its checks.

    Attributes:
        faults: what is wrong, by key; at most KEPT_FAULTS.
        total: how many faults there are.
    """

    def __init__(self, faults: Sequence[Fault], total: int) -> None:
        shown = [f"  {fault}" for fault in faults[:SHOWN_FAULTS]]
        if total > len(shown):
            shown.append(f"  and {total - len(shown)} more")
        count = "1 fault" if total == 1 else f"{total} faults"
        super().__init__("\n".join((f"the tree fails its checks: {count}", *shown)))
        self.faults = tuple(faults)
        self.total = total


class Faults:
    """Collects faults, each once, within a bound."""

    def __init__(self) -> None:
        self._kept: set[Fault] = set()
        self.total = 0

    def add(self, key: str, text: str) -> None:
        """Note that something is wrong in the file of a key."""
        if len(text) > MAX_FAULT_CHARACTERS:
            text = text[: MAX_FAULT_CHARACTERS - 1] + "…"
        fault = Fault(key, text.replace("\n", " "))
        if fault in self._kept:
            return
        self.total += 1
        if len(self._kept) < KEPT_FAULTS:
            self._kept.add(fault)

    def add_all(self, key: str, texts: Iterable[str]) -> None:
        """Note everything that is wrong in the file of a key."""
        for text in texts:
            self.add(key, text)

    def raise_any(self) -> None:
        """Raise TreeFaultsError if anything is wrong."""
        if self.total:
            raise TreeFaultsError(sorted(self._kept), self.total)


@dataclass(slots=True)
class Looked:
    """How much was looked at. A check that looked at little proves little."""

    files: Counter[str] = field(default_factory=Counter)
    """Files by kind."""
    bytes: Counter[str] = field(default_factory=Counter)
    """Bytes by kind."""
    documents: Counter[str] = field(default_factory=Counter)
    """Documents by the name of their model."""
    validated: int = 0
    """Documents that were also held against the schemas of the tree's OpenAPI document."""
    rows: int = 0
    """Pool snapshots in all pages, each as often as it stands there."""
    pools: int = 0
    """Different pools."""
    markets: int = 0
    walks: int = 0
    """Walks from a first page to the end of its filter."""
    links: int = 0
    """Cursors, references and links that were followed to a file."""
    history_files: int = 0
    history_rows: int = 0
    requests: int = 0
    """Public URLs that were asked for, beside the files themselves."""
    ledger: int = 0
    run_id: str = ""
    complete: bool = True
    """False for a sample."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a report."""
        return {
            "run_id": self.run_id,
            "ledger": self.ledger,
            "complete": self.complete,
            "files": dict(sorted(self.files.items())),
            "bytes": dict(sorted(self.bytes.items())),
            "documents": dict(sorted(self.documents.items())),
            "validated": self.validated,
            "markets": self.markets,
            "pools": self.pools,
            "rows": self.rows,
            "walks": self.walks,
            "links": self.links,
            "history_files": self.history_files,
            "history_rows": self.history_rows,
            "requests": self.requests,
        }

    def lines(self) -> list[str]:
        """The same for people."""
        kinds = ", ".join(
            f"{count:,} {kind} ({counted(self.bytes[kind], 'byte')})" for kind, count in sorted(self.files.items())
        )
        models = ", ".join(f"{count:,} {name}" for name, count in sorted(self.documents.items()))
        lines = [
            f"run {self.run_id} at ledger {self.ledger}" + ("" if self.complete else ", a sample of it"),
            f"files: {kinds}",
            f"documents: {models}",
            f"{counted(self.pools, 'pool')} of {counted(self.markets, 'market')}, "
            f"in {counted(self.rows, 'row')} of pages",
            f"{counted(self.walks, 'walk')} from a first page to the end, {counted(self.links, 'link')} followed",
            f"history: {counted(self.history_files, 'file')} with {counted(self.history_rows, 'row')}",
        ]
        if self.validated:
            lines.append(f"{counted(self.validated, 'document')} validated against the tree's own OpenAPI document")
        if self.requests:
            lines.append(f"{counted(self.requests, 'public URL')} asked for")
        return lines
