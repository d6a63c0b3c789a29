"""The history documents of the published run that a run may list again instead of writing them."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl
from msgspec import Struct

from exporter.errors import StoreError
from exporter.publishing.published_state import Published, read_current_listing
from exporter.stores.store import Store
from exporter.tree.documents import ManifestFile
from exporter.tree.families import POOL_DOCUMENT
from exporter.tree.run_listing import listed_files

_BUCKET_LENGTH = (
    pl.when(pl.col("key").str.ends_with("/history.csv"))
    .then(pl.lit("1d"))
    .otherwise(pl.col("key").str.extract(r"/history/(\w+)\.json$"))
)
"""The bucket length of a history document, out of its key, as an expression; null for other keys.

The history in days is also there as CSV.
"""


class UnchangedHistories(Struct, frozen=True):
    """History documents that stay as the published run wrote them.

    Attributes:
        lengths: the bucket lengths in which no document has to be written again.
        files: the documents of these lengths, as the published run lists them.
    """

    lengths: frozenset[str] = frozenset()
    files: tuple[ManifestFile, ...] = ()


def find_unchanged_histories(
    store: Store, published: Published, lengths: Collection[str], totals: Collection[str]
) -> UnchangedHistories:
    """The history documents of the published run that are the same in the next one.

    ``lengths`` are the bucket lengths in which no time bucket closed since. A length is reused only if each of its
    documents is in the store with the size that the published run's listing gives. ``totals`` are the keys of the
    histories of totals that may be reused; every run renders those in which no pool was ever observed.

    The digests are taken from that listing, too. The content is not read here, so a damaged document would be listed
    again. Reading back may find it, and then this run fails. The next run renders everything, because the state that
    allows to reuse documents is saved only by runs that succeed.
    """
    if not lengths:
        return UnchangedHistories()
    try:
        listing = read_current_listing(store, published.status)
    except StoreError:
        return UnchangedHistories()
    is_of_pool, is_of_total = pl.col("key").str.starts_with(POOL_DOCUMENT.prefix), pl.col("key").is_in(list(totals))
    histories = listing.frame.with_columns(_BUCKET_LENGTH.alias("length")).filter(
        pl.col("length").is_not_null() & (is_of_pool | is_of_total)
    )
    folders = set(histories.select(pl.col("key").str.extract(r"^(\w+/\w+/)")).to_series())
    sizes = {info.key: info.size for folder in sorted(folders) for info in store.list(folder)}
    listed = histories.select("key", "bytes", "length").iter_rows()
    lost = {length for key, size, length in listed if sizes.get(key) != size}
    reused = frozenset(histories["length"]).intersection(lengths) - lost
    return UnchangedHistories(
        reused, tuple(listed_files(histories.filter(pl.col("length").is_in(reused)).drop("length")))
    )
