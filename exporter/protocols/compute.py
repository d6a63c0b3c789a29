"""Computes the run's frames of pools and markets from what the protocols read, and names what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, cast

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from exporter import exact
from exporter.deployments.listing import NOTHING_LISTED, MarketListings
from exporter.errors import NEVER_CONTAINED, Barrier, ExactDivisionError, ExactError, error_text
from exporter.exact_sums import exact_sum, joined
from exporter.ledger.oracles import PriceKey, Quote
from exporter.ledger.tokens import Token
from exporter.protocols.base import AnyPool, Control, Parameter, Pending, ProtocolReading
from exporter.protocols.contested import without_contested
from exporter.protocols.numbers import Amounts, Operations, PoolFrameRow, PoolNumbers, Rewards, Risk, SpokeTerms
from exporter.protocols.prices import (
    NO_ORACLE,
    NOT_ASKED,
    Price,
    close_frozen,
    frozen_spoke,
    judge,
    set_price,
    set_values,
    spokes_with_price,
    within_limits,
)
from exporter.protocols.protocol import Protocol
from exporter.protocols.rewards import UsdPrice, backstop_frame, set_rewards
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
    PoolKey,
    frame_of_rows,
)
from exporter.tree.documents import Absent, Bounded, SkippedMarket, Unpriced, Unread
from exporter.tree.risk_documents import PublishedRisk
from exporter.tree.values import ParquetType, UnreadReason

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
"""The bound of each field. A larger number is published as the bound. The lower bound is minus that, or 0 for terms.

There is no bound for the totals, which are exact or the pool is unread, nor for price and value, which are null
together if they cannot be given.
"""


class Tables(Struct):
    """A run's numbers: the frames of `exporter.tables`, and everything that is not in a frame."""

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
    controls: list[Control] = field(default_factory=list)
    """The admins and the code of markets; in a run also who is behind their prices."""
    pending: list[Pending] = field(default_factory=list)
    parameters: dict[PoolKey, tuple[Parameter, ...]] = field(default_factory=dict)
    spokes: dict[PoolKey, tuple[SpokeTerms, ...]] = field(default_factory=dict)
    """The terms of each spoke of a pool."""
    frozen: set[PoolKey] = field(default_factory=set)
    """The pools that need a key which the network froze."""
    tokens: dict[str, Token] = field(default_factory=dict)
    risk: PublishedRisk | None = None
    """The risk document that the run shows, of a checkpoint before its ledger."""

    def of_listed(self) -> Tables:
        """The part of the tables that is of listed markets.

        Alarms look at nothing else, so that what strangers deploy neither raises one nor hides a problem.
        """
        markets = self.markets.filter("listed")
        listed = set(markets["market"])
        return replace(
            self,
            pools=self.pools.filter("listed"),
            markets=markets,
            unread=[item for item in self.unread if self.listings.is_listed(item.protocol, item.market)],
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
    """The numbers of all markets at a ledger, which closed at ``close_time`` (unix seconds).

    ``listings`` say which markets are listed. A pool without exact totals is unread, and so is a market that
    several protocols claim (`without_contested`). Any other field that is too large is at its bound.
    """
    readings = without_contested(readings, listings)
    tables = Tables(
        ledger, close_time, pl.DataFrame(schema=POOLS_SCHEMA), pl.DataFrame(schema=MARKETS_SCHEMA), listings
    )
    frames = []
    for reading in readings:
        unread = list(reading.unread)
        with Barrier() as barrier:
            reading.at_close_time(close_time)
            frames.append(_pools_of(reading, protocols[reading.protocol], tables, unread))
        if barrier.failure:
            unread = [
                *reading.unread,
                *(
                    Unread(pool.market.address, pool.pool, reading.protocol, UnreadReason.UNDECODABLE, barrier.failure)
                    for pool in reading.pools
                ),
            ]
        tables.unread += unread
    tables.pools = pl.concat([tables.pools, *frames]).sort("market", "pool")
    tables.backstops = tables.backstops.sort("market")
    tables.markets = _markets_of(readings, tables)
    with_row = set(tables.markets["market"])
    for reading in readings:
        _add_facts(reading, tables, with_row)
    unpriced = tables.pools.filter(pl.col("price_reason") != VALID_PRICE)
    tables.unpriced = [Unpriced(*row) for row in unpriced.select("market", "pool", "price_reason").iter_rows()]
    tables.unread.sort(key=lambda item: (item.market, item.pool or ""))
    tables.absent.sort(key=lambda item: item.market)
    tables.notices.sort()
    tables.pending.sort(key=lambda item: (item.market, item.pool or "", item.kind, item.value))
    tables.bounded.sort(key=lambda item: (item.market, item.pool, item.field))
    return tables


def _add_facts(reading: ProtocolReading, tables: Tables, with_row: Set[str]) -> None:
    """Add what a reading has besides numbers. Queued changes count only for the markets that have a row."""
    tables.absent += reading.absent
    tables.notices += reading.notices
    tables.controls += reading.controls
    tables.pending += [item for item in reading.pending if item.market in with_row]
    tables.parameters |= reading.parameters
    tables.frozen |= reading.frozen.keys()
    tables.tokens |= {
        address: token
        for address, token in reading.tokens.items()
        if token.symbol is not None and (token.issuer or address not in tables.tokens)
    }


_GROUPS = ("operations", "amounts", "risk", "rewards")
_COLUMNS_OF_GROUPS = tuple(
    (group, kind.__struct_fields__) for group, kind in zip(_GROUPS, (Operations, Amounts, Risk, Rewards), strict=True)
)
_OWN_COLUMNS = tuple(name for name in PoolNumbers.__struct_fields__ if name not in (*_GROUPS, "spokes"))


def row_of(pool: AnyPool, numbers: PoolNumbers) -> PoolFrameRow:
    """A row of the pools frame that has the numbers of a protocol, and null in every other column."""
    row: dict[str, object] = dict.fromkeys(POOLS_SCHEMA)
    row |= pool.identity()
    row |= {name: getattr(numbers, name) for name in _OWN_COLUMNS}
    for group, names in _COLUMNS_OF_GROUPS:
        terms = getattr(numbers, group)
        row |= {name: getattr(terms, name) for name in names}
    return cast(PoolFrameRow, row)


def _bound(row: PoolFrameRow) -> list[Bounded]:
    """Set each number that is too large for its column to the column's bound. Returns these columns."""
    values = cast(dict[str, int | None], row)  # the columns with a bound are integers
    bounded = []
    for name, bound in BOUNDS.items():
        value = values[name]
        if value is not None:
            values[name] = max(0 if name in OPTIONAL_COLUMNS else -bound, min(value, bound))
            if values[name] == bound:
                bounded.append(Bounded(row["market"], row["pool"], name, str(bound)))
    return bounded


def pending_by_market(pending: Iterable[Pending]) -> Mapping[str, list[Pending]]:
    """The queued changes of each market and its pools, by the market's address."""
    by_market: dict[str, list[Pending]] = {}
    for item in pending:
        by_market.setdefault(item.market, []).append(item)
    return by_market


Spokes = dict[PoolKey, tuple[SpokeTerms, ...]]
"""The terms of each spoke of a pool."""


def _pools_of(reading: ProtocolReading, protocol: Protocol, tables: Tables, unread_pools: list[Unread]) -> pl.DataFrame:
    """One protocol's part of the pools frame. Pools that get no row are added to ``unread_pools``.

    The other parts of ``tables`` get what belongs to these rows at the end, when nothing can fail any more.
    """
    rows, spokes = _projected(reading, protocol, tables.close_time, unread_pools)
    prices = _judged_prices(reading, protocol, tables.close_time)

    def apply_price(row: PoolFrameRow) -> None:
        _apply_price(row, spokes, prices, reading, protocol, tables.close_time)
        _apply_gates(row)

    rows = list(_without_failures(apply_price, rows, reading.protocol, unread_pools))
    set_values(rows)
    usd_prices = {
        key: UsdPrice(price.price, price.decimals)
        for key, price in prices.items()
        if price.price is not None and price.decimals is not None
    }

    def complete(row: PoolFrameRow) -> None:
        set_rewards(row, reading, usd_prices)
        _set_comparable_yields(row)
        _set_facts_of_run(row, protocol, tables)

    rows = list(_without_failures(complete, rows, reading.protocol, unread_pools))
    rows = list(_with_exact_totals(rows, reading.protocol, unread_pools))
    bounded = [each for row in rows for each in _bound(row)]
    backstops = backstop_frame(reading, usd_prices, tables.close_time)
    frame = frame_of_rows(cast(list[dict[str, object]], rows), POOLS_SCHEMA)
    tables.bounded += bounded
    tables.spokes |= {pool: spokes[pool] for pool in map(PoolKey.of, rows) if spokes[pool]}
    tables.backstops = pl.concat([tables.backstops, backstops])
    return frame


def _without_failures(
    step: Callable[[PoolFrameRow], None], rows: Iterable[PoolFrameRow], protocol: str, unread_pools: list[Unread]
) -> Iterator[PoolFrameRow]:
    """Do a step with each row, and yield those with which it does not fail. The other pools are unread."""
    for row in rows:
        with Barrier() as barrier:
            step(row)
        if barrier.failure:
            detail = barrier.failure
            unread_pools.append(Unread(row["market"], row["pool"], protocol, UnreadReason.UNDECODABLE, detail))
        else:
            yield row


def _with_exact_totals(
    rows: Iterable[PoolFrameRow], protocol: str, unread_pools: list[Unread]
) -> Iterator[PoolFrameRow]:
    """The rows whose totals fit into their columns. The other pools are unread."""
    for row in rows:
        too_long = [f"{name} is {row[name]}" for name in _TOTALS if abs(row[name]) > MAX_DECIMAL]
        if too_long:
            detail = f"numbers have at most 38 digits, but {', '.join(too_long)}"
            unread_pools.append(Unread(row["market"], row["pool"], protocol, UnreadReason.OVERFLOW, detail))
        else:
            yield row


def _projected(
    reading: ProtocolReading, protocol: Protocol, close_time: int, unread_pools: list[Unread]
) -> tuple[list[PoolFrameRow], Spokes]:
    """The rows, still without prices, of the pools whose math has a result, and their spokes.

    The other pools are added to ``unread_pools``.
    """

    def unread(market: str, pool: str, reason: UnreadReason, detail: str) -> None:
        unread_pools.append(Unread(market, pool, reading.protocol, reason, detail))

    rows: list[PoolFrameRow] = []
    spokes: Spokes = {}
    for pool in reading.pools:
        token = reading.tokens.get(pool.token_address)
        if token is None or token.symbol is None:
            unread(*pool.key, UnreadReason.UNDECODABLE, (token and token.failure) or "the token gives no symbol")
            continue
        try:
            numbers = protocol.project(pool, close_time)
        except ExactError as error:
            reason = UnreadReason.INCONSISTENT if isinstance(error, ExactDivisionError) else UnreadReason.OVERFLOW
            unread(*pool.key, reason, f"the market's own math has no result: {error}")
        except NEVER_CONTAINED:
            raise
        except Exception as error:
            unread(*pool.key, UnreadReason.UNDECODABLE, error_text(error))
        else:
            row = row_of(pool, numbers)
            row["symbol"] = token.symbol
            row["archived"] = pool.key in reading.archived
            rows.append(row)
            spokes[pool.key] = numbers.spokes
    return rows, spokes


def _judged_prices(reading: ProtocolReading, protocol: Protocol, close_time: int) -> dict[PriceKey, Price]:
    """The prices that the protocol's rule takes from a reading's quotes, by what identifies them."""

    def price_failure(quote: Quote) -> str | None:
        return protocol.prices.failure(quote, close_time)

    return {quote.key: judge(quote, price_failure) for quote in reading.quotes.values()}


def _apply_price(
    row: PoolFrameRow,
    spokes: Spokes,
    prices: Mapping[PriceKey, Price],
    reading: ProtocolReading,
    protocol: Protocol,
    close_time: int,
) -> None:
    """Set a pool's price. Close what its market refuses without a price, and everything if the network froze it."""
    key = PoolKey.of(row)
    not_asked = NO_ORACLE if row["oracle"] is None else NOT_ASKED
    price = prices.get(PriceKey(row["oracle"] or "", row["token_address"]), not_asked)
    price = within_limits(price, reading.price_limits.get(key), close_time)
    set_price(row, price, protocol.prices.without_price)
    spokes[key] = spokes_with_price(spokes[key], price, protocol.prices.without_price)
    frozen_reason = reading.frozen.get(key)
    if frozen_reason is not None:
        close_frozen(row, frozen_reason)
        spokes[key] = tuple(map(frozen_spoke, spokes[key]))


def _apply_gates(row: PoolFrameRow) -> None:
    """Set each amount to 0 if its gate is closed, and to null if it is not known whether the gate is open."""
    for gate, amount in GATES.items():
        value = row[amount]
        if not row[gate]:
            row[amount] = None if row[gate] is None else 0
        elif value is not None:
            row[amount] = max(value, 0)


def _set_comparable_yields(row: PoolFrameRow) -> None:
    """Set the yields by which protocols can be compared: the annual rates compounded daily.

    The rates are those that the contract charges until the next operation, as in the protocols' own yields. The
    suppliers' total adds the yield of their reward.
    """
    scale = 10 ** row["apr_decimals"]
    row["comparable_supply_apy_bps"] = exact.annual_yield_bps(row["stored_supply_apr"], 365, scale)
    row["comparable_borrow_apy_bps"] = exact.annual_yield_bps(row["stored_borrow_apr"], 365, scale)
    row["total_supply_apy_bps"] = row["comparable_supply_apy_bps"] + (row["supply_reward_apr_bps"] or 0)


def _set_facts_of_run(row: PoolFrameRow, protocol: Protocol, tables: Tables) -> None:
    """Set the columns that do not follow from the pool's entries but from the run and the lists."""
    listing = tables.listings.of(protocol.name, row["market"])
    row["listed"] = listing.listed
    row["listed_reason"] = listing.reason.value
    row["observed_ledger"] = tables.ledger
    row["ledger_close_time"] = tables.close_time
    row["supply_compounding"] = protocol.words.coverage.supply_compounding
    row["borrow_compounding"] = protocol.words.coverage.borrow_compounding


_VALUES_OF_MARKETS = ("tvl_usd_cents", "supplied_usd_cents", "borrowed_usd_cents")
"""The columns whose sum over its pools a market has."""

_WEIGHTS_OF_MEANS = {
    "supply": "supplied_usd_cents",
    "total_supply": "supplied_usd_cents",
    "borrow": "borrowed_usd_cents",
    "comparable_supply": "supplied_usd_cents",
    "comparable_borrow": "borrowed_usd_cents",
}
"""The yields whose mean over its pools a market has, with the column that is the weight."""


def _markets_of(readings: Sequence[ProtocolReading], tables: Tables) -> pl.DataFrame:
    """The frame of markets, with sums and means over the pools that have a price.

    A sum of more than 38 digits is null.
    """
    unread = {(item.market, item.pool) for item in tables.unread}
    markets = sorted((market for reading in readings for market in reading.markets), key=lambda item: item.address)
    listings = [tables.listings.of(market.protocol, market.address) for market in markets]
    rows = pl.DataFrame(
        {
            "market": [market.address for market in markets],
            "protocol": [market.protocol for market in markets],
            "version": [market.version for market in markets],
            "name": [market.name for market in markets],
            "status": [market.status for market in markets],
            "oracle": [market.oracle for market in markets],
            "config_hash": [market.config_hash for market in markets],
            "wasm_hash": [market.wasm_hash for market in markets],
            "pool_count": [len(market.members) for market in markets],
            "unread_count": [sum((market.address, pool) in unread for pool in market.members) for market in markets],
            "observed_ledger": [tables.ledger] * len(markets),
            "listed": [listing.listed for listing in listings],
            "listed_reason": [listing.reason.value for listing in listings],
            "listed_source": [listing.source for listing in listings],
        },
        schema_overrides=MARKETS_SCHEMA,
    )
    totals = _totals_of_markets(tables.pools)
    both = rows.join(totals, "market", how="left", maintain_order="left")
    return both.with_columns(pl.col("priced_count").fill_null(0)).select(*MARKETS_SCHEMA)


def _totals_of_markets(pools: pl.DataFrame) -> pl.DataFrame:
    """The sums and means of each market that has a pool with a price."""
    priced = pools.drop_nulls("supplied_usd_cents")
    sums = priced.group_by("market").agg(
        pl.len().cast(pl.Int64).alias("priced_count"),
        *(exact_sum(pl.col(name)).alias(name) for name in _VALUES_OF_MARKETS),
        *(
            exact_sum(pl.col(weight), times=pl.col(f"{rate}_apy_bps")).alias(f"weighted_{rate}")
            for rate, weight in _WEIGHTS_OF_MEANS.items()
        ),
    )
    values = {name: list(map(joined, sums[name])) for name in _VALUES_OF_MARKETS}
    columns: dict[str, list[str] | list[int | None]] = {
        "market": sums["market"].to_list(),
        "priced_count": sums["priced_count"].to_list(),
    }
    for name, totals in values.items():
        columns[name] = [None if total is None or total > MAX_DECIMAL else total for total in totals]
    for rate, weight in _WEIGHTS_OF_MEANS.items():
        products = map(joined, sums[f"weighted_{rate}"])
        columns[f"mean_{rate}_apy_bps"] = [
            product // weights if product is not None and weights else None
            for product, weights in zip(products, values[weight], strict=True)
        ]
    return pl.DataFrame(columns, schema={name: MARKETS_SCHEMA[name] for name in columns})
