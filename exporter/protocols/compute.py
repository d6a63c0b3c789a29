"""From what the protocols read to the two frames of the run: project, price, tabulate, and name what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast

import polars as pl

from exporter import exact
from exporter.deployments.listing import NOTHING_LISTED, MarketListings
from exporter.errors import NEVER_CONTAINED, Barrier, ExactDivisionError, ExactError, error_text
from exporter.ledger.oracles import Quote
from exporter.ledger.tokens import Token
from exporter.protocols.base import AnyPool, Held, Parameter, Pending, ProtocolReading
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers, PoolRow, Rewards, Risk, SpokeTerms
from exporter.protocols.prices import (
    NO_ORACLE,
    NOT_ASKED,
    close_frozen,
    frozen_spoke,
    judge,
    set_price,
    set_values,
    spokes_with_price,
    within_limits,
)
from exporter.protocols.protocol import Protocol
from exporter.protocols.rewards import backstop_frame, set_rewards
from exporter.tables import (
    BACKSTOPS_SCHEMA,
    COLUMNS,
    GATES,
    MARKETS_SCHEMA,
    MAX_DECIMAL,
    MAX_TIMESTAMP_SECONDS,
    OPTIONAL_COLUMNS,
    POOLS_SCHEMA,
    VALID_PRICE,
)
from exporter.tree.documents import Absent, Bounded, SkippedMarket, Unpriced, Unread
from exporter.tree.risk import PublishedRisk
from exporter.tree.values import ParquetType

_MOST = {
    ParquetType.INT64: exact.JSON_INTEGER_MAX,
    ParquetType.DECIMAL: MAX_DECIMAL,
    ParquetType.TIMESTAMP: MAX_TIMESTAMP_SECONDS,
}
_TOTALS: tuple[Literal["total_supplied", "total_borrowed"], ...] = ("total_supplied", "total_borrowed")
_EXACT = (*_TOTALS, "oracle_price", "reward_price", "ledger_close_time")

BOUNDS: dict[str, int] = {
    column.name: _MOST[column.type]
    for column in COLUMNS
    if column.type in _MOST
    and column.name not in _EXACT
    and not column.name.endswith("_usd_cents")
    and (column.type is not ParquetType.INT64 or column.source == "optional" or column.name.endswith("_bps"))
}
"""The most that a field is published as; the least is the same below zero, and 0 for the terms. The totals are given
exactly, or the pool is unread; price and value are null together where they cannot be given."""


@dataclass(slots=True)
class Tables:
    """A run's numbers: the frames of `exporter.tables`, and everything that is not in them."""

    ledger: int
    close_time: int
    pools: pl.DataFrame
    markets: pl.DataFrame
    listings: MarketListings = NOTHING_LISTED
    backstops: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=BACKSTOPS_SCHEMA))
    unread: list[Unread] = field(default_factory=list)
    unpriced: list[Unpriced] = field(default_factory=list)
    bounded: list[Bounded] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    skipped: list[SkippedMarket] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    parameters: dict[tuple[str, str], tuple[Parameter, ...]] = field(default_factory=dict)
    spokes: dict[tuple[str, str], tuple[SpokeTerms, ...]] = field(default_factory=dict)
    """By market and pool: the terms of each spoke."""
    frozen: set[tuple[str, str]] = field(default_factory=set)
    """Market and pool of those that need a key which the network froze."""
    tokens: dict[str, Token] = field(default_factory=dict)
    risk: PublishedRisk | None = None
    """The risk document that the run shows, of a checkpoint before its ledger."""

    def of_listed(self) -> Tables:
        """The pools and problems of listed markets alone: what strangers deploy moves no alarm and hides no problem."""
        listed = set(self.markets.filter("listed")["market"])
        listed |= {item.market for item in self.unread if self.listings.is_listed(item.protocol, item.market)}
        return replace(
            self,
            pools=self.pools.filter("listed"),
            markets=self.markets.filter("listed"),
            unread=[item for item in self.unread if item.market in listed],
            unpriced=[item for item in self.unpriced if item.market in listed],
            bounded=[item for item in self.bounded if item.market in listed],
        )


def compute(
    readings: Sequence[ProtocolReading],
    protocols: Mapping[str, Protocol],
    ledger: int,
    close_time: int,
    listings: MarketListings,
) -> Tables:
    """The frames at a ledger; ``listings`` say which markets are listed.

    A pool without exact totals is unread; any other field that is too large is at its bound.
    """
    tables = Tables(
        ledger, close_time, pl.DataFrame(schema=POOLS_SCHEMA), pl.DataFrame(schema=MARKETS_SCHEMA), listings
    )
    frames = []
    for reading in readings:
        unread = list(reading.unread)
        with Barrier() as barrier:
            reading.settle(close_time)
            frames.append(_pools_of(reading, protocols[reading.protocol], tables, unread))
        if barrier.failure:
            lost = [(pool.market.address, pool.pool) for pool in reading.pools]
            unread = [Unread(*place, reading.protocol, "undecodable", barrier.failure) for place in lost]
            unread = [*reading.unread, *unread]
        tables.unread += unread
    tables.pools = pl.concat([tables.pools, *frames]).sort("market", "pool")
    tables.backstops = tables.backstops.sort("market")
    tables.markets = _markets_of(readings, tables)
    read = set(tables.markets["market"])
    for reading in readings:
        tables.absent += reading.absent
        tables.notices += reading.notices
        tables.held += reading.held
        tables.pending += [item for item in reading.pending if item.market in read]
        tables.parameters |= reading.parameters
        tables.frozen |= reading.frozen.keys()
        tables.tokens |= {
            address: token
            for address, token in reading.tokens.items()
            if token.symbol is not None and (token.issuer or address not in tables.tokens)
        }
    tables.unread.sort(key=lambda item: (item.market, item.pool or ""))
    tables.absent.sort(key=lambda item: item.market)
    tables.notices.sort()
    tables.pending.sort(key=lambda item: (item.market, item.pool or "", item.kind, item.value))
    tables.bounded.sort(key=lambda item: (item.market, item.pool, item.field))
    unpriced = tables.pools.filter(pl.col("price_reason") != VALID_PRICE)
    tables.unpriced = [Unpriced(*row) for row in unpriced.select("market", "pool", "price_reason").iter_rows()]
    return tables


_GROUPS = ("operations", "amounts", "risk", "rewards")
_COLUMNS_OF_GROUPS = tuple(
    (group, tuple(item.name for item in fields(made)))
    for group, made in zip(_GROUPS, (Operations, Amounts, Risk, Rewards), strict=True)
)
_OWN_COLUMNS = tuple(item.name for item in fields(PoolNumbers) if item.name not in (*_GROUPS, "spokes"))


def row_of(pool: AnyPool, numbers: PoolNumbers) -> dict[str, Any]:
    """A row of the pools frame with what a protocol gives, and null in every other column."""
    row: dict[str, Any] = dict.fromkeys(POOLS_SCHEMA)
    row |= pool.identity()
    row |= {name: getattr(numbers, name) for name in _OWN_COLUMNS}
    for group, names in _COLUMNS_OF_GROUPS:
        terms = getattr(numbers, group)
        row |= {name: getattr(terms, name) for name in names}
    return row


def _bound(row: PoolRow) -> list[Bounded]:
    """Bring what is too large for its column to the column's bound; gives what was."""
    values = cast(dict[str, Any], row)  # the bounds are those of many columns, by name
    bounded = []
    for name, bound in BOUNDS.items():
        if values[name] is not None:
            values[name] = max(0 if name in OPTIONAL_COLUMNS else -bound, min(values[name], bound))
            if values[name] == bound:
                bounded.append(Bounded(row["market"], row["pool"], name, str(bound)))
    return bounded


def pending_by_market(pending: Iterable[Pending]) -> Mapping[str, list[Pending]]:
    """Queued changes of each market, its pools included."""
    found: dict[str, list[Pending]] = {}
    for item in pending:
        found.setdefault(item.market, []).append(item)
    return found


def _pools_of(
    reading: ProtocolReading,
    protocol: Protocol,
    tables: Tables,
    unread_pools: list[Unread],
) -> pl.DataFrame:
    """One protocol's part of the pools frame; adds to ``unread_pools``."""

    def unread(market: str, pool: str, reason: str, detail: str) -> None:
        unread_pools.append(Unread(market, pool, reading.protocol, reason, detail))

    rows: list[PoolRow] = []
    spokes: dict[tuple[str, str], tuple[SpokeTerms, ...]] = {}
    for pool in reading.pools:
        place, token = pool.place, reading.tokens.get(pool.token_address)
        if token is None or token.symbol is None:
            unread(*place, "undecodable", (token and token.failure) or "the token gives no symbol")
            continue
        try:
            numbers = protocol.project(pool, tables.close_time)
        except ExactError as error:
            reason = "inconsistent" if isinstance(error, ExactDivisionError) else "overflow"
            unread(*place, reason, f"the market's own math has no result: {error}")
        except NEVER_CONTAINED:
            raise
        except Exception as error:
            unread(*place, "undecodable", error_text(error))
        else:
            computed = row_of(pool, numbers) | {"symbol": token.symbol, "archived": place in reading.archived}
            rows.append(cast(PoolRow, computed))
            spokes[place] = numbers.spokes

    def price_failure(quote: Quote) -> str | None:
        return protocol.prices.failure(quote, tables.close_time)

    prices = {(quote.oracle, quote.token): judge(quote, price_failure) for quote in reading.quotes.values()}
    for row in rows:
        not_asked = NO_ORACLE if row["oracle"] is None else NOT_ASKED
        price = prices.get((row["oracle"] or "", row["token_address"]), not_asked)
        place = row["market"], row["pool"]
        limits = reading.price_limits.get(place)
        price = within_limits(price, limits, tables.close_time)
        set_price(row, price, protocol.prices.without_price)
        spokes[place] = spokes_with_price(spokes[place], price, protocol.prices.without_price)
        frozen_reason = reading.frozen.get(place)
        if frozen_reason is not None:
            close_frozen(row, frozen_reason)
            spokes[place] = tuple(map(frozen_spoke, spokes[place]))
        for gate, amount in GATES.items():  # null where the protocol says nothing, and 0 behind a gate that is closed
            if not row[gate]:
                row[amount] = None if row[gate] is None else 0
            elif (value := row[amount]) is not None:
                row[amount] = max(value, 0)
    set_values(rows)
    worths = {
        pair: (price.price, price.decimals)
        for pair, price in prices.items()
        if price.price is not None and price.decimals is not None
    }
    kept = []
    for row in rows:
        set_rewards(row, reading, worths)
        scale = 10 ** row["apr_decimals"]
        # The rates that the contract charges until the next operation, as the protocols' own yields do.
        row["comparable_supply_apy_bps"] = exact.annual_yield_bps(row["stored_supply_apr"], 365, scale)
        row["comparable_borrow_apy_bps"] = exact.annual_yield_bps(row["stored_borrow_apr"], 365, scale)
        row["total_supply_apy_bps"] = row["comparable_supply_apy_bps"] + (row["supply_reward_apr_bps"] or 0)
        long = [f"{name} is {row[name]}" for name in _TOTALS if abs(row[name]) > MAX_DECIMAL]
        if long:
            unread(row["market"], row["pool"], "overflow", f"numbers have at most 38 digits, but {', '.join(long)}")
            continue
        tables.bounded += _bound(row)
        listing = tables.listings.of(reading.protocol, row["market"])
        row["listed"] = listing.listed
        row["listed_reason"] = listing.reason.value
        row["observed_ledger"] = tables.ledger
        row["ledger_close_time"] = tables.close_time
        row["supply_compounding"] = protocol.words.coverage.supply_compounding
        row["borrow_compounding"] = protocol.words.coverage.borrow_compounding
        if spokes[row["market"], row["pool"]]:
            tables.spokes[row["market"], row["pool"]] = spokes[row["market"], row["pool"]]
        kept.append(row)
    tables.backstops = pl.concat([tables.backstops, backstop_frame(reading, worths, tables.close_time)])
    columns = cast(list[dict[str, Any]], kept)
    return pl.DataFrame({name: [row[name] for row in columns] for name in POOLS_SCHEMA}, schema=POOLS_SCHEMA)


_MEANS = {"supply": "supplied_usd_cents", "total_supply": "supplied_usd_cents", "borrow": "borrowed_usd_cents"}
"""The yields of a market's pools of which there is a mean, with their weights."""


def _markets_of(readings: Sequence[ProtocolReading], tables: Tables) -> pl.DataFrame:
    """The markets with sums and means over their pools that have a price; a sum of more than 38 digits is null."""
    unread = {(item.market, item.pool) for item in tables.unread}
    names = [*_MEANS.values(), "tvl_usd_cents", *(f"{rate}_apy_bps" for rate in _MEANS)]
    priced: dict[str, list[dict[str, int]]] = {}
    for pool in tables.pools.drop_nulls("supplied_usd_cents").select("market", *dict.fromkeys(names)).to_dicts():
        priced.setdefault(pool["market"], []).append(pool)
    rows = []
    for market in sorted((market for reading in readings for market in reading.markets), key=lambda item: item.address):
        row: dict[str, object] = {name: getattr(market, name, None) for name in MARKETS_SCHEMA}
        row |= {"market": market.address, "pool_count": len(market.members), "observed_ledger": tables.ledger}
        row["unread_count"] = sum((market.address, pool) in unread for pool in market.members)
        listing = tables.listings.of(market.protocol, market.address)
        row |= {"listed": listing.listed, "listed_reason": listing.reason.value, "listed_source": listing.source}
        own = priced.get(market.address, [])
        row["priced_count"] = len(own)
        for name in ("tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents"):
            total = sum(pool[name] for pool in own)
            row[name] = total if own and total <= MAX_DECIMAL else None
        for rate, weight in _MEANS.items():
            whole = sum(pool[weight] for pool in own)
            weighted = sum(pool[f"{rate}_apy_bps"] * pool[weight] for pool in own)
            row[f"mean_{rate}_apy_bps"] = weighted // whole if whole else None
        rows.append(row)
    return pl.DataFrame({name: [row[name] for row in rows] for name in MARKETS_SCHEMA}, schema=MARKETS_SCHEMA)
