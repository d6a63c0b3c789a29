"""Pages of pool snapshots: every filter in every page size, from the pools frame to bytes.

A filter is none, a market, a token, or both. For each filter and size the rows are cut into a chain of pages,
each holding the token of the next. A token names a page by the hash of its bytes, so a chain is rendered from
its last page to its first. The first pages are documents that every run replaces; the later ones, and the first
one at the default size (where ``limit=0`` points to), are immutable page files. Whoever holds a cursor therefore
stays on the run, the filter and the size he began with.

Each row is rendered once, by Polars, and its bytes are used in all pages that hold it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
from msgspec import ValidationError, convert

from exporter.errors import CheckError
from exporter.tree.documents import AssetsPage, PoolSnapshot, page_token
from exporter.tree.families import EMPTY_PAGE_KEY, assets_folder, page_key
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import parse_back
from exporter.tree.routes import checked_page_sizes

WIRE_FIELDS: tuple[str, ...] = PoolSnapshot.__struct_fields__
"""The columns of the pools frame that are on the wire, in the order of the wire."""

_DIGITS_FIELDS = ("total_supplied", "total_borrowed", "tvl_usd_cents")


def render_pages(
    pools: pl.DataFrame, markets: pl.DataFrame, sizes: Sequence[int], default_size: int
) -> Iterator[RenderedFile]:
    """Render the assets endpoint: first all immutable pages, then the documents that point to them.

    `pools` is the pools frame (one row a pool, sorted by market and then pool, all of one ledger) and `markets` the
    markets frame, of which every market gets its documents even when none of its pools could be read. Files are
    yielded one by one, each read back and compared with the frame, in an order that depends on the input alone;
    a page that several filters share is yielded once.

    Raises ConfigError for sizes that cannot serve every limit and CheckError for a frame out of order or a file that
    does not say what the frame says.
    """
    ordered_sizes = checked_page_sizes(sizes, default_size)
    check_pools(pools)
    table = _Table(row_json(pools), snapshots(pools))
    listings = list(_listings(pools, markets))
    heads: list[_Heads] = []
    written: set[str] = set()
    for listing in listings:
        heads.append((yield from _render_chains(table, listing, ordered_sizes, default_size, written)))
    yield _checked(EMPTY_PAGE_KEY, FileKind.DOCUMENT, b'{"data":[],"next_cursor":null}', [], None)
    for listing, first in zip(listings, heads, strict=True):
        yield from _render_heads(table, listing, first, ordered_sizes, default_size)


def wire_frame(pools: pl.DataFrame) -> pl.DataFrame:
    """The pools frame as it is on the wire: the 13 fields, Int128 columns as digits (String, exact)."""
    return pools.select(
        pl.col(name).cast(pl.String) if name in _DIGITS_FIELDS else pl.col(name) for name in WIRE_FIELDS
    )


def row_json(pools: pl.DataFrame) -> list[bytes]:
    """The JSON of each row, byte for byte what msgspec makes of its `PoolSnapshot`."""
    encoded = wire_frame(pools).select(pl.struct(pl.all()).struct.json_encode().cast(pl.Binary).alias("json"))
    rows: list[bytes] = encoded.get_column("json").to_list()
    return rows


def snapshots(pools: pl.DataFrame) -> list[PoolSnapshot]:
    """The rows as wire models, by another road than `row_json`, so that one can be checked by the other.

    CheckError, naming the pool and the field, for a value that the API does not allow.
    """

    return [_snapshot(row) for row in pools.select(WIRE_FIELDS).iter_rows(named=True)]


def page_bytes(rows: Sequence[bytes], next_cursor: str | None) -> bytes:
    """The JSON of a page of rows that are rendered already."""
    cursor = b"null" if next_cursor is None else b'"%b"' % next_cursor.encode("ascii")
    return b'{"data":[%b],"next_cursor":%b}' % (b",".join(rows), cursor)


def chain(rows: Sequence[bytes], size: int) -> Iterator[tuple[int, bytes, str, str | None]]:
    """The pages of one listing in one size, from the last to the first.

    Yields the position of the page's first row, its bytes, its token, and the token of the page after it.
    """
    next_token: str | None = None
    for start in reversed(range(0, len(rows), size)):
        data = page_bytes(rows[start : start + size], next_token)
        token = page_token(data)
        yield start, data, token, next_token
        next_token = token


def check_pools(pools: pl.DataFrame) -> None:
    """Refuse a pools frame that breaks a promise of the API, with CheckError.

    Rows must ascend by market and pool without a repetition and be of one ledger, and a pool has a value in USD
    exactly when it has a price.
    """
    previous = ("", "")
    for row in pools.select("market", "pool").iter_rows():
        if row <= previous:
            raise CheckError(f"pools: {row} stands after {previous}; rows must ascend by market and pool, each once")
        previous = row
    ledgers = pools.get_column("observed_ledger").unique().sort().to_list()
    if len(ledgers) > 1:
        raise CheckError(f"pools: the rows of one run must be of one ledger; they are of {ledgers}")
    torn = pools.filter(pl.col("oracle_price_usd").is_null() != pl.col("tvl_usd_cents").is_null())
    if torn.height:
        raise CheckError(
            f"pools: {torn['market'][0]} {torn['pool'][0]}: oracle_price_usd and tvl_usd_cents must be null together"
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """All rows twice: as the bytes that are written, and as the models that are expected when reading back."""

    json: list[bytes]
    expected: list[PoolSnapshot]


@dataclass(frozen=True, slots=True)
class _Listing:
    """The rows of one filter, in order, as positions in the table."""

    folder: str
    positions: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Heads:
    """What the documents of a listing point to: the second page of each size, and the first of the default size."""

    second: tuple[str | None, ...]
    first: str | None


def _snapshot(row: dict[str, object]) -> PoolSnapshot:
    digits = {name: str(row[name]) for name in _DIGITS_FIELDS if row[name] is not None}
    try:
        return convert(row | digits, PoolSnapshot)
    except ValidationError as error:
        raise CheckError(f"pools: {row['market']} {row['pool']}: {error}") from error


def _listings(pools: pl.DataFrame, markets: pl.DataFrame) -> Iterator[_Listing]:
    by_market: dict[str, list[int]] = {market: [] for market in markets.get_column("market")}
    by_token: dict[str, list[int]] = {}
    by_both: dict[tuple[str, str], list[int]] = {}
    for position, (market, token) in enumerate(pools.select("market", "token_address").iter_rows()):
        by_market.setdefault(market, []).append(position)
        by_token.setdefault(token, []).append(position)
        by_both.setdefault((market, token), []).append(position)
    yield _Listing(assets_folder(None, None), range(pools.height))
    for market in sorted(by_market):
        yield _Listing(assets_folder(market, None), by_market[market])
    for token in sorted(by_token):
        yield _Listing(assets_folder(None, token), by_token[token])
    for market, token in sorted(by_both):
        yield _Listing(assets_folder(market, token), by_both[market, token])


def _render_chains(
    table: _Table, listing: _Listing, sizes: Sequence[int], default_size: int, written: set[str]
) -> Generator[RenderedFile, None, _Heads]:
    """Yield the immutable pages of a listing that are not among `written`; return what its documents point to."""
    rows = [table.json[position] for position in listing.positions]
    second: list[str | None] = []
    first: str | None = None
    for size in sizes:
        after_head: str | None = None
        for start, data, token, next_token in chain(rows, size):
            if start == 0:
                after_head = next_token
                if size != default_size:
                    continue
                first = token
            if token not in written:
                written.add(token)
                expected = [table.expected[position] for position in listing.positions[start : start + size]]
                yield _checked(page_key(token), FileKind.PAGE, data, expected, next_token)
        second.append(after_head)
    return _Heads(tuple(second), first)


def _render_heads(
    table: _Table, listing: _Listing, heads: _Heads, sizes: Sequence[int], default_size: int
) -> Iterator[RenderedFile]:
    """Yield the documents of a listing: its first page at the default size, at limit 0, and at every size."""

    def head(name: str, size: int, next_cursor: str | None) -> RenderedFile:
        positions = listing.positions[:size]
        data = page_bytes([table.json[position] for position in positions], next_cursor)
        expected = [table.expected[position] for position in positions]
        return _checked(f"{listing.folder}/{name}.json", FileKind.DOCUMENT, data, expected, next_cursor)

    yield head("index", default_size, heads.second[sizes.index(default_size)])
    yield head("limit/0", 0, heads.first)
    for size, second in zip(sizes, heads.second, strict=True):
        yield head(f"limit/{size}", size, second)


def _checked(
    key: str, kind: FileKind, data: bytes, expected: list[PoolSnapshot], next_cursor: str | None
) -> RenderedFile:
    """A rendered page, read back and found to be exactly the rows it should hold."""
    file = RenderedFile(key, data, kind)
    page = parse_back(file.key, file.data)
    if page != AssetsPage(expected, next_cursor):
        raise CheckError(f"{key}: {_difference(page, expected, next_cursor)}")
    return file


def _difference(page: object, expected: list[PoolSnapshot], next_cursor: str | None) -> str:
    if not isinstance(page, AssetsPage):
        return f"is a {type(page).__name__}, not a page"
    if len(page.data) != len(expected):
        return f"$.data has {len(page.data)} rows, the table has {len(expected)}"
    for index, (row, wanted) in enumerate(zip(page.data, expected, strict=True)):
        for field in WIRE_FIELDS:
            if getattr(row, field) != getattr(wanted, field):
                return f"$.data[{index}].{field} is {getattr(row, field)!r}, the table has {getattr(wanted, field)!r}"
    return f"$.next_cursor is {page.next_cursor!r}, not {next_cursor!r}"
