"""The documents over all markets: their list, the tokens, and the protocols' totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from exporter.api.documents import (
    MarketEntry,
    MarketList,
    PoolReference,
    ProtocolSummary,
    ProtocolTotals,
    TokenDocument,
)
from exporter.api.render import render_document
from exporter.api.routes import token_key
from exporter.compute import Tables
from exporter.files import RenderedFile

MARKETS_KEY = "v1/markets.json"
SUMMARY_KEY = "v1/protocol/summary.json"


def render_overview(tables: Tables, first_seen: Mapping[str, int]) -> Iterator[RenderedFile]:
    """Render the list of markets, the summary of the protocols, and the document of each token.

    ``first_seen`` has the lowest ledger of each token in the history, this run's own included. CheckError for a value
    that the API does not allow.
    """
    yield render_document(MARKETS_KEY, market_list(tables))
    yield render_document(SUMMARY_KEY, protocol_summary(tables))
    for document in token_documents(tables, first_seen):
        yield render_document(token_key(document.address), document)


def market_list(tables: Tables) -> MarketList:
    """Every market that was read, in the order of the markets frame."""
    entries = [
        MarketEntry(
            market=row["market"],
            protocol=row["protocol"],
            version=row["version"],
            name=row["name"],
            status=row["status"],
            observed_ledger=row["observed_ledger"],
            pool_count=row["pool_count"],
            tvl_usd_cents=_digits(row["tvl_usd_cents"]),
        )
        for row in tables.markets.iter_rows(named=True)
    ]
    return MarketList(observed_ledger=tables.ledger, data=entries)


def protocol_summary(tables: Tables) -> ProtocolSummary:
    """The counts and values of all markets, and of each protocol's. Sums are of any size."""
    by_protocol: dict[str, list[tuple[int, int | None]]] = {}
    for protocol, pool_count, tvl in tables.markets.select("protocol", "pool_count", "tvl_usd_cents").iter_rows():
        by_protocol.setdefault(protocol, []).append((pool_count, tvl))
    everything = [market for markets in by_protocol.values() for market in markets]
    return ProtocolSummary(
        observed_ledger=tables.ledger,
        market_count=len(everything),
        pool_count=sum(count for count, _ in everything),
        tvl_usd_cents=_total(value for _, value in everything),
        protocols=[
            ProtocolTotals(
                protocol=protocol,
                market_count=len(markets),
                pool_count=sum(count for count, _ in markets),
                tvl_usd_cents=_total(value for _, value in markets),
            )
            for protocol, markets in sorted(by_protocol.items())
        ],
    )


def token_documents(tables: Tables, first_seen: Mapping[str, int]) -> Iterator[TokenDocument]:
    """The document of each token that a pool of the pools frame has, ascending by address.

    Decimals are those that the token's contract gives; a market may compute with others, which stand in its pools.
    """
    pools: dict[str, list[PoolReference]] = {}
    noted: dict[str, tuple[str, int]] = {}
    columns = ("market", "pool", "token_address", "symbol", "decimals")
    for market, pool, address, symbol, decimals in tables.pools.select(columns).iter_rows():
        pools.setdefault(address, []).append(PoolReference(market, pool))
        noted.setdefault(address, (symbol, decimals))
    for address, references in sorted(pools.items()):
        symbol, decimals = noted[address]
        token = tables.tokens.get(address)
        if token is not None:
            symbol = token.symbol if token.symbol is not None else symbol
            decimals = token.decimals if token.decimals is not None else decimals
        yield TokenDocument(
            address=address,
            symbol=symbol,
            decimals=decimals,
            first_seen_ledger=min(first_seen.get(address, tables.ledger), tables.ledger),
            observed_ledger=tables.ledger,
            pools=references,
        )


def _total(values: Iterable[int | None]) -> str | None:
    known = [value for value in values if value is not None]
    return str(sum(known)) if known else None


def _digits(value: int | None) -> str | None:
    return None if value is None else str(value)
