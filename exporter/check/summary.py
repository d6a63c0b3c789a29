"""The results of a check: its summary, its faults, and the facts it collects while files pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from exporter.errors import CheckError, pluralize
from exporter.tree.run_listing import RunListing

_Model = TypeVar("_Model")

SHOWN_FAULTS = 20

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
    """A tree fails its checks; ``faults`` say what is wrong, by key."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        shown = [f"  {fault}" for fault in faults[:SHOWN_FAULTS]]
        if len(faults) > len(shown):
            shown.append(f"  and {len(faults) - len(shown)} more")
        super().__init__("\n".join((f"the tree fails its checks: {pluralize(len(faults), 'fault')}", *shown)))
        self.faults = tuple(faults)


@dataclass(slots=True)
class CheckSummary:
    """How much was checked. A check of little proves little.

        >>> summary.pools, summary.links > 0
        (24, True)
        >>> summary.lines()[0].startswith("run ")
        True

    ``files`` and ``bytes`` are by kind, ``documents`` by the name of their model, ``markets`` and ``pools`` those with
    one of their own. ``validated`` were also held against the schemas of the tree's OpenAPI document, whose ``version``
    is that of the exporter. ``links`` were followed to a file. ``rerendered`` files came out of the run's evidence and
    the history byte for byte; ``not_rerendered`` says why none was, None also for a sample.
    """

    run_id: str = ""
    ledger: int = 0
    complete: bool = True
    version: str = ""
    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    validated: int = 0
    markets: int = 0
    pools: int = 0
    links: int = 0
    history_files: int = 0
    history_rows: int = 0
    requests: int = 0
    rerendered: int = 0
    not_rerendered: str | None = None

    def as_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(sorted(it.items())) if isinstance(it, Counter) else it for name, it in values.items()}

    def lines(self) -> list[str]:
        kinds = ", ".join(
            f"{count:,} {kind} ({pluralize(self.bytes[kind], 'byte')})" for kind, count in sorted(self.files.items())
        )
        models = ", ".join(f"{count:,} {name}" for name, count in sorted(self.documents.items()))
        lines = [
            f"run {self.run_id} at ledger {self.ledger}" + ("" if self.complete else ", a sample of it"),
            f"files: {kinds}",
            f"documents: {models}",
            f"{pluralize(self.pools, 'pool')} of {pluralize(self.markets, 'market')}, "
            f"{pluralize(self.links, 'link')} followed",
            f"history: {pluralize(self.history_files, 'file')} with {pluralize(self.history_rows, 'row')}",
        ]
        if self.validated:
            lines.append(f"{pluralize(self.validated, 'document')} validated against the tree's own OpenAPI document")
        if self.requests:
            lines.append(f"{pluralize(self.requests, 'public URL')} asked for")
        if self.rerendered:
            lines.append(f"{pluralize(self.rerendered, 'file')} rendered again from evidence, byte for byte")
        if self.not_rerendered is not None:
            lines.append(f"not rendered again: {self.not_rerendered}")
        return lines


@dataclass(slots=True)
class Whole:
    """A tree, reduced to what its checks need. ``partial``: a sample; ``own_files_only``: no earlier run's history."""

    ledger: int
    page_sizes: Sequence[int]
    partial: bool = False
    own_files_only: bool = False
    listed: RunListing = field(default_factory=lambda: RunListing.of(()))
    faults: set[Fault] = field(default_factory=set)
    summary: CheckSummary = field(default_factory=CheckSummary)
    seen: set[str] = field(default_factory=set)
    links: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Keys that must be there in the end and were not when a file led to them: that file, and what is wrong if not."""
    documents: dict[type, tuple[str, Any]] = field(default_factory=dict)
    latest: str | None = None
    """The digest of the newest run's Parquet file under its lasting name."""
    wanted: list[str] = field(default_factory=list)
    """The keys of older pages of histories that documents led to."""

    def one(self, model: type[_Model]) -> _Model | None:
        _, document = self.documents.get(model, ("", None))
        return cast("_Model | None", document)

    def there(self, key: str) -> bool:
        """Whether a link to a file leads somewhere. Counts the link."""
        self.summary.links += 1
        return key in self.seen or (self.partial and key in self.listed)

    def fault(self, key: str, *texts: str) -> None:
        for text in texts:
            cut = text if len(text) <= MAX_FAULT_CHARACTERS else text[: MAX_FAULT_CHARACTERS - 1] + "…"
            self.faults.add(Fault(key, cut.replace("\n", " ")))

    def raise_faults(self) -> None:
        if self.faults:
            raise TreeFaultsError(sorted(self.faults))
