"""Newest documents of histories that a run need not render, because no bucket of theirs closed since the run before.

Their digests are in the listing of that run. They are taken over length by length of bucket, and only where every one
is in the store with its size; what was lost is rendered again. A run that reads another digest back fails, and the
next one renders everything, because only a run that succeeds leaves the state that allows this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import polars as pl

from exporter.errors import StoreError
from exporter.publishing.published_state import Pointer, read_current_listing
from exporter.stores.store import Store, list_many
from exporter.tree.documents import ManifestFile
from exporter.tree.run_listing import RunListing, listed_files

_LENGTH = pl.col("key").str.extract(r"/history/(\w+)\.json$")


@dataclass(frozen=True, slots=True)
class KeptHistories:
    """The lengths of bucket, and as an iterable the newest documents of all histories in these."""

    lengths: frozenset[str] = frozenset()
    listing: RunListing | None = None

    def __iter__(self) -> Iterator[ManifestFile]:
        if self.listing is not None:
            yield from listed_files(self.listing.frame.filter(_LENGTH.is_in(self.lengths)))


def kept_histories(store: Store, published: Pointer, lengths: Collection[str]) -> KeptHistories:
    """The newest documents of the published run in these lengths, but for a length of which any document is lost."""
    try:
        listing = read_current_listing(store, published) if lengths else None
    except StoreError:
        listing = None
    if listing is None:
        return KeptHistories()
    folder = pl.col("key").str.extract(r"^(\w+/\w+/)")
    folders = set(listing.frame.filter(_LENGTH.is_not_null()).select(folder).to_series())
    infos = list_many(store, sorted(folders))
    unchanged = {f"{info.size} {info.key}" for info in infos if "/history/" in info.key}
    whole, lost = set[str](), set[str]()
    found = listing.frame.filter(_LENGTH.is_in(lengths)).select("key", "bytes", _LENGTH.alias("in"))
    for key, size, length in found.iter_rows():
        (whole if f"{size} {key}" in unchanged else lost).add(length)
    return KeptHistories(frozenset(whole - lost), listing)
