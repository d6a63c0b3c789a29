"""Adds up the risk of each listed market at a proven checkpoint, over all its positions (docs/risk.md).

A census passes over the whole state once, and `RiskTally.passing` looks at each entry on the way. Only sums and the
hundred largest numbers of each sum are kept. So the memory that is needed grows with pools and tokens, but not with
positions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import Final

from msgspec import Struct, field

from exporter import exact
from exporter.config import Settings
from exporter.deployments.identified_tokens import identities
from exporter.deployments.networks import network_of
from exporter.errors import DecodeError, ExactError
from exporter.job.scope_reading import determine_scope, read_protocols, view_limits
from exporter.job.sources import OpenSource
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import key_of_entry
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.snapshot_file import SnapshotSource
from exporter.ledger.source import RawEntry
from exporter.ledger.view import LedgerView
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Market, ProtocolReading
from exporter.protocols.compute import Tables, compute
from exporter.protocols.numbers import PoolFrameRow
from exporter.protocols.positions import Health, PoolTerms, Position, PositionRules
from exporter.tables import rows_as
from exporter.tree.documents import timestamp
from exporter.tree.risk_documents import (
    FALLS_BPS,
    MIN_HOLDERS,
    MIN_PART_BPS,
    RiskCollateral,
    RiskDocument,
    RiskFall,
    RiskLargest,
    RiskLeftOut,
    RiskNow,
    RiskOfMarket,
    RiskOfPool,
)

MAX_AUCTIONS: Final = 100_000
"""Largest number of auctions of a market at the same time. A market with more is left out."""

_CONTRACT_BYTES: Final = slice(12, 44)
"""The bytes of a contract's id in the LedgerEntryData XDR of contract data."""

_KEY_START: Final = 44
"""The byte at which the key begins in the LedgerEntryData XDR of contract data."""

Fall = tuple[int | None, int]
"""A fall of prices: the position of the pool whose token falls, and by how many basis points.

None as position stands for all tokens that are not stable."""


class Largest:
    """A sum of numbers, their count, and the hundred largest of them."""

    def __init__(self) -> None:
        self.total = self.count = 0
        self._heap: list[int] = []

    def add(self, number: int) -> None:
        self.total += number
        self.count += 1
        if len(self._heap) < 100:
            heappush(self._heap, number)
        else:
            heappushpop(self._heap, number)

    def parts(self) -> RiskLargest | None:
        """The parts of the sum, in basis points, that the largest 1, 10 and 100 numbers have.

        None if there are so few numbers that a part would disclose somebody's own.
        """
        if self.count < MIN_HOLDERS or self.total == 0:
            return None
        ranked = sorted(self._heap, reverse=True)
        return RiskLargest(*(sum(ranked[:most]) * 10_000 // self.total for most in (1, 10, 100)))


class PoolFacts(Struct, frozen=True):
    """The facts of a pool by which positions are judged.

    Attributes:
        terms: its terms at the close time.
        price: the price of its token in the oracle's smallest unit; None if the market has no valid price.
        stable: whether its token is a stablecoin.
    """

    pool: str
    token: str
    symbol: str
    decimals: int
    terms: PoolTerms
    price: int | None
    stable: bool


class PoolTally(Struct):
    """Sums over the positions in one pool.

    Attributes:
        supply: the shares of suppliers.
        debt: the shares of borrowers.
        secured: debt in the oracle's smallest unit, by the position of the pool whose shares secure it.
        not_secured: debt in the oracle's smallest unit that no collateral secures.
    """

    supply: Largest = field(default_factory=Largest)
    debt: Largest = field(default_factory=Largest)
    secured: dict[int, int] = field(default_factory=dict)
    not_secured: int = 0


class DebtSum(Struct):
    """Sums of debt in the oracle's smallest unit.

    Attributes:
        liquidatable: the debt of positions that can be liquidated.
        uncovered: the debt that exceeds what its collateral is worth.
    """

    liquidatable: int = 0
    uncovered: int = 0


class MarketTally:
    """Sums over the positions in one market. Nothing else of a position is kept."""

    def __init__(
        self,
        market: Market,
        pools: Sequence[PoolFacts],
        price_decimals: int,
        backstop: int | None,
        rules: PositionRules,
    ) -> None:
        """Begin without positions. ``backstop`` is the worth of the backstop in US cents; None if it is not known."""
        self.market, self.pools, self.price_decimals, self.backstop = market, pools, price_decimals, backstop
        self.rules = rules
        self.terms = [pool.terms for pool in pools]
        self.prices = [pool.price for pool in pools]
        self.fallen = {fall: self._prices_after(fall) for fall in self._falls()}
        self.tallies = [PoolTally() for _ in pools]
        self.suppliers = self.borrowers = self.not_judged = 0
        self.debt = Largest()
        self.now, self.more = DebtSum(), {fall: DebtSum() for fall in self.fallen}
        self.without_collateral = self.in_auction = 0
        self.auctions: list[bytes] = []  # the LedgerKeys of auctions
        self.failure: str | None = None

    def _falls(self) -> Iterator[Fall]:
        """All falls of prices: of all tokens that are not stable together, and of each token that has a price."""
        falling = [None, *(index for index, pool in enumerate(self.pools) if pool.price is not None)]
        return ((index, fall_bps) for index in falling for fall_bps in FALLS_BPS)

    def _prices_after(self, fall: Fall) -> list[int | None]:
        """The prices after a fall. They are rounded up, because the contract refuses a price of zero."""
        falling, fall_bps = fall
        prices: list[int | None] = []
        for index, pool in enumerate(self.pools):
            falls = index == falling or (falling is None and not pool.stable)
            if pool.price is not None and falls:
                prices.append(exact.ceil_divide(pool.price * (10_000 - fall_bps), 10_000))
            else:
                prices.append(pool.price)
        return prices

    def take(self, data: bytes) -> None:
        """Add an entry of the market's contract, in LedgerEntryData XDR, if it is a position or an auction."""
        if self.failure is not None:
            return
        try:
            if data.startswith(self.rules.position_prefix, _KEY_START):
                self.add(self.rules.decode(data))
            elif data.startswith(self.rules.auction_prefix, _KEY_START):
                self.auctions.append(key_of_entry(bytes(4) + data))
                if len(self.auctions) > MAX_AUCTIONS:
                    self.failure = f"it has more than {MAX_AUCTIONS} auctions"
        except DecodeError as error:
            self.failure = f"a position or an auction has an unknown form: {error}"

    def add(self, position: Position) -> None:
        """Add one position to all sums."""
        held = {*position.supply, *position.collateral}
        for index in held:
            if index < len(self.pools):
                shares = position.supply.get(index, 0) + position.collateral.get(index, 0)
                self.tallies[index].supply.add(shares)
        for index, shares in position.debt.items():
            if index < len(self.pools):
                self.tallies[index].debt.add(shares)
        self.suppliers += bool(held)
        if not position.debt:
            return
        self.borrowers += 1
        health = self.health(position, self.prices)
        if health is None:
            self.not_judged += 1
            return
        self.debt.add(health.debt)
        if health.collateral == 0:
            self.without_collateral += health.debt
        self._secure(health)
        before = self._judge(health)
        self.now.liquidatable += before.liquidatable
        self.now.uncovered += before.uncovered
        touched = {*position.debt, *position.collateral}
        for fall, prices in self.fallen.items():
            if any(index < len(prices) and prices[index] != self.prices[index] for index in touched):
                after = self.health(position, prices)
                judged = DebtSum() if after is None else self._judge(after)
                self.more[fall].liquidatable += judged.liquidatable - before.liquidatable
                self.more[fall].uncovered += judged.uncovered - before.uncovered

    def health(self, position: Position, prices: Sequence[int | None]) -> Health | None:
        """What a position's collateral and debt count for at these prices; None if the contract cannot judge it."""
        try:
            return self.rules.health(position, self.terms, prices)
        except ExactError:
            return None

    def _judge(self, health: Health) -> DebtSum:
        is_liquidatable = self.rules.is_liquidatable(health, self.market.version)
        return DebtSum(health.debt if is_liquidatable else 0, max(health.debt - health.collateral, 0))

    def _secure(self, health: Health) -> None:
        """Divide each debt among the collateral in proportion to what it counts for.

        What is left by rounding goes to the largest collateral.
        """
        counted = health.collateral_by_pool
        total = sum(counted.values())
        for index, debt in health.debt_by_pool.items():
            tally = self.tallies[index]
            if total == 0:
                tally.not_secured += debt
                continue
            remainder = debt
            for collateral, amount in counted.items():
                part = debt * amount // total
                tally.secured[collateral] = tally.secured.get(collateral, 0) + part
                remainder -= part
            largest = max(counted, key=lambda collateral: (counted[collateral], -collateral))
            tally.secured[largest] += remainder

    def add_auctions(self, live: Mapping[bytes, RawEntry], ledger: int) -> None:
        """Add up the debt of positions in an auction, which are looked up in the whole state.

        An auction whose entry has expired does not count.
        """
        positions: dict[bytes, None] = {}
        for key in self.auctions:
            entry = live.get(key)
            if entry is not None and (entry.live_until is None or entry.live_until >= ledger):
                position = self.rules.auctioned(entry.data)
                if position is not None:
                    positions[position] = None
        for key in positions:
            entry = live.get(key)
            health = None if entry is None else self.health(self.rules.decode(entry.data), self.prices)
            self.in_auction += 0 if health is None else health.debt

    def figures(self) -> RiskOfMarket:
        """The figures of the market as they are published."""
        judged = self.debt.count >= MIN_HOLDERS
        return RiskOfMarket(
            market=self.market.address,
            protocol=self.market.protocol,
            name=self.market.name,
            supplier_count=self.suppliers,
            borrower_count=self.borrowers,
            not_judged_count=self.not_judged,
            largest_borrowers=self.debt.parts(),
            now=RiskNow(
                debt_usd_cents=self._cents(self.debt.total),
                liquidatable_usd_cents=self._cents(self.now.liquidatable),
                uncovered_usd_cents=self._cents(self.now.uncovered),
                without_collateral_usd_cents=self._cents(self.without_collateral),
                in_auction_usd_cents=self._cents(self.in_auction),
            )
            if judged
            else None,
            falls=[self._fall(fall) for fall in self.fallen] if judged else [],
            backstop_usd_cents=None if self.backstop is None else str(self.backstop),
            pools=[self._pool(*item) for item in zip(self.pools, self.tallies, strict=True)],
        )

    def _fall(self, fall: Fall) -> RiskFall:
        falling, fall_bps = fall
        return RiskFall(
            token_address=None if falling is None else self.pools[falling].token,
            symbol=None if falling is None else self.pools[falling].symbol,
            fall_bps=fall_bps,
            liquidatable_usd_cents=self._cents(self.now.liquidatable + self.more[fall].liquidatable),
            uncovered_usd_cents=self._cents(self.now.uncovered + self.more[fall].uncovered),
        )

    def _pool(self, pool: PoolFacts, tally: PoolTally) -> RiskOfPool:
        enough = tally.debt.count >= MIN_HOLDERS
        debt = sum(tally.secured.values()) + tally.not_secured
        ranked = sorted(tally.secured.items(), key=lambda item: (-item[1], item[0])) if enough else []
        shown = [(index, part) for index, part in ranked if part * 10_000 >= debt * MIN_PART_BPS]
        others = sum(part for _, part in ranked) - sum(part for _, part in shown)
        return RiskOfPool(
            pool=pool.pool,
            token_address=pool.token,
            symbol=pool.symbol,
            decimals=pool.decimals,
            stable=pool.stable,
            supplier_count=tally.supply.count,
            borrower_count=tally.debt.count,
            largest_suppliers=tally.supply.parts(),
            largest_borrowers=tally.debt.parts(),
            secured_by=[
                RiskCollateral(self.pools[index].token, self.pools[index].symbol, self._cents(part))
                for index, part in shown
            ],
            secured_by_others_usd_cents=self._cents(others) if enough else None,
            not_secured_usd_cents=self._cents(tally.not_secured) if enough else None,
            supply_shares=str(pool.terms.supply_shares),
            supply_shares_unexplained=str(pool.terms.supply_shares - tally.supply.total),
            debt_shares=str(pool.terms.debt_shares),
            debt_shares_unexplained=str(pool.terms.debt_shares - tally.debt.total),
        )

    def _cents(self, worth: int) -> str:
        """A worth in the oracle's smallest unit in US cents, rounded down."""
        return str(worth * 100 // 10**self.price_decimals)


class RiskTally:
    """Adds up the risk of every listed market at a checkpoint, and knows why a market has no figures."""

    def __init__(
        self,
        settings: Settings,
        index: StateIndex,
        source: SnapshotSource,
        instances: Sequence[tuple[str, ContractInstance]],
        proven: Proven,
    ) -> None:
        """Read the listed markets at the checkpoint. Raises `SourceError` if that fails."""
        self._settings, self._index, self._proven = settings, index, proven
        self._left_out: list[RiskLeftOut] = []
        network = network_of(settings.passphrase)
        opened = OpenSource(source, network, instances, source.label, stored=True)
        listings = determine_scope(settings, opened).listings
        readings, self._close_time = asyncio.run(self._read(opened))
        tables = compute(readings, PROTOCOLS, proven.ledger, self._close_time, listings)
        stable = {address for address, identity in identities(network.name).items() if identity.stable}
        self.markets: dict[bytes, MarketTally] = {}
        for reading in readings:
            for market in reading.markets:
                if listings.is_listed(market.protocol, market.address):
                    tally = _tally(reading, market, tables, self._close_time, stable)
                    if isinstance(tally, str):
                        self._left_out.append(RiskLeftOut(market.address, market.protocol, tally))
                    else:
                        self.markets[strkey.decode_contract(market.address)] = tally

    async def _read(self, opened: OpenSource) -> tuple[list[ProtocolReading], int]:
        view = LedgerView(opened.source, view_limits(self._settings))
        readings = await read_protocols(view, self._settings, opened, listed_alone=True)
        return readings, await opened.source.close_time(self._proven.ledger)

    def passing(self, entries: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
        """Look at every entry of contract data, in LedgerEntryData XDR, and pass it on."""
        markets = self.markets
        for _, data in entries:
            tally = markets.get(data[_CONTRACT_BYTES])
            if tally is not None:
                tally.take(data)
            yield data

    def document(self) -> RiskDocument:
        """The risk document, once every entry has passed."""
        figures, left_out = list[RiskOfMarket](), list(self._left_out)
        for tally in self.markets.values():
            if tally.failure is None:
                try:
                    tally.add_auctions(self._index, self._proven.ledger)
                except DecodeError as error:
                    tally.failure = f"an auction has an unknown form: {error}"
            if tally.failure is None:
                figures.append(tally.figures())
            else:
                left_out.append(RiskLeftOut(tally.market.address, tally.market.protocol, tally.failure))
        return RiskDocument(
            network=self._settings.passphrase,
            checkpoint=self._proven.ledger,
            checkpoint_close_time=timestamp(self._close_time),
            header=self._proven.hash.hex(),
            data=sorted(figures, key=lambda item: item.market),
            left_out=sorted(left_out, key=lambda item: item.market),
        )


def _tally(
    reading: ProtocolReading, market: Market, tables: Tables, close_time: int, stable: set[str]
) -> MarketTally | str:
    """Empty sums for a market, or the text that says why it has no figures."""
    protocol = PROTOCOLS[market.protocol]
    if protocol.positions is None:
        return protocol.no_positions
    pools_of_market = tables.pools.filter(market=market.address)
    rows = {row["pool"]: row for row in rows_as(PoolFrameRow, pools_of_market)}
    states = {pool.pool: pool for pool in reading.pools if pool.market.address == market.address}
    unread = [pool for pool in market.members if pool not in rows or pool not in states]
    if unread:
        return f"its pool {unread[0]} could not be read, and positions name pools by their place in the list"
    pools, decimals = list[PoolFacts](), set[int]()
    for name in market.members:
        row = rows[name]
        try:
            terms = protocol.positions.terms(states[name], close_time)
        except ExactError as error:
            return f"the math of its pool {name} has no result: {error}"
        if row["oracle_decimals"] is not None:
            decimals.add(row["oracle_decimals"])
        facts = name, row["token_address"], row["symbol"], row["decimals"], terms, row["oracle_price"]
        pools.append(PoolFacts(*facts, row["token_address"] in stable))
    if len(decimals) > 1:
        return "its prices have different decimals"
    backstops = tables.backstops.filter(market=market.address)["value_usd_cents"].to_list()
    backstop = backstops[0] if backstops else None
    return MarketTally(market, pools, next(iter(decimals), 0), backstop, protocol.positions)
