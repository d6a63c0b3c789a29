"""Render every page of the web site from what a run has computed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import polars as pl
from markupsafe import Markup
from msgspec import Struct

from exporter.best import MIN_VALUE_CENTS
from exporter.deployments.identified_tokens import IdentifiedToken, identified_tokens
from exporter.deployments.networks import native_contract, network_of
from exporter.history.buckets import NETWORK
from exporter.history.series import Series
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import NOBODY
from exporter.protocols.compute import Tables, pending_by_market
from exporter.protocols.numbers import BackstopFrameRow, MarketFrameRow
from exporter.render.api_examples import Examples, examples_of, filled
from exporter.render.run_documents import basis_points, rate_curves
from exporter.render.site.change_rows import ChangeRow, change_rows
from exporter.render.site.charts import curve
from exporter.render.site.growth import DECIMALS, TOKENS, growths
from exporter.render.site.reference import INDEX_KEY, api_reference
from exporter.render.site.risk_sentences import RiskWords, risk_words
from exporter.render.site.rows import (
    NamedPool,
    SiteMarket,
    SitePool,
    SiteToken,
    by_market,
    full_name,
    market_rows,
    pages_of,
    pool_rows,
    ranked_by_value,
    token_rows,
    with_names,
)
from exporter.render.site.safety import MarketFacts, of_market, of_pool
from exporter.render.site.templates import CARD_KEY, EXAMPLE_BASE, environment, first_plot, snippets, static_files
from exporter.render.site.text import not_mainnet, page_url, xml
from exporter.render.site.trends import (
    MAX_LINES,
    Trend,
    Trends,
    borrow_chart,
    group_charts,
    pool_charts,
    protocol_charts,
    totals_charts,
)
from exporter.render.site.why import DEPOSIT_USD, why, yield_after_deposit
from exporter.tables import PoolKey, rows_as, time_text
from exporter.tree.documents import HistoryManifest, ProtocolList, RunChange, timestamp
from exporter.tree.families import SITE_MAP, SYMBOL_PAGE, family_of
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.verifier import checker_digests

_EXPLORERS = {
    "mainnet": "https://stellar.expert/explorer/public/contract/",
    "testnet": "https://stellar.expert/explorer/testnet/contract/",
}
"""The URL of a block explorer by network, which a contract's address follows."""

MAX_SITE_MAP = 50_000
"""Largest number of pages in a map of the site, by the protocol of site maps."""

MAX_CHANGES, MAX_NEWEST_CHANGES = 150, 5
"""Largest number of changes on their own page, and on the overview and the page of a market."""


def render_site(
    tables: Tables,
    passphrase: str,
    coverage: ProtocolList,
    series: Series,
    history: HistoryManifest,
    changes: Sequence[RunChange] = (),
    public_url: str | None = None,
) -> Iterator[RenderedFile]:
    """Render the site. The pools of the tables are a frame of `with_list_columns`.

    ``public_url`` is the URL of the tree, without a slash at its end. With it, each page says where it is and what a
    shared link shows, and there is a `site_map`.
    """
    yield from static_files(public_url)
    keys = []
    for page in _Site(tables, passphrase, coverage, series, history, changes, public_url).files():
        if family_of(page.key) is not SYMBOL_PAGE:
            keys.append(page.key)
        yield page
    if public_url is not None:
        yield site_map(public_url, keys)


def site_map(public_url: str, keys: Sequence[str]) -> RenderedFile:
    """Render the list of the site's pages for search engines (sitemaps.org), or of `MAX_SITE_MAP` of them.

    The overview, which is last among ``keys``, is first.
    """
    shown = reversed(keys[-MAX_SITE_MAP:])
    urls = "".join(f"<url><loc>{xml(page_url(public_url, key))}</loc></url>\n" for key in shown)
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{urls}</urlset>\n'
    )
    return RenderedFile(SITE_MAP.only_key, text.encode(), FileKind.DOCUMENT)


def _by_value(token: SiteToken) -> tuple[bool, bool, int, str]:
    value = token.tvl_usd_cents
    return not token.listed_count, value is None, -(value or 0), token.address


class _PlottedToken(Struct, frozen=True):
    """The token that the data page plots. ``chart`` is the plot, or None before the history has two days."""

    address: str
    symbol: str
    chart: Markup | None


class _TokenSource(NamedTuple):
    """Where it is said who stands behind a token, and when that was looked up."""

    name: str
    date: date


def _plotted(tokens: Sequence[SiteToken], trends: Mapping[str, Trend]) -> _PlottedToken | None:
    """The identified USDC, or else the first token; None if no listed market has a token."""
    listed = [token for token in tokens if token.listed_count]
    named = [token for token in listed if token.identity is not None and token.symbol == "USDC"]
    for token in (*named, *listed):
        trend = trends[token.address]
        labels = {PoolKey.of(pool): pool["market_name"] for pool in token.pools}
        chart = borrow_chart(trend, labels) if trend.has_lines else None
        return _PlottedToken(token.address, token.symbol, chart)
    return None


def _by_yield(pool: SitePool) -> tuple[bool, bool, int]:
    """Sort key of a token's pools on its page: those that count for the best rate first, then listed ones."""
    return pool["no_supply"] is not None, not pool["listed"], -pool["supply_rank_bps"]


def _pages_of_symbols(tokens: Sequence[SiteToken]) -> Iterator[tuple[str, SiteToken]]:
    """The identified tokens whose symbol no other has in any case, each with the key of the page of its symbol."""
    identified = [token for token in tokens if token.identity is not None]
    counts = Counter(token.symbol.lower() for token in identified)
    for token in identified:
        key = SYMBOL_PAGE.key(token_symbol=token.symbol)
        if counts[token.symbol.lower()] == 1 and SYMBOL_PAGE.pattern.fullmatch(key):
            yield key, token


@lru_cache(maxsize=64)
def _operations(number: int, example_base: str) -> Markup:
    """The content of a tag's page, by its number in the reference. It belongs to no run, so a process renders it once.

    ``example_base`` is the URL of the tree in the examples.
    """
    templates: Any = environment().get_template("api_operations.j2").module
    content: Markup = templates.operations(api_reference().pages[number], api_reference(), example_base)
    return content


_REQUEST = re.compile(r'<span class="?request"?>([^<]*)</span>')


def _with_requests(operations: Markup, examples: Examples) -> Markup:
    """The content of a tag's page, with examples of this tree in place of the parameters of its requests."""
    return Markup(_REQUEST.sub(lambda match: filled(match[1], examples), operations))


def _facts_of_markets(tables: Tables, pools: Sequence[NamedPool]) -> Mapping[str, MarketFacts]:
    """What pages say about the safety of each market, keyed by its address."""
    own, queued = by_market(pools), pending_by_market(tables.pending)
    admins: dict[str, dict[str, None]] = {}
    for item in tables.controls:
        if item.kind == "admin" and item.value != NOBODY:
            admins.setdefault(item.market, {})[item.value] = None
    backstops = {row["market"]: BackstopFrameRow(**row) for row in tables.backstops.iter_rows(named=True)}
    return {
        row["market"]: MarketFacts(
            market=row,
            protocol=PROTOCOLS[row["protocol"]],
            pools=own.get(row["market"], []),
            admins=list(admins.get(row["market"], {})),
            backstop=backstops.get(row["market"]),
            pending=queued.get(row["market"], []),
        )
        for row in rows_as(MarketFrameRow, tables.markets)
    }


class _Site:
    def __init__(
        self,
        tables: Tables,
        passphrase: str,
        coverage: ProtocolList,
        series: Series,
        history: HistoryManifest,
        changes: Sequence[RunChange],
        public_url: str | None,
    ) -> None:
        self.tables, self.coverage, self.history = tables, coverage, history
        self.network_name, xlm = network_of(passphrase).name, native_contract(passphrase)
        self.example_base = EXAMPLE_BASE if public_url is None else public_url
        self.examples = examples_of(tables, xlm)
        self.pools = with_names(tables.pools, xlm)
        self.named_pools = rows_as(NamedPool, self.pools)
        self.facts_of_markets = _facts_of_markets(tables, self.named_pools)
        self.shown_symbols = dict(self.pools.select("token_address", "symbol").iter_rows())
        self.changes = change_rows(changes, self.pools)
        self.trends = Trends(series, tables.pools)
        self.growths = growths(series.pools)
        self.protocols = {item.protocol: item for item in coverage.data}
        self.symbols = {PoolKey.of(pool): full_name(pool) for pool in self.named_pools}
        self.common: dict[str, object] = {
            "tables": tables,
            "names": dict(tables.markets.select("market", "name").iter_rows()),
            "symbols": self.symbols,
            "ledger": tables.ledger,
            "closed": timestamp(tables.close_time),
            "close_time": tables.close_time,
            "least_value": MIN_VALUE_CENTS,
            "max_lines": MAX_LINES,
            "network_name": self.network_name,
            "elsewhere": not_mainnet(passphrase),
            "native": xlm or "",
            "has_lists": any(item.listed_markets for item in network_of(passphrase).deployments),
            "explorer": _EXPLORERS.get(self.network_name),
            "protocols": self.protocols,
            "example_base": self.example_base,
            "public_url": public_url,
            "card_key": CARD_KEY,
        }

    def files(self) -> Iterator[RenderedFile]:
        """Render all pages. The overview is last, so that whatever it links to is there before it."""
        markets = market_rows(self.tables, self.pools)
        ranked = ranked_by_value(self.pools)
        pools = pool_rows(ranked, environment().get_template("macros.j2").module)
        yield from self._pool_pages()
        yield from self._market_pages(markets, pools)
        tokens, trends = token_rows(ranked, pools, self.tables.tokens), self.trends.of_groups("token")
        yield from self._token_pages(tokens, trends)
        tokens.sort(key=_by_value)
        yield from self._list_pages("markets", markets)
        yield from self._list_pages("pools", pools)
        yield from self._list_pages("tokens", tokens)
        for key, token in _pages_of_symbols(tokens):
            yield self._page(key, "token_symbol", token=token, goes_to=f"tokens/{token.address}.html")
        yield self._page("problems.html", "problems")
        listed_changes = [change for change in self.changes if change.listed]
        yield self._page("changes.html", "changes", changes=listed_changes[:MAX_CHANGES])
        yield self._page(
            "data.html",
            "data",
            history=self.history,
            first_plot=first_plot(),
            plotted=_plotted(tokens, trends),
            snippets=snippets(),
        )
        yield from self._api_pages()
        yield self._about_page()
        yield self._overview(markets, pools, tokens, listed_changes)

    def _overview(
        self,
        markets: Sequence[SiteMarket],
        pools: Sequence[SitePool],
        tokens: Sequence[SiteToken],
        changes: Sequence[ChangeRow],
    ) -> RenderedFile:
        total = self.trends.of_groups(NETWORK).get(NETWORK)
        return self._page(
            "index.html",
            "overview",
            charts=totals_charts(total) if total is not None and total.is_priced else (),
            bucket=None if total is None else total.every,
            tokens=[token for token in tokens if token.listed_count],
            markets=[market for market in markets if market["listed"]],
            unlisted=[market for market in markets if not market["listed"]],
            unranked=[pool for pool in pools if pool["listed"]],
            problems=self.tables.of_listed(),
            changes=changes[:MAX_NEWEST_CHANGES],
        )

    def _token_pages(self, tokens: Sequence[SiteToken], trends: Mapping[str, Trend]) -> Iterator[RenderedFile]:
        for token in tokens:
            labels = {PoolKey.of(pool): f"{pool['market_name']} {pool['pool_label']}".rstrip() for pool in token.pools}
            own = sorted(token.pools, key=_by_yield)
            yield from self._group_pages(
                f"tokens/{token.address}", "token", own, trends[token.address], labels, token=token
            )

    def _api_pages(self) -> Iterator[RenderedFile]:
        reference = api_reference()
        for number, tag_page in enumerate(reference.pages):
            operations = _with_requests(_operations(number, self.example_base), self.examples)
            yield self._page(tag_page.key, "api_tag", page=tag_page, operations=operations)
        yield self._page(INDEX_KEY, "api", reference=reference)

    def _risk(self, market: str, token: str | None = None) -> RiskWords | None:
        published = self.tables.risk
        return None if published is None else risk_words(published.of(market), self.shown_symbols, token)

    def _page(self, key: str, template: str, **context: Any) -> RenderedFile:
        root = "../" * key.count("/")
        page = environment().get_template(f"{template}.html.j2").render(self.common, root=root, key=key, **context)
        return RenderedFile(key, page.encode("utf-8", "replace"), FileKind.DOCUMENT)

    def _list_pages(self, name: str, rows: Sequence[object]) -> Iterator[RenderedFile]:
        for page in pages_of(rows, name):
            yield self._page(page.key, name, page=page)

    def _pool_pages(self) -> Iterator[RenderedFile]:
        tables = self.tables
        times = tables.pools.select(time_text(pl.col("price_timestamp"))).to_series()
        curves, trends = rate_curves(tables.pools, tables.parameters, PROTOCOLS), self.trends.of_pools()
        changed = {change.market for change in self.changes}
        for pool, time, points, trend in zip(self.named_pools, times, curves, trends, strict=True):
            key = PoolKey.of(pool)
            risk, facts = self._risk(key.market, pool["token_address"]), self.facts_of_markets[key.market]
            now = (
                basis_points(pool["accrued_utilization"], pool["utilization_decimals"]),
                basis_points(pool["accrued_borrow_apr"], pool["apr_decimals"]),
            )
            yield self._page(
                f"pools/{key.market}/{key.pool}.html",
                "pool",
                pool=pool,
                why_so_high=why(pool),
                after_deposit=yield_after_deposit(pool, tables.parameters.get(key, ()), PROTOCOLS[pool["protocol"]]),
                deposit_usd=DEPOSIT_USD,
                about=self.protocols[pool["protocol"]],
                words_of=PROTOCOLS[pool["protocol"]].words,
                price_time=time,
                parameters=tables.parameters.get(key, ()),
                spokes=tables.spokes.get(key, ()),
                pending=[item for item in facts.pending if item.pool in (None, key.pool)],
                curve=points and curve([(point.utilization_bps, point.borrow_apr_bps) for point in points], now),
                charts=pool_charts(trend),
                growth=self.growths.get(key),
                growth_tokens=TOKENS,
                growth_decimals=DECIMALS,
                risk=risk,
                safety=of_pool(pool, facts, has_risk=risk is not None),
                bucket=trend.every,
                has_changes=key.market in changed,
            )

    def _market_pages(self, markets: Sequence[SiteMarket], rows: Sequence[SitePool]) -> Iterator[RenderedFile]:
        trends, by_address = self.trends.of_groups("market"), {row["market"]: row for row in markets}
        read = by_market(rows)
        for name in chain(read, (name for name in by_address if name not in read)):
            pools, risk, facts = read.get(name, []), self._risk(name), self.facts_of_markets[name]
            yield from self._group_pages(
                f"markets/{name}",
                "market",
                pools,
                trends.get(name),
                self.symbols,
                market=by_address[name],
                pending=facts.pending,
                backstop=facts.backstop,
                changes=[change for change in self.changes if change.market == name][:MAX_NEWEST_CHANGES],
                risk=risk,
                safety=of_market(facts, has_risk=risk is not None),
            )

    def _group_pages(
        self,
        name: str,
        template: str,
        pools: Sequence[SitePool],
        trend: Trend | None,
        labels: Mapping[PoolKey, str],
        **context: Any,
    ) -> Iterator[RenderedFile]:
        for page in pages_of(pools, name):
            drawn = group_charts(trend, labels) if trend is not None and page.number == 1 else ()
            bucket = None if trend is None else trend.every
            yield self._page(page.key, template, page=page, charts=drawn, bucket=bucket, **context)

    def _about_page(self) -> RenderedFile:
        charts = {
            name: protocol_charts(trend, name)
            for name, trend in self.trends.of_groups("protocol").items()
            if trend.is_priced
        }
        checker = checker_digests(self.network_name)
        identified: dict[_TokenSource, list[IdentifiedToken]] = {}
        for token in identified_tokens(self.network_name).values():
            identified.setdefault(_TokenSource(token.source, token.date), []).append(token)
        return self._page(
            "about.html",
            "about",
            coverage=self.coverage,
            charts=charts,
            checker=checker,
            identified=identified,
            symbol_of=self.shown_symbols,
        )
