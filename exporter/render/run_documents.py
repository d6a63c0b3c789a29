"""Everything of the API that a run renders: its pages, the documents of markets, pools and tokens, and what is covered.

Who checks the tree reads every file back: a document is handed on with the model that it was encoded from. The
publisher lets documents wait until all that they lead to is written.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

import msgspec
import polars as pl
from msgspec.structs import astuple

from exporter import exact
from exporter.deployments import Deployment
from exporter.errors import CheckError
from exporter.protocols.base import Parameter, Pending, ProtocolModule
from exporter.protocols.compute import Tables, pending_by_market
from exporter.protocols.curves import curves
from exporter.render.assets_pages import render_pages, snapshots
from exporter.tables import BACKSTOPS, COLUMNS, document_fields, written
from exporter.tree import documents
from exporter.tree.decoding import decode_json
from exporter.tree.files import RenderedFile
from exporter.tree.headers import METHODS
from exporter.tree.pools import (
    AssetDetail,
    AssetIndexes,
    AssetLiquidity,
    AssetOperations,
    AssetPeriod,
    AssetPrice,
    AssetRates,
    AssetRewards,
    AssetRisk,
    AssetSpoke,
    MarketPool,
    PendingChange,
    PoolSnapshot,
    RateModelParameter,
    RatePoint,
)
from exporter.tree.problems import Problem, not_found, problem
from exporter.tree.read_back import file_of

MARKET_POOLS_CAP = 200
"""How many pools a market summary lists; the rest is at ``/v1/assets?market=``."""

_Part = TypeVar("_Part", bound=msgspec.Struct)

_NO_BACKSTOPS = pl.DataFrame(schema=BACKSTOPS)


def render_tree(
    pools: pl.DataFrame,
    markets: pl.DataFrame,
    sizes: Sequence[int],
    default_size: int,
    cap: int = MARKET_POOLS_CAP,
    backstops: pl.DataFrame = _NO_BACKSTOPS,
    pending: Sequence[Pending] = (),
) -> Iterator[RenderedFile]:
    """Render all that follows from the frames: pages and listings, then the documents of the markets.

    `pools`, `markets` and `backstops` are the frames of one run (`exporter.tables`), each of which may be empty. Files
    come one by one, never all at once in memory, in an order that depends on the input alone. Raises ConfigError for
    page sizes that cannot serve every limit and CheckError for frames that contradict each other or a promise of the
    API; what was yielded before must then not be published.
    """
    check_markets(pools, markets)
    yield from render_pages(pools, markets, sizes, default_size)
    for summary in market_summaries(pools, markets, cap, backstops, pending):
        yield file_of(summary)


def market_summaries(
    pools: pl.DataFrame,
    markets: pl.DataFrame,
    cap: int,
    backstops: pl.DataFrame = _NO_BACKSTOPS,
    pending: Sequence[Pending] = (),
) -> Iterator[documents.MarketSummary]:
    """The summary of each market, with at most `cap` pools each, of frames that ascend by market.

    `pool_count` is taken from the markets frame, so it counts pools that could not be read. A list is truncated
    when the cap cut it, not when a pool of it was unread.
    """
    read = chain.from_iterable(map(snapshots, pools.iter_slices(1_000)))
    members = groupby(read, key=attrgetter("market"))
    following, own = next(members, (None, iter(())))
    own_backstops = backstops.select("market", *document_fields(documents.MarketBackstop)).iter_rows()
    insured = {market: documents.MarketBackstop(*values) for market, *values in own_backstops}
    queued = pending_by_market(pending)
    columns = ("market", "config_hash", "observed_ledger", "pool_count", "tvl_usd_cents")
    for market, config_hash, observed_ledger, pool_count, tvl in markets.select(columns).iter_rows():
        rows: list[PoolSnapshot] = []
        if following == market:
            rows = list(own)
            following, own = next(members, (None, iter(())))
        yield documents.MarketSummary(
            market=market,
            config_hash=config_hash,
            observed_ledger=observed_ledger,
            pool_count=pool_count,
            pools=[market_pool(row) for row in rows[:cap]],
            truncated=len(rows) > cap,
            tvl_usd_cents=None if tvl is None else str(tvl),
            backstop=insured.get(market),
            pending=[pending_change(item) for item in queued.get(market, ())],
        )


def pending_change(item: Pending) -> PendingChange:
    """Something that is queued, as documents have it."""
    return PendingChange(item.pool, item.kind, item.value, effect_time(item))


def effect_time(item: Pending) -> str | None:
    """From when on something that is queued can be put into effect, as documents write a time."""
    return None if item.takes_effect is None else documents.timestamp(item.takes_effect)


def market_pool(snapshot: PoolSnapshot) -> MarketPool:
    """The snapshot as its market's summary has it: without the first and the last field."""
    return MarketPool(*astuple(snapshot)[1:-1])


def check_markets(pools: pl.DataFrame, markets: pl.DataFrame) -> None:
    """Refuse frames of which one contradicts the other, with CheckError naming the market.

    Every pool's market is among the markets; the pools counted are those read and those unread; and the value of a
    market is the sum over its pools that have a price.
    """
    members: dict[str, list[int | None]] = {}
    for market, value in pools.select("market", "tvl_usd_cents").iter_rows():
        members.setdefault(market, []).append(value)
    strangers = sorted(set(members) - set(markets["market"]))
    if strangers:
        raise CheckError(f"pools: {strangers[0]} is not among the markets")
    columns = ("market", "pool_count", "unread_count", "tvl_usd_cents")
    for market, pool_count, unread_count, tvl in markets.select(columns).iter_rows():
        rows = members.get(market, [])
        if len(rows) + unread_count != pool_count:
            raise CheckError(
                f"markets: {market}: pool_count is {pool_count}, but {len(rows)} pools were read "
                f"and {unread_count} were not"
            )
        values = [value for value in rows if value is not None]
        expected = sum(values) if values else None
        if tvl != expected:
            raise CheckError(f"markets: {market}: tvl_usd_cents is {tvl}, but its pools sum up to {expected}")


# The detail of every asset: the pool snapshot, and what else an analyst wants.


def render_details(
    tables: Tables,
    modules: Mapping[str, ProtocolModule],
    periods: Iterable[list[AssetPeriod]],
    first_seen: Mapping[tuple[str, str], int],
) -> Iterator[RenderedFile]:
    """Render the detail of each pool that was read.

    Args:
        tables: of the run; its pools with the columns of `exporter.render.pool_lists.listed_pools`.
        modules: the protocols.
        periods: of each pool, in the order of the pools frame.
        first_seen: the lowest ledger of each pool in the history.
    """
    drawn, queued = rate_curves(tables.pools, tables.parameters, modules), pending_by_market(tables.pending)
    rows = chain.from_iterable(
        some.select("app_url", *(written(column.name, column.kind) for column in COLUMNS)).iter_rows(named=True)
        for some in tables.pools.iter_slices(1_000)
    )
    for row, own, curve in zip(rows, periods, drawn, strict=True):
        key = row["market"], row["pool"]
        spokes = decode_json(tables.spokes.get(key, "[]").encode(), list[AssetSpoke])
        row["first_seen_ledger"] = first_seen.get(key, tables.ledger)
        parameters = tables.parameters.get(key, ())
        pending = [item for item in queued.get(key[0], ()) if item.pool in (None, key[1])]
        yield file_of(asset_detail(row, parameters, modules[row["protocol"]], own, spokes, curve, pending))


def rate_curves(
    pools: pl.DataFrame,
    parameters: Mapping[tuple[str, str], Sequence[Parameter]],
    modules: Mapping[str, ProtocolModule],
) -> Iterator[list[RatePoint]]:
    """The borrow rate over the utilization, of each pool of the pools frame; empty where its protocol gives none."""
    for part in pools.iter_slices(1_000):
        found: dict[int, list[RatePoint]] = {}
        for (protocol,), own in part.with_row_index("place").group_by("protocol", maintain_order=True):
            model = modules[str(protocol)].rate_model
            if model is None:
                continue
            places = own.select("place", "utilization_decimals", "apr_decimals").rows()
            listed = (parameters.get(key, ()) for key in own.select("market", "pool").iter_rows())
            given = [{item.name: item.value for item in each} for each in listed]
            for position, points in curves(model, own, given).items():
                place, *scales = places[position]
                found[place] = [RatePoint(*map(basis_points, point, scales)) for point in points]
        yield from (found.get(place, []) for place in range(part.height))


def basis_points(value: int, decimals: int) -> int:
    """A value in units of 10^-decimals in basis points, rounded down, at most what JSON has."""
    bps: int = value * 10_000 // 10**decimals
    return min(bps, exact.JSON_INTEGER_MAX)


def asset_detail(
    row: Mapping[str, Any],
    parameters: Sequence[Parameter],
    module: ProtocolModule,
    periods: list[AssetPeriod],
    spokes: Sequence[AssetSpoke] = (),
    curve: Sequence[RatePoint] = (),
    pending: Sequence[Pending] = (),
) -> AssetDetail:
    """The detail from the columns of a pool as documents write them, what its protocol says of it, and its periods."""

    def filled(model: type[_Part], **more: object) -> _Part:
        return model(**{name: row[name] for name in model.__struct_fields__ if name not in more}, **more)

    return filled(
        AssetDetail,
        price=filled(AssetPrice),
        rates=filled(AssetRates),
        indexes=filled(AssetIndexes),
        rate_model=[
            RateModelParameter(item.name, str(item.value), item.decimals, item.no_limit) for item in parameters
        ],
        rate_curve=list(curve),
        operations=filled(
            AssetOperations,
            market_status_meaning=module.statuses.get(row["market_status"]),
            pool_status_meaning=module.pool_statuses.get(row["pool_status"]),
        ),
        liquidity=filled(AssetLiquidity),
        risk=filled(AssetRisk, spokes=list(spokes)),
        rewards=filled(AssetRewards),
        periods=periods,
        pending=list(map(pending_change, pending)),
    )


# The documents over all markets: their list, the tokens, and the protocols' totals.


def render_overview(tables: Tables, first_seen: Mapping[str, int]) -> Iterator[RenderedFile]:
    """Render the list of markets, the summary of the protocols, and the document of each token.

    ``first_seen`` has the lowest ledger of each token in the history, this run's own included. CheckError for a value
    that the API does not allow.
    """
    yield file_of(market_list(tables))
    yield file_of(protocol_summary(tables))
    yield from map(file_of, token_documents(tables, first_seen))


def market_list(tables: Tables) -> documents.MarketList:
    """Every market that was read, in the order of the markets frame."""
    rows = tables.markets.select(document_fields(documents.MarketEntry)).iter_rows()
    return documents.MarketList(observed_ledger=tables.ledger, data=[documents.MarketEntry(*row) for row in rows])


def protocol_summary(tables: Tables) -> documents.ProtocolSummary:
    """The counts and values of all markets, and of each protocol's. Sums are of any size."""
    by_protocol: dict[str, list[tuple[int, int | None]]] = {}
    for protocol, pool_count, tvl in tables.markets.select("protocol", "pool_count", "tvl_usd_cents").iter_rows():
        by_protocol.setdefault(protocol, []).append((pool_count, tvl))
    everything = [market for markets in by_protocol.values() for market in markets]
    return documents.ProtocolSummary(
        observed_ledger=tables.ledger,
        market_count=len(everything),
        pool_count=sum(count for count, _ in everything),
        tvl_usd_cents=total(value for _, value in everything),
        protocols=[
            documents.ProtocolTotals(
                protocol=protocol,
                market_count=len(markets),
                pool_count=sum(count for count, _ in markets),
                tvl_usd_cents=total(value for _, value in markets),
            )
            for protocol, markets in sorted(by_protocol.items())
        ],
    )


def token_documents(tables: Tables, first_seen: Mapping[str, int]) -> Iterator[documents.TokenDocument]:
    """The document of each token that a pool of the pools frame has, ascending by address.

    Decimals are those that the token's contract gives; a market may compute with others, which are in its pools.
    """
    columns = ("token_address", "market", "pool", "symbol", "decimals")
    rows = tables.pools.select(columns).sort("token_address", maintain_order=True).iter_rows()
    for address, group in groupby(rows, key=itemgetter(0)):
        own = list(group)
        references = [documents.PoolReference(market, pool) for _, market, pool, _, _ in own]
        symbol, decimals = own[0][3:]
        token = tables.tokens.get(address)
        if token is not None:
            symbol = token.symbol if token.symbol is not None else symbol
            decimals = token.decimals if token.decimals is not None else decimals
        yield documents.TokenDocument(
            address=address,
            symbol=symbol,
            decimals=decimals,
            first_seen_ledger=min(first_seen.get(address, tables.ledger), tables.ledger),
            observed_ledger=tables.ledger,
            pools=references,
            issuer=None if token is None else token.issuer,
            name=None if token is None else token.name,
        )


def total(values: Iterable[int | str | None]) -> str | None:
    """The sum of those that are known, as digits; None where none is."""
    known = [int(value) for value in values if value is not None]
    return str(sum(known)) if known else None


# ``/v1/protocols``: what a run covers, what it could not read, and what is left out on purpose.


@cache
def excluded_on(network: str) -> tuple[documents.Excluded, ...]:
    """Protocols that are left out on purpose on a network, by its name in the configuration."""
    text = files("exporter.deployments").joinpath("excluded.toml").read_text("utf-8")
    listed = msgspec.convert(tomllib.loads(text), dict[str, tuple[documents.Excluded, ...]])
    return listed.get(network, ())


def unpriced_bps(tables: Tables) -> int:
    """The share of the pools that were read which have no price, floored to basis points; 0 without any pool."""
    return len(tables.unpriced) * 10_000 // max(tables.pools.height, 1)


def unpriced_markets(tables: Tables) -> list[documents.UnpricedMarket]:
    """Every market with pools that have no price, ascending."""
    unpriced = Counter(item.market for item in tables.unpriced)
    pools = Counter(tables.pools["market"])
    return [
        documents.UnpricedMarket(market, pools[market], count, count * 10_000 // pools[market])
        for market, count in sorted(unpriced.items())
    ]


def protocol_list(
    tables: Tables, modules: Mapping[str, ProtocolModule], deployments: Sequence[Deployment], network: str
) -> documents.ProtocolList:
    """The document, from what a run read, the modules it read with, and the lists it began from.

    ``network`` is the name of a known network, or any other for one of which nothing is known. Protocols
    ascend by name.
    """
    unread = Counter(item.protocol for item in tables.unread)
    absent = Counter(item.protocol for item in tables.absent)
    protocol_of = dict(tables.markets.select("market", "protocol").iter_rows())
    unpriced = Counter(protocol_of[item.market] for item in tables.unpriced)
    data = []
    for name in sorted(modules):
        described, versions = modules[name].coverage, _versions(tables, name)
        data.append(
            documents.ProtocolCoverage(
                protocol=name,
                **{field: getattr(described, field) for field in described.__slots__},
                market_count=sum(version.market_count for version in versions),
                pool_count=sum(tables.markets.filter(pl.col("protocol") == name)["pool_count"]),
                unread_count=unread[name],
                unpriced_count=unpriced[name],
                absent_count=absent[name],
                contract_versions=versions,
                known_contracts=[
                    documents.KnownAddress(
                        deployment=deployment.label,
                        role=contract.role,
                        address=contract.address,
                        name=contract.name,
                        wasm_hash=contract.wasm_hash,
                        source=contract.source,
                        date=contract.date.isoformat(),
                    )
                    for deployment in deployments
                    if deployment.protocol == name
                    for contract in deployment.contracts
                ],
            )
        )
    return documents.ProtocolList(tables.ledger, data, list(excluded_on(network)))


def _versions(tables: Tables, protocol: str) -> list[documents.ContractVersion]:
    rows = tables.markets.select("protocol", "version", "wasm_hash").iter_rows()
    counts = Counter((version, wasm_hash) for name, version, wasm_hash in rows if name == protocol)
    ordered = sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    return [documents.ContractVersion(version, wasm_hash, count) for (version, wasm_hash), count in ordered]


# The problem documents as files of the tree, for platforms that answer an error with a file of the host.
#
# They say what is true of every request with that status: a platform cannot put a client's own value into a file.

MAX_URL_LENGTH = 8192
"""Bytes of path and query together; CloudFront's bound."""

INVALID = problem(400, "A parameter or a name in the path has a value that is not accepted.")
METHOD_NOT_ALLOWED = problem(405, f"This is a read-only API; the methods are {METHODS}.")
URL_TOO_LONG = problem(414, f"A URL may have {MAX_URL_LENGTH} bytes at most.")
RANGE_NOT_SATISFIABLE = problem(416, "No byte of the range is in the file.")
FAILED = problem(500, "The request could not be answered.")
UNAVAILABLE = problem(503, "The files cannot be reached at the moment. Try again in a minute.")


def generic_problems() -> tuple[Problem, ...]:
    """One problem for each status that a platform may answer with, ascending."""
    return (INVALID, not_found(), METHOD_NOT_ALLOWED, URL_TOO_LONG, RANGE_NOT_SATISFIABLE, FAILED, UNAVAILABLE)


def render_errors() -> Iterator[RenderedFile]:
    """The problem documents. They are the same in every run."""
    return map(file_of, generic_problems())
