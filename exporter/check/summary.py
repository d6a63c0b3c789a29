"""The results of a check: its summary and its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.errors import CheckError, pluralize

SHOWN_FAULTS = 20


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
