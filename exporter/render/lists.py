"""Renders lists of pools in pages (``/v1/assets`` and ``/v1/pools``), and the list of tokens (``/v1/tokens``).

The rows of a filter, such as a market or a token, are cut into a chain of pages. Each page has the cursor of the next.
A cursor names a page by the hash of its bytes, so a chain is rendered from its last page to its first.

First pages are documents, which every run replaces. Later pages are immutable, so a reader who follows cursors stays
with one run, filter and size. To begin with an immutable page, too, a reader asks for ``limit=0``: its cursor leads to
a copy of the first page of an assets list, at the default size.

A first page with the same bytes as the list's ``index.json`` is left out, and ``index.json`` answers in its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import polars as pl
from msgspec.structs import asdict

from exporter.best import SIDES, Side, best_of_tokens, with_ranks
from exporter.deployments import app_url
from exporter.deployments.identified_tokens import identities
from exporter.deployments.networks import common_symbol, lookup_symbols
from exporter.errors import CheckError
from exporter.exact_sums import Limbs, exact_sum
from exporter.history.periods import PERIODS
from exporter.ledger.tokens import Token
from exporter.protocols.compute import Tables
from exporter.protocols.numbers import PoolFrameRow
from exporter.render.run_documents import digits, token_documents
from exporter.tables import PoolKey, documents_of, pool_keys, rows_as
from exporter.tree.documents import BestRate, TokenEntry, TokenList, encode, token_of
from exporter.tree.families import (
    EMPTY_PAGE_KEY,
    PAGE,
    POOLS_PAGE,
    TOKENS_OF_SYMBOL,
    assets_folder,
    pools_key,
    pools_of_key,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.pool_parts import TokenIdentity
from exporter.tree.pool_periods import AssetPeriod
from exporter.tree.pool_rows import PoolRow
from exporter.tree.pools import PoolSnapshot
from exporter.tree.read_back import file_of

PAGE_ROWS = 500


class Page(NamedTuple):
    """A page of a chain.

    Attributes:
        start: the index of its first row in the list.
        data: its bytes.
        token: the cursor that names it.
        sha256: the SHA-256 of its bytes.
    """

    start: int
    data: bytes
    token: str
    sha256: str


def chain(rows: Sequence[bytes], size: int, ledger: int) -> Iterator[Page]:
    """The pages of a list in one size, from the last to the first. A list without rows has one page."""
    token = None
    for start in reversed(range(0, max(len(rows), 1), size)):
        data = page_bytes(b",".join(rows[start : start + size]), token, ledger)
        digest = hashlib.sha256(data)
        token = token_of(digest.digest())
        yield Page(start, data, token, digest.hexdigest())


def page_bytes(rows: bytes, next_cursor: str | None, ledger: int) -> bytes:
    """The JSON of a page, from rows that are rendered and joined already."""
    cursor = b"null" if next_cursor is None else b'"%b"' % next_cursor.encode("ascii")
    return b'{"data":[%b],"next_cursor":%b,"observed_ledger":%d}' % (rows, cursor, ledger)


def render_assets(
    pools: pl.DataFrame, markets: pl.DataFrame, sizes: Sequence[int], default_size: int, ledger: int
) -> Iterator[RenderedFile]:
    """Render the assets lists of all filters: first the pages of each, and then the documents that lead to them.

    Raises `CheckError` if the rows of the frame are not in order.
    """
    check_pools(pools)
    rows = [encode(row) for row in snapshots(pools)]
    yield RenderedFile(EMPTY_PAGE_KEY, page_bytes(b"", None, ledger), FileKind.DOCUMENT)
    written: set[str] = set()
    for market, token, indices in _filters(pools, markets):
        rows_of_filter = [rows[index] for index in indices]
        for file in _assets_list(market, token, rows_of_filter, sorted(sizes), default_size, ledger):
            if file.key not in written:
                yield file
            if file.kind is FileKind.PAGE:
                written.add(file.key)


def snapshots(pools: pl.DataFrame) -> list[PoolSnapshot]:
    """The rows of the pools frame as documents have them."""
    return [*documents_of(PoolSnapshot, pools)]


def check_pools(pools: pl.DataFrame) -> None:
    """Raise `CheckError` if the rows of a pools frame do not ascend by market and pool, or a pool is there twice."""
    previous = PoolKey("", "")
    for pool in pool_keys(pools):
        if pool <= previous:
            order = f"{'/'.join(pool)} comes after {'/'.join(previous)}"
            raise CheckError(f"pools: {order}; rows must ascend by market and pool, each once")
        previous = pool


def _filters(pools: pl.DataFrame, markets: pl.DataFrame) -> Iterator[tuple[str | None, str | None, Sequence[int]]]:
    """The market and the token of each filter, and the indices of its rows."""
    yield None, None, range(pools.height)
    by_market = dict(_indices_by(pools, "market"))
    for market in sorted({*markets["market"], *by_market}):
        yield market, None, by_market.get(market, ())
    for token, indices in _indices_by(pools, "token_address"):
        yield None, token, indices
    for market, token, indices in _indices_by(pools, "market", "token_address"):
        yield market, token, indices


def _indices_by(pools: pl.DataFrame, *names: str) -> Iterator[Any]:
    """The values of some columns, and the indices of the rows that have them."""
    rows = pools.select(names).with_row_index("index")
    return rows.group_by(names, maintain_order=True).agg("index").sort(names).iter_rows()


def _assets_list(
    market: str | None, token: str | None, rows: Sequence[bytes], sizes: Sequence[int], default_size: int, ledger: int
) -> Iterator[RenderedFile]:
    folder = assets_folder(market, token)
    """Render one list. Its pages come before its documents."""
    # A market nearly always has one pool of a token, so nobody needs that list's page without rows.
    narrow = market is not None and token is not None
    first_pages: dict[int, Page] = {}
    for size in sizes:
        for page in chain(rows, size, ledger):
            if page.start == 0:
                first_pages[size] = page
            if page.start or (size == default_size and rows and not narrow):
                yield RenderedFile(PAGE.key(cursor=page.token), page.data, FileKind.PAGE, page.sha256)
    index = first_pages[default_size]
    same_as_index: list[str] = []
    if narrow or not rows:
        same_as_index.append("limit/0.json")
    else:
        yield RenderedFile(f"{folder}/limit/0.json", page_bytes(b"", index.token, ledger), FileKind.DOCUMENT)
    for size, page in first_pages.items():
        if page.data == index.data:
            same_as_index.append(f"limit/{size}.json")
        else:
            yield RenderedFile(f"{folder}/limit/{size}.json", page.data, FileKind.DOCUMENT, page.sha256)
    yield RenderedFile(f"{folder}/index.json", index.data, FileKind.DOCUMENT, index.sha256, tuple(same_as_index))


class PeriodColumns(TypedDict):
    """The columns of periods in lists and on the site: a field of `AssetPeriod`, and the period."""

    mean_supply_apy_bps_7d: int | None
    mean_supply_apy_bps_30d: int | None
    mean_borrow_apy_bps_7d: int | None
    mean_borrow_apy_bps_30d: int | None
    mean_comparable_supply_apy_bps_24h: int | None
    mean_comparable_supply_apy_bps_7d: int | None
    mean_comparable_supply_apy_bps_30d: int | None
    mean_comparable_borrow_apy_bps_24h: int | None
    mean_comparable_borrow_apy_bps_7d: int | None
    mean_comparable_borrow_apy_bps_30d: int | None
    realized_supply_apy_bps_24h: int | None
    realized_supply_apy_bps_7d: int | None
    realized_supply_apy_bps_30d: int | None
    realized_borrow_apy_bps_24h: int | None
    realized_borrow_apy_bps_7d: int | None
    realized_borrow_apy_bps_30d: int | None


class PeriodTimes(TypedDict):
    """Where the realized yields of each period begin and end, as text (`AssetPeriod`)."""

    realized_from_24h: str | None
    realized_from_7d: str | None
    realized_from_30d: str | None
    realized_to_24h: str | None
    realized_to_7d: str | None
    realized_to_30d: str | None


class IdentityValues(TypedDict):
    """The fields of a `TokenIdentity`."""

    who: str
    home_domain: str | None
    stable: bool


class ListedPool(PoolFrameRow, PeriodColumns, PeriodTimes):
    """A row of a pools frame `with_list_columns`."""

    app_url: str | None
    token_name: str | None
    token_issuer: str | None
    token_identity: IdentityValues | None


_IDENTITY = pl.Struct({"who": pl.String(), "home_domain": pl.String(), "stable": pl.Boolean()})


def with_list_columns(
    pools: pl.DataFrame,
    periods: Sequence[Sequence[AssetPeriod]],
    network: str,
    tokens: Mapping[str, Token] | None = None,
) -> pl.DataFrame:
    """The pools frame with more columns for lists: each pool's URL in its app, its means, and facts of its token."""
    apps = [app_url(network, *place) for place in pools.select("protocol", "market", "pool").iter_rows()]
    of_periods = (
        pl.Series(name, _of_period(name, periods), dtype)
        for columns, dtype in ((PeriodColumns, pl.Int64()), (PeriodTimes, pl.String()))
        for name in columns.__annotations__
    )
    identities_of_network = identities(network)
    addresses = pools["token_address"].to_list()
    token_of_pool = [(tokens or {}).get(address) for address in addresses]
    identity_of_pool = [identities_of_network.get(address) for address in addresses]
    return pools.with_columns(
        pl.Series("app_url", apps, pl.String()),
        *of_periods,
        pl.Series("token_name", [token and token.name for token in token_of_pool], pl.String()),
        pl.Series("token_issuer", [token and token.issuer for token in token_of_pool], pl.String()),
        pl.Series("token_identity", [identity and asdict(identity) for identity in identity_of_pool], _IDENTITY),
    )


def common_symbols(pools: pl.DataFrame, native: str | None) -> list[str]:
    """The symbol that people use for the token of each pool (`exporter.deployments.networks.common_symbol`)."""
    rows = pools.select("symbol", "token_address").iter_rows()
    return [common_symbol(symbol, address, native) for symbol, address in rows]


def _of_period(column: str, periods: Sequence[Sequence[AssetPeriod]]) -> list[int | str | None]:
    """The values of a column of `PeriodColumns` or `PeriodTimes`, out of the periods of each pool."""
    field, _, name = column.rpartition("_")
    index = [period.name for period in PERIODS].index(name)
    return [getattr(periods_of_pool[index], field) for periods_of_pool in periods]


def render_pool_lists(pools: pl.DataFrame, protocols: Iterable[str], ledger: int) -> Iterator[RenderedFile]:
    """Render the lists of all pools, and of the pools of each protocol, market and token.

    ``pools`` is a frame of `with_list_columns`. A protocol without pools has a list, too.
    """
    written: set[str] = set()  # lists can share their last pages
    rows = [encode(row) for row in documents_of(PoolRow, pools)]
    for first_key, indices in _flat_lists(pools, protocols):
        for page in chain([rows[index] for index in indices], PAGE_ROWS, ledger):
            kind = FileKind.PAGE if page.start else FileKind.DOCUMENT
            key = POOLS_PAGE.key(cursor=page.token) if page.start else first_key
            if key not in written:
                written.add(key)
                yield RenderedFile(key, page.data, kind, page.sha256)


def _flat_lists(pools: pl.DataFrame, protocols: Iterable[str]) -> Iterator[tuple[str, Iterable[int]]]:
    """The key of each list's first page, and the indices of its rows."""
    every = pools.select("protocol", "can_supply").with_row_index("index")
    for protocol in (None, *protocols):
        chosen = every if protocol is None else every.filter(pl.col("protocol") == protocol)
        yield pools_key(protocol, only_open=False), chosen["index"]
        yield pools_key(protocol, only_open=True), chosen.filter("can_supply")["index"]
    for market, indices in _indices_by(pools, "market"):
        yield pools_of_key(market, None), indices
    for token, indices in _indices_by(pools, "token_address"):
        yield pools_of_key(None, token), indices


def render_tokens(
    tables: Tables, first_seen: Mapping[str, int], identity_of: Mapping[str, TokenIdentity], native: str | None
) -> Iterator[RenderedFile]:
    """Render the list of all tokens, and a list for each symbol that can be asked for, identified tokens first.

    Symbols that differ only in case share a file. ``native`` is the contract of the native asset; None if it is
    not known. The native asset is listed by both of its symbols, ``native`` and XLM.
    """
    every_token = token_list(tables, first_seen, identity_of)
    yield file_of(every_token)
    by_symbol: dict[str, list[TokenEntry]] = {}
    for entry in every_token.data:
        for symbol in lookup_symbols(entry.symbol, entry.address, native):
            by_symbol.setdefault(symbol, []).append(entry)
    for symbol, entries in sorted(by_symbol.items()):
        key = TOKENS_OF_SYMBOL.key(symbol=symbol)
        if TOKENS_OF_SYMBOL.pattern.fullmatch(key):
            identified_first = sorted(entries, key=lambda entry: (entry.identity is None, entry.address))
            document = TokenList(every_token.observed_ledger, identified_first)
            yield RenderedFile(key, encode(document), FileKind.DOCUMENT)


def token_list(tables: Tables, first_seen: Mapping[str, int], identity_of: Mapping[str, TokenIdentity]) -> TokenList:
    """Every token with its best rates, ascending by address."""
    ranked = with_ranks(tables.pools)
    totals = {row["token_address"]: row for row in rows_as(_TokenTotals, _totals_of_tokens(ranked))}
    best_rates = {side: _best_rates(ranked, side) for side in SIDES}
    entries = []
    for token in token_documents(tables, first_seen, identity_of):
        total = totals[token.address]
        entries.append(
            TokenEntry(
                address=token.address,
                symbol=token.symbol,
                decimals=token.decimals,
                market_count=total["market_count"],
                pool_count=total["pool_count"],
                open_pool_count=total["open_pool_count"],
                priced_count=total["priced_count"],
                supplied_usd_cents=digits(total["supplied_usd_cents"]),
                borrowed_usd_cents=digits(total["borrowed_usd_cents"]),
                unlisted_market_count=total["unlisted_market_count"],
                unlisted_pool_count=total["unlisted_pool_count"],
                unlisted_priced_count=total["unlisted_priced_count"],
                unlisted_supplied_usd_cents=digits(total["unlisted_supplied_usd_cents"]),
                unlisted_borrowed_usd_cents=digits(total["unlisted_borrowed_usd_cents"]),
                best_supply=best_rates["supply"].get(token.address),
                best_borrow=best_rates["borrow"].get(token.address),
                issuer=token.issuer,
                name=token.name,
                identity=token.identity,
            )
        )
    return TokenList(tables.ledger, entries)


class _TokenTotals(TypedDict):
    """A row of `_totals_of_tokens`."""

    token_address: str
    open_pool_count: int
    market_count: int
    pool_count: int
    priced_count: int
    supplied_usd_cents: Limbs | None
    borrowed_usd_cents: Limbs | None
    unlisted_market_count: int
    unlisted_pool_count: int
    unlisted_priced_count: int
    unlisted_supplied_usd_cents: Limbs | None
    unlisted_borrowed_usd_cents: Limbs | None


def _totals_of_tokens(pools: pl.DataFrame) -> pl.DataFrame:
    """The totals of each token's pools in listed markets, and in unlisted ones. Values are sums in limbs."""
    totals = [(pl.col("listed") & pl.col("can_supply").fill_null(value=False)).sum().alias("open_pool_count")]
    for prefix, is_own in (("", pl.col("listed")), ("unlisted_", ~pl.col("listed"))):
        supplied, borrowed = (pl.col(f"{name}_usd_cents").filter(is_own) for name in ("supplied", "borrowed"))
        totals += [
            pl.col("market").filter(is_own).n_unique().alias(f"{prefix}market_count"),
            is_own.sum().alias(f"{prefix}pool_count"),
            supplied.count().alias(f"{prefix}priced_count"),
            exact_sum(supplied).alias(f"{prefix}supplied_usd_cents"),
            exact_sum(borrowed).alias(f"{prefix}borrowed_usd_cents"),
        ]
    return pools.group_by("token_address").agg(totals)


def _best_rates(ranked: pl.DataFrame, side: Side) -> dict[str, BestRate]:
    """The best rate of each token that has a pool which counts. ``ranked`` is a frame of `with_ranks`."""
    of_side = ("{}_apy_bps", "comparable_{}_apy_bps", "{}_reward_apr_bps", "{}_rank_bps")
    names = ("market", "pool", "protocol", "market_name", *(name.format(side) for name in of_side))
    held = ("total_supplied", "supplied_usd_cents", "available_to_withdraw", "available_usd_cents")
    amounts = (*held, f"available_to_{side}", f"available_to_{side}_usd_cents")
    written = best_of_tokens(ranked, side).select("token_address", *names, pl.col(*amounts).cast(pl.String))
    return {token: BestRate(*values) for token, *values in written.iter_rows()}
