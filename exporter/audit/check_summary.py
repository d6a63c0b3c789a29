"""How much of a published tree was checked, as data and in lines."""

from __future__ import annotations

from exporter.errors import pluralize
from exporter.publishing.checker import CheckCounts


class CheckSummary(CheckCounts, kw_only=True):
    """How much was checked: a check that read little proves little.

        >>> summary.complete, summary.links > summary.pools
        (True, True)
        >>> summary.lines()[0].startswith("run ")
        True

    Attributes:
        complete: whether the whole tree was checked; False for a sample.
        version: the exporter's version, as the tree's OpenAPI document states it.
        validated: number of documents that were also validated against the schemas of the tree's OpenAPI document.
        requests: number of public URLs that were asked for.
        rerendered: number of files that rendering the run again from its evidence and the history gave byte for byte.
        not_rerendered: why no file was rendered again; None if some were, and for a sample.
    """

    complete: bool
    version: str
    validated: int
    requests: int
    rerendered: int = 0
    not_rerendered: str | None = None

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
