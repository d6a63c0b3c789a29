"""The rows of the site's tables: markets, pools and tokens by value, and the best rates of a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import polars as pl
from msgspec import Struct

from exporter.best import ODD_PRICE, SIDES, Side, best_of_tokens, is_insolvent, why_none_of_tokens, with_ranks
from exporter.errors import pluralize
from exporter.exact_sums import Limbs, exact_sum, joined
from exporter.ledger.tokens import Token
from exporter.protocols.compute import Tables
from exporter.protocols.numbers import MarketFrameRow
from exporter.render.lists import IdentityValues, ListedPool, common_symbols
from exporter.render.site.text import harmless, insolvency, is_serious, no_price
from exporter.tables import rows_as

PAGE_ROWS = 100

_Item = TypeVar("_Item")


class SiteMarket(MarketFrameRow):
    """A market as pages show it."""

    closed: bool | None
    """Whether all of its pools are closed to suppliers and borrowers; null if no pool was read."""
    insolvent: str | None
    """Which of its pools owe their suppliers more than they have, in words; null if none is known to."""


class NamedPool(ListedPool):
    """A row of a frame of `with_names`."""

    token_label: str


class RankedPool(NamedPool):
    """A row of a frame of `with_names` and of `exporter.best.with_ranks`."""

    supply_rank_bps: int
    borrow_rank_bps: int
    no_supply: str | None
    no_borrow: str | None


class SitePool(RankedPool):
    """A pool in the tables of pages, with the cells that it has in each of them, as HTML."""

    gates: str
    rates: str
    amounts: str


def market_rows(tables: Tables, pools: pl.DataFrame) -> list[SiteMarket]:
    """All markets in the order of `by_value`. Each says whether all of its pools are closed, and which are insolvent.

    ``pools`` is a frame of `with_names`.
    """
    closed = pools.group_by("market").agg(
        (~pl.col("can_supply") & ~pl.col("can_borrow")).fill_null(value=False).all().alias("closed")
    )
    markets = tables.markets.join(closed, on="market", how="left", maintain_order="left")
    short: dict[str, list[_ShortPool]] = {}
    for pool in rows_as(_ShortPool, pools.filter(is_insolvent())):
        short.setdefault(pool["market"], []).append(pool)
    said = [_insolvent(short[market]) if market in short else None for market in markets["market"]]
    words = pl.Series("insolvent", said, pl.String())
    return rows_as(SiteMarket, by_value(markets.with_columns(words)))


class _ShortPool(TypedDict):
    """The text about a pool that owes its suppliers more than it has."""

    market: str
    symbol: str
    decimals: int
    total_supplied: int
    shortfall: int


def _insolvent(pools: Sequence[_ShortPool]) -> str:
    """Which pools of a market are insolvent, in words: one with what it lacks, or how many."""
    serious = sum(is_serious(pool["shortfall"], pool["total_supplied"]) for pool in pools)
    if len(pools) == 1:
        [pool] = pools
        return insolvency(pool["shortfall"], pool["total_supplied"], pool["decimals"], pool["symbol"])
    return pluralize(serious, "insolvent pool") if serious else f"{len(pools)} pools short by a rounding"


def by_value(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of markets or pools by value, those of listed markets first.

    Anybody can create an unlisted market with any value.
    """
    return rows.sort("listed", "tvl_usd_cents", descending=True, nulls_last=True, maintain_order=True)


def by_yield(pools: pl.DataFrame) -> pl.DataFrame:
    """Rows of pools by what they pay to suppliers. Those that count for the best rate come first, then listed ones."""
    counts = pl.col("no_supply").is_null()
    order = (counts, pl.col("listed"), pl.col("supply_rank_bps"))
    return with_ranks(pools).sort(*order, descending=True, nulls_last=True, maintain_order=True).select(pools.columns)


def with_names(pools: pl.DataFrame, native: str | None) -> pl.DataFrame:
    """The pools frame with symbols as people know them, `harmless`, and with labels that tell equal symbols apart.

    The native asset's symbol is XLM. ``pool_label`` is the protocol's label of the pool. Without one, it is the pool's
    short id if its market has several pools of the token, and else empty. ``token_label`` is the token's short contract
    id if two tokens have the symbol, and else empty.
    """
    symbols = list(map(harmless, common_symbols(pools, native)))
    id_of_pool, id_of_token = (
        pl.concat_str(pl.col(name).str.head(4), pl.lit("…"), pl.col(name).str.tail(4))
        for name in ("pool", "token_address")
    )
    twice = pl.len().over("market", "token_address") > 1
    shared = pl.col("token_address").n_unique().over("symbol") > 1
    return pools.with_columns(pl.Series("symbol", symbols, pl.String())).with_columns(
        pl.coalesce("pool_label", pl.when(twice).then(id_of_pool), pl.lit("")),
        pl.when(shared).then(id_of_token).otherwise(pl.lit("")).alias("token_label"),
    )


def full_name(pool: NamedPool) -> str:
    """A pool's symbol with its labels, as text: ``USDC hub 1``."""
    return " ".join(filter(None, (pool["symbol"], pool["pool_label"], pool["token_label"])))


def ranked_by_value(pools: pl.DataFrame) -> pl.DataFrame:
    """A frame of `with_names` with the ranks of `exporter.best.with_ranks`, in the order of `by_value`."""
    return by_value(with_ranks(pools))


def pool_rows(ranked: pl.DataFrame, cells: Any) -> list[SitePool]:
    """The rows of all pools that were read, in the order of ``ranked``, a frame of `ranked_by_value`.

    ``cells`` are the macros of the templates. They make the cells for the tables of all pools, of a market's pools, and
    of a token's pools.
    """
    return [
        {**pool, "gates": cells.row_gates(pool), "rates": cells.rates(pool), "amounts": cells.amounts(pool)}
        for pool in rows_as(RankedPool, ranked)
    ]


_Pool = TypeVar("_Pool", bound=NamedPool)


def by_market(pools: Sequence[_Pool]) -> Mapping[str, list[_Pool]]:
    """The pools of each market, in their order. Markets are ordered by address."""
    own: dict[str, list[_Pool]] = {}
    for pool in pools:
        own.setdefault(pool["market"], []).append(pool)
    return dict(sorted(own.items()))


class SiteToken(Struct, frozen=True):
    """A token as pages show it.

    Attributes:
        shared: whether another token has the same symbol.
        pools: all of its pools by value.
        tvl_usd_cents: the value of its ``priced_count`` pools in listed markets that have a price.
        listed_count: pools in listed markets, with a price or without.
        supply: the best pool to lend to; None if none counts, and then ``no_supply`` says why.
        borrow: the best pool to borrow from; None if none counts, and then ``no_borrow`` says why.
        closest_supply: the pool that comes closest to counting, if only something about it is missing or too small
            (`_OPEN_REASONS`). Its rate is shown, so that a token without a price does not seem to pay nothing.
        closest_borrow: the same for loans.
    """

    address: str
    symbol: str
    shared: bool
    issuer: str | None
    identity: IdentityValues | None
    pools: Sequence[SitePool]
    pool_count: int
    listed_count: int
    priced_count: int
    tvl_usd_cents: int | None
    supply: SitePool | None
    borrow: SitePool | None
    no_supply: str
    no_borrow: str
    closest_supply: SitePool | None
    closest_borrow: SitePool | None


class _TokenTotals(TypedDict):
    """The fields that all pools of a token share, and totals of its pools in listed markets."""

    token_address: str
    symbol: str
    token_label: str
    token_identity: IdentityValues | None
    listed_count: int
    priced_count: int
    tvl_usd_cents: Limbs | None


def token_rows(ranked: pl.DataFrame, rows: Sequence[SitePool], tokens: Mapping[str, Token]) -> list[SiteToken]:
    """Every token, ascending by address. ``ranked`` is a frame of `ranked_by_value`, ``rows`` its `pool_rows`."""
    ranked = ranked.with_row_index("index")
    value = pl.col("tvl_usd_cents").filter(pl.col("listed"))
    totals = ranked.group_by("token_address").agg(
        pl.col("symbol", "token_label", "token_identity").first(),
        pl.col("listed").sum().alias("listed_count"),
        value.count().alias("priced_count"),
        exact_sum(value).alias("tvl_usd_cents"),
    )
    own: dict[str, list[SitePool]] = {}
    for row in rows:
        own.setdefault(row["token_address"], []).append(row)
    best = {side: _best_places(ranked, side) for side in SIDES}
    why_none = {side: _why_no_best(ranked, side) for side in SIDES}

    def closest_pool(token: str, side: Side) -> SitePool | None:
        none = why_none[side].get(token)
        return None if none is None or none.closest is None else rows[none.closest]

    def best_pool(token: str, side: Side) -> SitePool | None:
        index = best[side].get(token)
        return None if index is None else rows[index]

    site_tokens = []
    for total in rows_as(_TokenTotals, totals.sort("token_address")):
        address = total["token_address"]
        token = tokens.get(address)
        site_tokens.append(
            SiteToken(
                address=address,
                symbol=total["symbol"],
                shared=bool(total["token_label"]),
                issuer=None if token is None else token.issuer,
                identity=total["token_identity"],
                pools=own[address],
                pool_count=len(own[address]),
                listed_count=total["listed_count"],
                priced_count=total["priced_count"],
                tvl_usd_cents=joined(total["tvl_usd_cents"]),
                supply=best_pool(address, "supply"),
                borrow=best_pool(address, "borrow"),
                no_supply=why_none["supply"][address].reason if address in why_none["supply"] else "",
                no_borrow=why_none["borrow"][address].reason if address in why_none["borrow"] else "",
                closest_supply=closest_pool(address, "supply"),
                closest_borrow=closest_pool(address, "borrow"),
            )
        )
    return site_tokens


def _best_places(ranked: pl.DataFrame, side: Side) -> dict[str, int]:
    """The index of each token's best row in the frame."""
    return dict(best_of_tokens(ranked, side).select("token_address", "index").iter_rows())


_ODD = f"{ODD_PRICE}: more than twice, or less than half, of what other listed markets say"


_OPEN_REASONS = frozenset({"not known", "no price", "old price", ODD_PRICE, "too small", "no room"})
"""Reasons why a pool does not count, although it is listed, not known to be insolvent, and not closed."""


class _NoBest(NamedTuple):
    """Why a token has no best pool, in words, and the index of the row that comes closest, if that is worth showing."""

    reason: str
    closest: int | None


def _why_no_best(ranked: pl.DataFrame, side: Side) -> dict[str, _NoBest]:
    """Why each token without a best pool has none."""
    words = {"no room": "cap reached" if side == "supply" else "all lent out", ODD_PRICE: _ODD}
    closest = why_none_of_tokens(ranked, side).select("token_address", f"no_{side}", "price_reason", "index")
    return {
        token: _NoBest(
            f"no price: {no_price(price_reason)}" if reason == "no price" else words.get(reason, reason),
            index if reason in _OPEN_REASONS else None,
        )
        for token, reason, price_reason, index in closest.iter_rows()
    }


class ListPage(Struct, Generic[_Item], frozen=True):
    """One page of a list: its rows, its key, and the keys of all pages of the list."""

    number: int
    rows: Sequence[_Item]
    key: str
    keys: Sequence[str]
    total: int


def pages_of(rows: Sequence[_Item], name: str) -> Iterator[ListPage[_Item]]:
    """Divide a list into pages: ``markets.html``, ``markets-2.html`` and so on; one without rows for an empty list."""
    count = max(-(-len(rows) // PAGE_ROWS), 1)
    keys = [f"{name}.html"] + [f"{name}-{number}.html" for number in range(2, count + 1)]
    for index, key in enumerate(keys):
        yield ListPage(index + 1, rows[index * PAGE_ROWS : (index + 1) * PAGE_ROWS], key, keys, len(rows))
