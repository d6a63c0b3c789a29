"""Pages of pool snapshots: every filter in every page size, from the pools frame to bytes.

A filter is a market, a token, both, or empty. For each filter and size the rows are cut into a chain of pages,
each holding the token of the next. A token names a page by the hash of its bytes, so a chain is rendered from
its last page to its first. The first pages are documents that every run replaces; the later ones, and the first
one at the default size (where ``limit=0`` points to), are immutable page files. Whoever holds a cursor therefore
stays on the run, the filter and the size he began with. A first page that has the bytes of the listing's
``index.json`` is left out, which then answers for it.

That the pages keep to their model is seen when they are read back (`exporter.check.checker`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from exporter.errors import CheckError
from exporter.tables import document_fields
from exporter.tree.documents import encode, token_of
from exporter.tree.families import EMPTY_PAGE_KEY, PAGE, assets_folder
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.pools import PoolSnapshot
from exporter.tree.routes import checked_page_sizes


def render_pages(
    pools: pl.DataFrame, markets: pl.DataFrame, sizes: Sequence[int], default_size: int
) -> Iterator[RenderedFile]:
    """Render the assets endpoint: of each filter the immutable pages, then the documents that point to them.

    `pools` is the pools frame (one row a pool, sorted by market and then pool, all of one ledger) and `markets` the
    markets frame, of which every market gets its documents even when none of its pools could be read. Files are
    yielded one by one in an order that depends on the input alone; a page that several filters share is yielded once.

    Raises ConfigError for sizes that cannot serve every limit and CheckError for a frame out of order.
    """
    ordered_sizes = checked_page_sizes(sizes, default_size)
    check_pools(pools)
    rows = [encode(row) for row in snapshots(pools)]
    written: set[str] = set()
    yield RenderedFile(EMPTY_PAGE_KEY, page_bytes(b"", None), FileKind.DOCUMENT)
    for listing in _listings(pools, markets):
        for file in _render_listing(listing, rows, ordered_sizes, default_size):
            if file.key not in written:
                yield file
            if file.kind is FileKind.PAGE:
                written.add(file.key)


def snapshots(pools: pl.DataFrame) -> list[PoolSnapshot]:
    """The rows of the pools frame as documents have them."""
    return [PoolSnapshot(*row) for row in pools.select(document_fields(PoolSnapshot)).iter_rows()]


def page_bytes(rows: bytes, next_cursor: str | None) -> bytes:
    """The JSON of a page of rows that are rendered and joined already."""
    cursor = b"null" if next_cursor is None else b'"%b"' % next_cursor.encode("ascii")
    return b'{"data":[%b],"next_cursor":%b}' % (rows, cursor)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a chain: where in the listing it begins, its bytes, and its token."""

    start: int
    data: bytes
    token: str
    sha256: str


def chain(rows: Sequence[bytes], size: int) -> Iterator[Page]:
    """The pages of rows in one size, from the last to the first. A listing without rows has a page, too."""
    token = None
    for start in reversed(range(0, max(len(rows), 1), size)):
        data = page_bytes(b",".join(rows[start : start + size]), token)
        digest = hashlib.sha256(data)
        token = token_of(digest.digest())
        yield Page(start, data, token, digest.hexdigest())


def check_pools(pools: pl.DataFrame) -> None:
    """Refuse a pools frame of which the rows do not ascend by market and pool, each once, with CheckError."""
    previous = ("", "")
    for row in pools.select("market", "pool").iter_rows():
        if row <= previous:
            raise CheckError(f"pools: {row} comes after {previous}; rows must ascend by market and pool, each once")
        previous = row


@dataclass(frozen=True, slots=True)
class _Listing:
    """The rows of one filter, in order, as positions in the frame; ``narrow`` for a market's pools of one token."""

    folder: str
    positions: Sequence[int]
    narrow: bool = False


def _listings(pools: pl.DataFrame, markets: pl.DataFrame) -> Iterator[_Listing]:
    places = pools.select("market", pl.col("token_address").alias("token")).with_row_index("place")

    def grouped(*keys: str) -> pl.DataFrame:
        return places.group_by(keys, maintain_order=True).agg("place").sort(keys)

    yield _Listing(assets_folder(None, None), range(pools.height))
    names = pl.concat([markets["market"], places["market"]]).unique().sort().to_frame()
    for market, own in names.join(grouped("market"), on="market", how="left", maintain_order="left").iter_rows():
        yield _Listing(assets_folder(market, None), own or ())
    for token, own in grouped("token").iter_rows():
        yield _Listing(assets_folder(None, token), own)
    for market, token, own in grouped("market", "token").iter_rows():
        yield _Listing(assets_folder(market, token), own, narrow=True)


def _render_listing(
    listing: _Listing, rows: Sequence[bytes], sizes: Sequence[int], default_size: int
) -> Iterator[RenderedFile]:
    """Yield the immutable pages of a listing, and then its documents, the first pages in every size."""
    own = [rows[position] for position in listing.positions]
    heads: dict[int, Page] = {}
    for size in sizes:
        for page in chain(own, size):
            if page.start == 0:
                heads[size] = page
            if page.start or (size == default_size and own and not listing.narrow):
                yield RenderedFile(PAGE.key(cursor=page.token), page.data, FileKind.PAGE, page.sha256)
    index = heads[default_size]
    left_out: list[str] = []
    # Of a market's pools of one token, which are one nearly always, nobody needs the page without rows.
    if listing.narrow or not own:
        left_out.append("limit/0.json")
    else:
        none = page_bytes(b"", index.token)
        yield RenderedFile(f"{listing.folder}/limit/0.json", none, FileKind.DOCUMENT)
    for size, page in heads.items():
        if page.data == index.data:
            left_out.append(f"limit/{size}.json")
        else:
            yield RenderedFile(f"{listing.folder}/limit/{size}.json", page.data, FileKind.DOCUMENT, page.sha256)
    yield RenderedFile(f"{listing.folder}/index.json", index.data, FileKind.DOCUMENT, index.sha256, tuple(left_out))
