"""Renders the documents of markets, pools and tokens, the list of protocols, and the metrics of a run."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain, groupby
from operator import itemgetter
from typing import TypedDict, TypeVar

import msgspec
import polars as pl
from msgspec.structs import asdict

from exporter import exact
from exporter.deployments import Deployment
from exporter.errors import CheckError
from exporter.exact_sums import Limbs, exact_sum, joined
from exporter.ledger.tokens import Token
from exporter.protocols.base import Parameter, Pending
from exporter.protocols.compute import Tables, pending_by_market
from exporter.protocols.numbers import SpokeTerms
from exporter.protocols.protocol import Protocol, RateRow
from exporter.render.site.templates import environment
from exporter.tables import COLUMNS, MAX_DECIMAL, VALID_PRICE, PoolKey, documents_of, rows_as, written
from exporter.tree import documents
from exporter.tree.families import METRICS, SKIPPED, SKIPPED_PAGE
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.pool_parts import AssetSpoke, PendingChange, RateModelParameter, RatePoint, TokenIdentity
from exporter.tree.pool_periods import AssetPeriod
from exporter.tree.pool_rows import MarketPool
from exporter.tree.pools import (
    AssetDetail,
    AssetIndexes,
    AssetLiquidity,
    AssetOperations,
    AssetPrice,
    AssetRates,
    AssetRewards,
    AssetRisk,
)
from exporter.tree.read_back import file_of
from exporter.tree.values import SkipReason

_Part = TypeVar("_Part", bound=msgspec.Struct)

LIST_COLUMNS = ("app_url", "token_name", "token_issuer", "token_identity")
"""Columns of `lists.with_list_columns` that documents of a pool have besides those of the pools frame."""

MAX_METRIC_POOLS = 2_000
"""Largest number of pools in the metrics, at about 2 kB each. Pools of listed markets come first, and then by value."""


def render_markets(tables: Tables, cap: int) -> Iterator[RenderedFile]:
    """Render the list of markets, and the document of each market with at most ``cap`` pools.

    Raises `CheckError` if the frames of markets and pools contradict each other.
    """
    check_markets(tables.pools, tables.markets)
    entries = [*documents_of(documents.MarketEntry, tables.markets)]
    yield file_of(documents.MarketList(observed_ledger=tables.ledger, data=entries))
    pools: dict[str, list[MarketPool]] = {}
    for market, pool in zip(tables.pools["market"], documents_of(MarketPool, tables.pools), strict=True):
        pools.setdefault(market, []).append(pool)
    backstops = documents_of(documents.MarketBackstop, tables.backstops)
    insured = dict(zip(tables.backstops["market"], backstops, strict=True))
    queued = pending_by_market(tables.pending)
    more = tables.markets.select("config_hash", "listed_source").iter_rows()
    for entry, (config_hash, listed_source) in zip(entries, more, strict=True):
        own = pools.get(entry.market, [])
        yield file_of(
            documents.MarketSummary(
                market=entry.market,
                config_hash=config_hash,
                observed_ledger=entry.observed_ledger,
                pool_count=entry.pool_count,
                pools=own[:cap],
                truncated=len(own) > cap,
                tvl_usd_cents=entry.tvl_usd_cents,
                priced_count=entry.priced_count,
                listed=entry.listed,
                listed_reason=entry.listed_reason,
                listed_source=listed_source,
                backstop=insured.get(entry.market),
                pending=[pending_change(item) for item in queued.get(entry.market, ())],
                risk=None if tables.risk is None else tables.risk.of(entry.market),
            )
        )


def pending_change(item: Pending) -> PendingChange:
    """A queued change, as documents have it."""
    takes_effect = None if item.takes_effect is None else documents.timestamp(item.takes_effect)
    return PendingChange(item.pool, item.kind, item.value, takes_effect)


def check_markets(pools: pl.DataFrame, markets: pl.DataFrame) -> None:
    """Raise `CheckError`, which names a market, if the frames of pools and markets contradict each other."""
    strangers = sorted(pools.join(markets, "market", how="anti")["market"])
    if strangers:
        raise CheckError(f"pools: {strangers[0]} is not among the markets")
    value = pl.col("tvl_usd_cents")
    of_pools = pools.group_by("market").agg(
        pl.len().alias("read"), value.count().alias("with_value"), exact_sum(value).alias("sum")
    )
    columns = ("market", "pool_count", "unread_count", "priced_count", "tvl_usd_cents")
    both = markets.select(columns).join(of_pools, "market", how="left", maintain_order="left")
    for market, pool_count, unread_count, priced_count, tvl, read, with_value, limbs in both.iter_rows():
        if (read or 0) + unread_count != pool_count:
            raise CheckError(
                f"markets: {market}: pool_count is {pool_count}, but {read or 0} pools were read "
                f"and {unread_count} were not"
            )
        if tvl != joined(limbs):
            raise CheckError(f"markets: {market}: tvl_usd_cents is {tvl}, but its pools sum up to {joined(limbs)}")
        if priced_count != (with_value or 0):
            raise CheckError(
                f"markets: {market}: priced_count is {priced_count}, but {with_value or 0} pools have a value"
            )


class _PoolStatus(TypedDict):
    """The columns that name a pool, and its two statuses in the protocol's own words."""

    market: str
    pool: str
    protocol: str
    market_status: str
    pool_status: str | None


def render_details(
    tables: Tables,
    protocols: Mapping[str, Protocol],
    periods: Iterable[list[AssetPeriod]],
    first_seen: Mapping[PoolKey, int],
) -> Iterator[RenderedFile]:
    """Render the document of each pool that was read. ``pools`` is a frame of `lists.with_list_columns`."""
    drawn, queued = rate_curves(tables.pools, tables.parameters, protocols), pending_by_market(tables.pending)
    columns = [*LIST_COLUMNS, *(written(column.name, column.document_type) for column in COLUMNS)]
    rows = chain.from_iterable(part.select(columns).iter_rows(named=True) for part in tables.pools.iter_slices(1_000))
    for pool, row, own, curve in zip(rows_as(_PoolStatus, tables.pools), rows, periods, drawn, strict=True):
        key, words = PoolKey.of(pool), protocols[pool["protocol"]].words
        parameters = tables.parameters.get(key, ())
        yield file_of(
            _filled(
                AssetDetail,
                row,
                first_seen_ledger=first_seen.get(key, tables.ledger),
                price=_filled(AssetPrice, row),
                rates=_filled(AssetRates, row),
                indexes=_filled(AssetIndexes, row),
                rate_model=[RateModelParameter(x.name, str(x.value), x.decimals, x.no_limit) for x in parameters],
                rate_curve=curve,
                operations=_filled(
                    AssetOperations,
                    row,
                    market_status_meaning=words.market_statuses.get(pool["market_status"]),
                    pool_status_meaning=words.pool_statuses.get(pool["pool_status"] or ""),
                ),
                liquidity=_filled(AssetLiquidity, row),
                risk=_filled(AssetRisk, row, spokes=[_spoke(terms) for terms in tables.spokes.get(key, ())]),
                rewards=_filled(AssetRewards, row),
                periods=own,
                pending=[pending_change(item) for item in queued.get(key.market, ()) if item.pool in (None, key.pool)],
            )
        )


def _filled(model: type[_Part], row: Mapping[str, object], **more: object) -> _Part:
    return model(**{name: row[name] for name in model.__struct_fields__ if name not in more}, **more)


def _spoke(terms: SpokeTerms) -> AssetSpoke:
    """A spoke as documents have it. Amounts are texts, and are at most what a column can hold."""
    values = asdict(terms)
    for name in ("available_to_supply", "available_to_borrow", "supply_cap", "borrow_cap"):
        values[name] = None if values[name] is None else str(min(values[name], MAX_DECIMAL))
    return AssetSpoke(**values)


class _CurveRow(RateRow):
    """The part of a pool's row that a curve needs, and the decimals of its numbers."""

    market: str
    pool: str
    protocol: str
    utilization_decimals: int
    apr_decimals: int


def rate_curves(
    pools: pl.DataFrame,
    parameters: Mapping[PoolKey, Sequence[Parameter]],
    protocols: Mapping[str, Protocol],
) -> Iterator[list[RatePoint]]:
    """The borrow rate over the utilization, for each pool of the frame; empty if its protocol has no curve."""
    for row in rows_as(_CurveRow, pools):
        model = protocols[row["protocol"]].rate_model
        parameters_of_pool = {item.name: item.value for item in parameters.get(PoolKey.of(row), ())}
        points = [] if model is None else model.curve(row, parameters_of_pool)
        scales = row["utilization_decimals"], row["apr_decimals"]
        yield [RatePoint(*map(basis_points, point, scales)) for point in points]


def basis_points(value: int, decimals: int) -> int:
    """A value in units of 10^-decimals in basis points, rounded down, and at most the largest integer of JSON."""
    bps: int = value * 10_000 // 10**decimals
    return min(bps, exact.JSON_INTEGER_MAX)


def protocol_summary(tables: Tables) -> documents.ProtocolSummary:
    """The counts and values of listed markets, in all and by protocol, and of unlisted markets apart."""
    totals = _totals_by_listing()
    [everything] = rows_as(_Totals, tables.markets.select(pl.lit("").alias("protocol"), *totals))
    by_protocol = tables.markets.group_by("protocol").agg(totals).sort("protocol")
    whole = _totals_of(everything)
    of_all = {name: getattr(whole, name) for name in whole.__struct_fields__ if name != "protocol"}
    protocols = [_totals_of(row) for row in rows_as(_Totals, by_protocol)]
    return documents.ProtocolSummary(observed_ledger=tables.ledger, **of_all, protocols=protocols)


def _totals_of(row: _Totals) -> documents.ProtocolTotals:
    return documents.ProtocolTotals(
        protocol=row["protocol"],
        market_count=row["market_count"],
        pool_count=row["pool_count"],
        priced_count=row["priced_count"],
        tvl_usd_cents=digits(row["tvl_usd_cents"]),
        unlisted_market_count=row["unlisted_market_count"],
        unlisted_pool_count=row["unlisted_pool_count"],
        unlisted_priced_count=row["unlisted_priced_count"],
        unlisted_tvl_usd_cents=digits(row["unlisted_tvl_usd_cents"]),
    )


class _Totals(TypedDict):
    """A protocol, and the columns of `_totals_by_listing`."""

    protocol: str
    market_count: int
    pool_count: int
    priced_count: int
    tvl_usd_cents: Limbs | None
    unlisted_market_count: int
    unlisted_pool_count: int
    unlisted_priced_count: int
    unlisted_tvl_usd_cents: Limbs | None


def _totals_by_listing() -> list[pl.Expr]:
    """Expressions for the totals of a group of markets, with unlisted markets apart. Values are sums in limbs."""
    totals = []
    for prefix, is_own in (("", pl.col("listed")), ("unlisted_", ~pl.col("listed"))):
        totals += [
            is_own.sum().alias(f"{prefix}market_count"),
            pl.col("pool_count").filter(is_own).sum().alias(f"{prefix}pool_count"),
            pl.col("priced_count").filter(is_own).sum().alias(f"{prefix}priced_count"),
            exact_sum(pl.col("tvl_usd_cents").filter(is_own)).alias(f"{prefix}tvl_usd_cents"),
        ]
    return totals


def token_documents(
    tables: Tables, first_seen: Mapping[str, int], identity_of: Mapping[str, TokenIdentity]
) -> Iterator[documents.TokenDocument]:
    """The document of each token that a pool has, ascending by address.

    Symbol and decimals are those of the token's contract; a market may compute with others. ``first_seen`` has the
    first ledger of each token in the history, which includes this run. ``identity_of`` has the network's list of
    identities, by address.
    """
    columns = ("token_address", "market", "pool", "listed", "symbol", "decimals")
    rows = tables.pools.select(columns).sort("token_address", maintain_order=True).iter_rows()
    for address, group in groupby(rows, key=itemgetter(0)):
        own = list(group)
        symbol, decimals = own[0][4:]
        token = tables.tokens.get(address, Token(address, None, None))
        yield documents.TokenDocument(
            address=address,
            symbol=symbol if token.symbol is None else token.symbol,
            decimals=decimals if token.decimals is None else token.decimals,
            first_seen_ledger=min(first_seen.get(address, tables.ledger), tables.ledger),
            observed_ledger=tables.ledger,
            pools=[documents.PoolReference(*place) for _, *place, _, _ in own],
            issuer=token.issuer,
            name=token.name,
            identity=identity_of.get(address),
        )


SKIPPED_PER_PAGE = 500


def skipped_counts(skipped: Iterable[documents.SkippedMarket]) -> documents.SkippedCounts:
    """The number of markets that were skipped, by reason."""
    counted = Counter(item.reason for item in skipped)
    return documents.SkippedCounts(**{reason.value: counted[reason] for reason in SkipReason})


def render_skipped(tables: Tables) -> Iterator[RenderedFile]:
    """Render the pages of all markets that the run skipped. There is a first page even if none was skipped."""
    starts = range(0, max(len(tables.skipped), 1), SKIPPED_PER_PAGE)
    for number, start in enumerate(starts, 1):
        rows = tables.skipped[start : start + SKIPPED_PER_PAGE]
        page = documents.SkippedList(tables.ledger, number, len(starts), rows)
        key = SKIPPED.only_key if number == 1 else SKIPPED_PAGE.key(number=number)
        yield RenderedFile(key, documents.encode(page), FileKind.DOCUMENT)


def digits(limbs: Limbs | None) -> str | None:
    """A sum as documents have it, in digits; None if none of its numbers is known."""
    value = joined(limbs)
    return None if value is None else str(value)


def excluded_on(network: str) -> list[documents.Excluded]:
    """The protocols that are left out on purpose, on the network with this name in the configuration."""
    text = files("exporter.deployments").joinpath("excluded.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, list[documents.Excluded]]).get(network, [])


def unpriced_bps(tables: Tables) -> int:
    """The part of the pools read in listed markets that have no price, in basis points, rounded down."""
    listed = tables.of_listed()
    return len(listed.unpriced) * 10_000 // max(listed.pools.height, 1)


def unpriced_markets(tables: Tables) -> list[documents.UnpricedMarket]:
    """The markets with pools that have no price, ascending."""
    unpriced = Counter(item.market for item in tables.unpriced)
    pools = Counter(tables.pools["market"])
    return [
        documents.UnpricedMarket(market, pools[market], count, count * 10_000 // pools[market])
        for market, count in sorted(unpriced.items())
    ]


def render_metrics(tables: Tables) -> RenderedFile:
    """Render `/metrics.txt` for monitoring systems, as OpenMetrics 1.0. Prometheus reads it as its own format, too.

    Numbers that are not known have no line. Numbers on which alarms depend are of listed markets, so that nobody can
    set off an alarm with a market of his own. At most `MAX_METRIC_POOLS` pools have lines, because monitoring systems
    refuse bodies of many megabytes.
    """
    by_value = tables.pools.with_row_index("place").sort(
        "listed", "tvl_usd_cents", descending=True, nulls_last=True, maintain_order=True
    )
    shown = by_value.head(MAX_METRIC_POOLS).sort("place")
    listed = tables.of_listed()
    priced = listed.pools.filter(pl.col("price_reason") == VALID_PRICE)
    text = (
        environment()
        .get_template("metrics.txt.j2")
        .render(
            tables=tables,
            listed=listed,
            pools=shown.rows(named=True),
            oldest_price=priced["price_timestamp"].min(),
            unpriced_bps=unpriced_bps(tables),
            unpriced_markets=unpriced_markets(listed),
        )
    )
    return RenderedFile(METRICS.only_key, text.encode(), FileKind.DOCUMENT)


def protocol_list(
    tables: Tables, protocols: Mapping[str, Protocol], deployments: Sequence[Deployment], network: str
) -> documents.ProtocolList:
    """The list of protocols, ascending by name: what a run covers, what it could not read, and what is left out."""
    unread = Counter(item.protocol for item in tables.unread)
    absent = Counter(item.protocol for item in tables.absent)
    protocol_of = dict(tables.markets.select("market", "protocol").iter_rows())
    unpriced = Counter(protocol_of[item.market] for item in tables.unpriced)
    data = []
    for name in sorted(protocols):
        markets = tables.markets.filter(pl.col("protocol") == name)
        versions = markets.group_by("version", "wasm_hash").len().sort("version", "wasm_hash").rows()
        data.append(
            documents.ProtocolCoverage(
                protocol=name,
                **asdict(protocols[name].words.coverage),
                market_count=markets.height,
                listed_market_count=int(markets["listed"].sum()),
                pool_count=sum(markets["pool_count"]),
                unread_count=unread[name],
                unpriced_count=unpriced[name],
                absent_count=absent[name],
                contract_versions=[documents.ContractVersion(*version) for version in versions],
                known_contracts=[
                    documents.KnownAddress(deployment.label, **asdict(contract) | {"date": contract.date.isoformat()})
                    for deployment in deployments
                    if deployment.protocol == name
                    for contract in deployment.contracts
                ],
            )
        )
    return documents.ProtocolList(tables.ledger, data, excluded_on(network))
