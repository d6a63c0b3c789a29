"""Every page of the web site, one after the other, from what a run has computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import polars as pl
from markupsafe import Markup

from exporter.best import LEAST_VALUE, SIDES
from exporter.deployments.networks import network_of
from exporter.history.series import Series
from exporter.history.totals import NETWORK
from exporter.past.archive.trusted_organisations import checker_digests
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter
from exporter.protocols.compute import Tables, pending_by_market
from exporter.render.run_documents import basis_points, rate_curves
from exporter.render.site import pool_terms
from exporter.render.site.cells import open_in
from exporter.render.site.charts import (
    BUCKET_WORDS,
    COUNT,
    MONEY,
    RATE,
    GroupTrend,
    Line,
    Trend,
    Trends,
    Unit,
    chart,
    curve,
    table,
)
from exporter.render.site.pool_values import SECTIONS, pool_values
from exporter.render.site.reference import api_reference
from exporter.render.site.rows import (
    Best,
    Row,
    best_of,
    full_name,
    grouped,
    market_rows,
    pages_of,
    pool_rows,
    with_names,
)
from exporter.render.site.templates import EXAMPLE_BASE, Pieces, environment, snippets, static_files
from exporter.render.site.text import Symbols, compounded, harmless, named, not_mainnet
from exporter.tables import time_text
from exporter.tree.documents import HistoryManifest, ProtocolList, timestamp
from exporter.tree.files import FileKind, RenderedFile

TOP_CHIPS, TOP_TOKENS, TOP_MARKETS, TOP_PROBLEMS = 8, 12, 20, 6
"""Rows that the overview shows; the rest is on pages of their own."""

MAX_PROBLEMS = 200
"""Problems of each kind that their page shows; the status document has all."""


_EXPLORERS = {
    "mainnet": "https://stellar.expert/explorer/public/contract/",
    "testnet": "https://stellar.expert/explorer/testnet/contract/",
}
"""Where people look contracts up, by network; the address follows."""


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """The input of the site: the tables, and what else a run knows.

    ``series`` has the run itself; ``history`` is the manifest as this run leaves it; ``means`` are columns of
    `pool_rows` in the order of the pools. Without them the pages say so.
    """

    tables: Tables
    network: str
    coverage: ProtocolList
    series: Series | None = None
    history: HistoryManifest | None = None
    means: Mapping[str, Sequence[int | None]] = field(default_factory=dict)


def render_site(facts: SiteFacts) -> Iterator[RenderedFile]:
    """Render the site. It depends on the facts alone: the same run gives the same bytes."""
    yield from static_files()
    yield from _Site(facts).files()


@dataclass(slots=True)
class _Site:
    facts: SiteFacts
    common: dict[str, Any] = field(init=False)
    pools: pl.DataFrame = field(init=False)
    titles: dict[str, str] = field(init=False)
    frames: dict[tuple[str, str, str], Markup] = field(default_factory=dict)
    pool_pieces: dict[tuple[bool, ...], Pieces] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = self.facts.tables
        symbols = Symbols(self.facts.network)
        self.pools = with_names(tables.pools, symbols)
        self.titles = {item.protocol: item.title for item in self.facts.coverage.data}
        self.common = {
            "ledger": tables.ledger,
            "closed": timestamp(tables.close_time),
            "close_time": tables.close_time,
            "least_value": LEAST_VALUE,
            "network_name": network_of(self.facts.network).name,
            "elsewhere": not_mainnet(self.facts.network),
            "native": symbols.native or "",
            "explorer": _EXPLORERS.get(network_of(self.facts.network).name),
        }

    def files(self) -> Iterator[RenderedFile]:
        """All pages, the overview last: whatever it links to is there before it."""
        tables = self.facts.tables
        markets, pools = market_rows(tables), pool_rows(self.pools, self.facts.means)
        tokens: list[Best] = []
        trends = Trends(self.facts.series, tables.pools)

        yield from self._pool_pages(trends)
        yield from self._market_pages(markets, pools, trends.of_groups("market"))
        for token, pages in self._token_pages(pools, trends.of_groups("token")):
            tokens.append(token)
            yield from pages
        tokens.sort(key=lambda token: (token.tvl_usd_cents is None, -(token.tvl_usd_cents or 0), token.address))
        yield from self._list("markets", markets)
        yield from self._list("pools", pools)
        yield from self._list("tokens", tokens)
        problems = self._problems()
        yield self._page("problems.html", "problems", problems=problems, most=MAX_PROBLEMS)
        yield self._page(
            "data.html",
            "data",
            history=self.facts.history,
            newest=self._newest_file(),
            snippets=snippets(),
            example_base=EXAMPLE_BASE,
        )
        yield self._page("api.html", "api", reference=api_reference(), example_base=EXAMPLE_BASE)
        protocols = {
            name: (
                *_totals_charts(trend, f"value-{name}"),
                _totals_table(trend, f"Totals of {self.titles[name]} over time"),
            )
            for name, trend in trends.of_groups("protocol").items()
            if _is_priced(trend)
        }
        yield self._page(
            "about.html",
            "about",
            coverage=self.facts.coverage,
            charts=protocols,
            checker=checker_digests(self.common["network_name"]),
        )
        whole = trends.of_groups(NETWORK).get(NETWORK)
        drawn: dict[str, Any] = {"charts": (), "bucket": None}
        if whole is not None and _is_priced(whole):
            drawn = {
                "charts": (*_totals_charts(whole, "value"), _totals_table(whole)),
                "bucket": BUCKET_WORDS[whole.bucket],
            }
        yield self._page(
            "index.html",
            "overview",
            **drawn,
            counts=self._counts(),
            tokens=tokens,
            open_in=self._open_in,
            unranked=pools[:TOP_TOKENS],
            offers={
                side: [(token, pool) for token in tokens if (pool := getattr(token, side)) is not None][:TOP_TOKENS]
                for side in SIDES
            },
            markets=markets,
            problems=problems,
            top_chips=TOP_CHIPS,
            top_markets=TOP_MARKETS,
            top_problems=TOP_PROBLEMS,
        )

    def _page(self, key: str, template: str, **context: Any) -> RenderedFile:
        page = environment().get_template(f"{template}.html.j2").render(self._context(key), **context)
        return RenderedFile(key, page.encode("utf-8", "replace"), FileKind.DOCUMENT)

    def _context(self, key: str) -> dict[str, Any]:
        """The values that every template needs for a page under this key."""
        root = "../" * key.count("/")
        frames = {part: self._frame(part, root, key) for part in ("top", "foot")}
        return self.common | frames | {"root": root, "key": key}

    def _frame(self, part: str, root: str, key: str) -> Markup:
        """What is above or below the content of a page; only pages at the root are in the navigation themselves."""
        name = part, root, "" if root else key
        if name not in self.frames:
            template = environment().get_template(f"{part}.html.j2")
            self.frames[name] = Markup(template.render(self.common, root=root, key=name[2]).rstrip("\n"))
        return self.frames[name]

    def _open_in(self, pool: Mapping[str, Any]) -> Markup:
        title = self.titles[pool["protocol"]]
        return Markup(open_in(pool, self.common["network_name"], title))

    def _list(self, name: str, rows: Sequence[Any]) -> Iterator[RenderedFile]:
        for page in pages_of(rows, name):
            yield self._page(page.key, name, page=page)

    def _newest_file(self) -> str | None:
        """The key of the run's own Parquet file, which has it until the day is over."""
        files = [] if self.facts.history is None else self.facts.history.files
        return next((file.key for file in files if file.last_ledger == self.facts.tables.ledger), None)

    def _counts(self) -> dict[str, Any]:
        tables = self.facts.tables
        values = [value for value in tables.markets["tvl_usd_cents"].to_list() if value is not None]
        return {
            "tvl": sum(values) if values else None,
            "markets": tables.markets.height,
            "pools": int(tables.markets["pool_count"].sum()),
            "tokens": tables.pools["token_address"].n_unique(),
            "unpriced": len(tables.unpriced),
        }

    def _problems(self) -> dict[str, list[Any]]:
        tables = self.facts.tables
        names = dict(tables.markets.select("market", "name").iter_rows())
        wanted = {(item.market, item.pool) for item in tables.unpriced}
        wanted |= {(item.market, item.pool) for item in tables.bounded}
        symbols = {
            (pool["market"], pool["pool"]): full_name(pool)
            for pool in self.pools.select("market", "pool", "symbol", "pool_label", "token_label").iter_rows(named=True)
            if (pool["market"], pool["pool"]) in wanted
        }
        return {
            "unread": [
                {"item": item, "market_name": names.get(item.market), "known": item.market in names}
                for item in tables.unread
            ],
            "unpriced": [
                {"item": item, "market_name": names.get(item.market), "symbol": symbols[item.market, item.pool]}
                for item in tables.unpriced
            ],
            "bounded": [
                {"item": item, "market_name": names.get(item.market), "symbol": symbols[item.market, item.pool]}
                for item in tables.bounded
            ],
            "absent": list(tables.absent),
            "notices": [harmless(notice) for notice in tables.notices],
        }

    def _pool_pages(self, trends: Trends) -> Iterator[RenderedFile]:
        tables = self.facts.tables
        coverage = {item.protocol: item for item in self.facts.coverage.data}
        curves = chain.from_iterable(_curves(part, tables.parameters) for part in tables.pools.iter_slices(1_000))
        queued = pending_by_market(tables.pending)
        times = tables.pools.select(time_text(pl.col("price_timestamp"))).to_series()
        rows = zip(self.pools.iter_rows(named=True), times, curves, trends.of_pools(), strict=True)
        for row, price_time, own_curve, trend in rows:
            place = row["market"], row["pool"]
            about = coverage[row["protocol"]]
            more = {
                "bucket": BUCKET_WORDS[trend.bucket],
                "price_time": price_time or "",
                "supply_compounding": compounded(about.supply_compounding),
                "borrow_compounding": compounded(about.borrow_compounding),
            }
            values = pool_values(
                row,
                tables.parameters.get(place, ()),
                _pool_charts(trend),
                more,
                app=self._open_in(row),
                listed=tables.spokes.get(place),
                curve=own_curve,
                pending=pool_terms.pending(
                    (item for item in queued.get(place[0], ()) if item.pool in (None, place[1])), tables.close_time
                ),
            )
            key, shape = f"pools/{place[0]}/{place[1]}.html", tuple(bool(values[name]) for name in SECTIONS)
            if shape not in self.pool_pieces:
                context = self._context(key) | {"has": dict(zip(SECTIONS, shape, strict=True))}
                self.pool_pieces[shape] = Pieces("pool", values, context)
            data, links = self.pool_pieces[shape].page(values)
            yield RenderedFile(key, data, FileKind.DOCUMENT, links=links)

    def _market_pages(
        self, markets: Sequence[Row], rows: Sequence[Row], trends: dict[str, GroupTrend]
    ) -> Iterator[RenderedFile]:
        unread: dict[str, list[Any]] = {}
        backstops = {row["market"]: row for row in self.facts.tables.backstops.iter_rows(named=True)}
        queued, close_time = pending_by_market(self.facts.tables.pending), self.facts.tables.close_time
        for item in self.facts.tables.unread:
            unread.setdefault(item.market, []).append(item)
        named_markets, read = {row["market"]: row for row in markets}, set(self.facts.tables.pools["market"])
        without_pools = ((name, list[Row]()) for name in named_markets if name not in read)
        for name, pools in chain(grouped(rows, "market"), without_pools):
            market = named_markets[name]
            labels = {(pool["market"], pool["pool"]): full_name(pool) for pool in pools}
            insured = backstops.get(name)
            yield from self._group_pages(
                f"markets/{name}",
                "market",
                pools,
                trends.get(name),
                labels,
                market=market,
                unread=unread.get(name, []),
                pending=pool_terms.pending(queued.get(name, ()), close_time),
                backstop=None if insured is None else pool_terms.backstop(insured),
            )

    def _token_pages(
        self, rows: Sequence[Row], trends: dict[str, GroupTrend]
    ) -> Iterator[tuple[Best, Iterator[RenderedFile]]]:
        for address, pools in grouped(rows, "token_address"):
            known = self.facts.tables.tokens.get(address)
            token = best_of(address, None if known is None else known.issuer, pools)
            labels = {
                (pool["market"], pool["pool"]): f"{pool['market_name']} {pool['pool_label']}".rstrip() for pool in pools
            }
            name = f"tokens/{address}"
            yield token, self._group_pages(name, "token", pools, trends.get(address), labels, token=token)

    def _group_pages(
        self,
        name: str,
        template: str,
        pools: Sequence[Row],
        trend: GroupTrend | None,
        labels: dict[tuple[str, str], str],
        **context: Any,
    ) -> Iterator[RenderedFile]:
        """The pages of a market or token: the first with charts, the others with further pools."""
        bucket = None if trend is None else BUCKET_WORDS[trend.bucket]
        for page in pages_of(pools, name):
            charts = _group_charts(trend, labels) if trend is not None and page.number == 1 else ()
            yield self._page(page.key, template, page=page, charts=charts, bucket=bucket, **context)


def _curves(pools: pl.DataFrame, parameters: Mapping[tuple[str, str], Sequence[Parameter]]) -> Iterator[Markup]:
    """The utilization curve of each pool, empty where the protocol gives none."""
    columns = ("accrued_utilization", "utilization_decimals", "accrued_borrow_apr", "apr_decimals")
    for row, points in zip(pools.select(columns).rows(), rate_curves(pools, parameters, PROTOCOLS), strict=True):
        if points:
            now = basis_points(*row[:2]), basis_points(*row[2:])
            yield curve([(point.utilization_bps, point.borrow_apr_bps) for point in points], now)
        else:
            yield Markup()


def _pool_charts(trend: Trend) -> tuple[Markup, ...]:
    if not trend.starts:
        return ()
    starts = trend.starts
    return (
        chart(
            "rates",
            "Supply and borrow rate",
            RATE,
            starts,
            [Line("Supply APY", 1, trend.supply, 0), Line("Borrow APY", 2, trend.borrow, 1)],
        ),
        chart("use", "Utilization", RATE, starts, [Line("Lent out", 3, trend.utilization, 2)], area=True),
        chart("value", "Total value", MONEY, starts, [Line("TVL", 4, trend.value, 3)], area=True),
        table(
            starts,
            [
                ("Supply APY", RATE, trend.supply),
                ("Borrow APY", RATE, trend.borrow),
                ("Utilization", RATE, trend.utilization),
                ("TVL", MONEY, trend.value),
            ],
            "Rates, utilization and value over time",
        ),
    )


def _group_charts(trend: GroupTrend, labels: dict[tuple[str, str], str]) -> tuple[Markup, ...]:
    if not trend.starts:
        return ()
    names = [named(labels.get(place, place[1]), 30)[0] for place, _ in trend.pools]
    columns = [
        [_aligned(pool, values, trend.starts) for values in (pool.supply, pool.borrow, pool.utilization)]
        for _, pool in trend.pools
    ]
    titles = ("Supply APY", "Borrow APY", "Utilization")
    totals = _totals_cells(trend)
    drawn = [*_totals_charts(trend, "value")] if _is_priced(trend) else []
    for number, (identity, title) in enumerate(zip(("supply", "borrow", "use"), titles, strict=True)):
        lines = [
            Line(label, colour, values[number], len(totals) + (colour - 1) * len(titles) + number)
            for colour, (label, values) in enumerate(zip(names, columns, strict=True), 1)
        ]
        drawn.append(chart(identity, title, RATE, trend.starts, lines))
    cells = [
        (f"{label}: {title}", RATE, values[number])
        for label, values in zip(names, columns, strict=True)
        for number, title in enumerate(titles)
    ]
    return (*drawn, table(trend.starts, [*totals, *cells], "Totals and rates over time"))


def _is_priced(trend: GroupTrend) -> bool:
    """Whether there is a value to draw at any time."""
    return any(value is not None for value in trend.value)


def _totals_charts(trend: GroupTrend, name: str) -> tuple[Markup, Markup, Markup]:
    """The value, what is supplied and borrowed, and the rates of many pools together."""
    starts = trend.starts
    return (
        chart(name, "Total value", MONEY, starts, [Line("TVL", 4, trend.value, 0)], area=True),
        chart(
            f"{name}-sums",
            "Supplied and borrowed",
            MONEY,
            starts,
            [Line("Supplied", 1, trend.supplied, 1), Line("Borrowed", 2, trend.borrowed, 2)],
        ),
        chart(
            f"{name}-rates",
            "Mean rates, weighted by value",
            RATE,
            starts,
            [Line("Supply APY", 1, trend.mean_supply, 3), Line("Borrow APY", 2, trend.mean_borrow, 4)],
        ),
    )


def _totals_table(trend: GroupTrend, caption: str = "Totals over time") -> Markup:
    return table(trend.starts, _totals_cells(trend), caption)


def _totals_cells(trend: GroupTrend) -> list[tuple[str, Unit, Sequence[int | None]]]:
    return [
        ("TVL", MONEY, trend.value),
        ("Supplied", MONEY, trend.supplied),
        ("Borrowed", MONEY, trend.borrowed),
        ("Mean supply APY", RATE, trend.mean_supply),
        ("Mean borrow APY", RATE, trend.mean_borrow),
        ("Best supply APY", RATE, trend.best_supply),
        ("Best borrow APY", RATE, trend.best_borrow),
        ("Pools", COUNT, trend.pool_count),
        ("With a price", COUNT, trend.priced_count),
    ]


def _aligned(trend: Trend, values: Sequence[int], starts: Sequence[int]) -> Sequence[int | None]:
    """The values of a pool at the starts of its group, of which it may lack some."""
    if len(values) == len(starts):
        return values
    known = dict(zip(trend.starts, values, strict=True))
    return [known.get(start) for start in starts]
