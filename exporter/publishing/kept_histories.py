"""Newest documents of histories that a run need not render, because no bucket of theirs closed since the run before.

Their digests are in the listing of that run. They are taken over length by length of bucket, and only where every one
stands in the store with its size; what was lost is rendered again. A run that reads another digest back fails, and the
next one renders everything, because only a run that succeeds leaves the state that allows this.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import polars as pl

from exporter.errors import StoreError
from exporter.publishing.standing import Pointer, read_current_listing
from exporter.stores.store import Store
from exporter.tree.run_listing import RunListing


@dataclass(frozen=True, slots=True)
class KeptHistories:
    """The lengths of bucket, and the newest documents of all histories in these."""

    lengths: frozenset[str] = frozenset()
    files: RunListing = field(default_factory=lambda: RunListing.of([]))


def kept_histories(store: Store, published: Pointer, lengths: Collection[str]) -> KeptHistories:
    """The newest documents of the published run in these lengths, but for a length of which any document is lost."""
    try:
        frame = read_current_listing(store, published).frame if lengths else None
    except StoreError:
        frame = None
    if frame is None:
        return KeptHistories()
    key, length = pl.col("key"), pl.col("length")
    files = frame.with_columns(key.str.extract(r"/history/(\w+)\.json$").alias("length"))
    files = files.filter(length.is_in(list(lengths)))
    folders = files.select(key.str.extract(r"^(\w+/\w+/)")).to_series().unique().sort()
    infos = (info for folder in folders for info in store.list(folder) if "/history/" in info.key)
    sizes = {"key": pl.String(), "bytes": pl.Int64()}
    standing = pl.DataFrame(((info.key, info.size) for info in infos), sizes, orient="row")
    lost = files.join(standing, on=list(sizes), how="anti")["length"].unique().to_list()
    files = files.filter(~length.is_in(lost))
    return KeptHistories(frozenset(files["length"].unique()), RunListing(files.drop("length")))
