"""Everything of a tree that its checks need, once all files are there."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from exporter.check.faults import Faults, Looked
from exporter.check.rows import Page, RowTable
from exporter.tree.documents import HistoryManifest, PoolSnapshot, RunManifest, SystemStatus
from exporter.tree.families import assets_folder


class Seen(Struct, frozen=True, gc=False):
    """A file that was added: its size and digest. There are very many, so the garbage collector passes them over."""

    bytes: int
    sha256: str


@dataclass(slots=True)
class Whole:
    """A tree, reduced to what its checks need.

    ``heads`` are the first pages by folder and name (``index``, ``limit/20``), ``pages`` the immutable ones by token,
    ``documents`` what is kept of all others by model and key. With ``partial`` files may be missing that the run's
    manifest lists, because only a sample is looked at; with ``own_files_only`` the history that earlier runs left.
    """

    partial: bool = False
    own_files_only: bool = False
    faults: Faults = field(default_factory=Faults)
    looked: Looked = field(default_factory=Looked)
    table: RowTable = field(default_factory=RowTable)
    seen: dict[str, Seen] = field(default_factory=dict)
    heads: dict[str, dict[str, Page]] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    documents: dict[type, dict[str, Any]] = field(default_factory=dict)
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The links of web pages, by key."""
    status: SystemStatus | None = None
    manifests: dict[str, RunManifest] = field(default_factory=dict)
    history: HistoryManifest | None = None

    listing: tuple[int, ...] = ()
    """All pools of the run, in order, as rows of the table; found by the walks."""
    by_folder: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The pools of each filter, by the folder of its first pages."""

    by_name: dict[tuple[str, str], PoolSnapshot] = field(default_factory=dict)
    """The pools by market and id."""

    unlisted: set[str] = field(default_factory=set)
    """Files that were added although they are not of this run alone: the history's manifest, its files and pages."""
    listed: Container[str] = frozenset()
    """Keys that the run's manifest lists."""

    def there(self, key: str) -> bool:
        """Whether a link to a file leads somewhere. Counts the link."""
        self.looked.links += 1
        return key in self.seen or (self.partial and key in self.listed)

    def of(self, model: type) -> dict[str, Any]:
        """What is kept of the documents of a model, by key."""
        return self.documents.get(model, {})

    def rows(self, folder: str) -> list[PoolSnapshot]:
        """The pools of a filter, in order."""
        return [self.table.snapshots[position] for position in self.by_folder.get(folder, ())]

    def market_rows(self, market: str) -> list[PoolSnapshot]:
        """The pools of a market, in order."""
        return self.rows(assets_folder(market, None))

    def group(self, listing: tuple[int, ...]) -> None:
        """Take the rows of a walk over all pools as the listing, and sort them by filter."""
        folders: dict[str, list[int]] = {}
        for position in listing:
            row = self.table.snapshots[position]
            for market, token in ((row.market, None), (None, row.token_address), (row.market, row.token_address)):
                folders.setdefault(assets_folder(market, token), []).append(position)
        self.listing = listing
        self.by_name = {(row.market, row.pool): row for row in map(self.table.snapshots.__getitem__, listing)}
        self.by_folder = {folder: tuple(positions) for folder, positions in folders.items()}
        self.by_folder[assets_folder(None, None)] = listing
