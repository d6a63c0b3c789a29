"""A made-up protocol, as docs/adding-a-protocol.md has it: shops that lend what they hold at a fixed, simple rate.

Everything that the exporter needs of a protocol is in this file, and nothing of it is in the exporter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exporter import exact
from exporter.deployments import Deployment
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, contracts, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, symbol
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.observation import Entry
from exporter.ledger.source import ContractCall
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, ComputedPool, Market, Origin, PoolReading, ProtocolReading
from exporter.protocols.collector import Collector, config_hash_of, parameters_of, required
from exporter.protocols.numbers import Amounts, Operations, PoolNumbers
from exporter.protocols.protocol import (
    Coverage,
    Discovery,
    GetterCall,
    Getters,
    MarketEvents,
    NoGetter,
    Pairs,
    PriceRule,
    Protocol,
    Words,
    not_older_than,
)

NAME = "pawn"
WASM_HASH = hashlib.sha256(b"the code of a pawnshop").digest()
YEAR = 31_536_000


@dataclass(frozen=True, slots=True)
class Loans:
    """The state of a pool, in base units."""

    rate: int
    """What borrowers pay a year, in basis points."""
    lent: int
    held: int
    time: int
    """Unix seconds of the last change."""


def pool_key(market: str, token: str) -> bytes:
    """The ledger key of a pool's state."""
    return variant_key(market, "Pool", address(token))


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(NAME, candidates)

    def take_market(self, market: str, entries: Mapping[bytes, Entry | None]) -> None:
        shop, tokens = entries[instance_key(market)], entries[data_key(market, symbol("Tokens"))]
        if not self.market_is_there(market, shop):
            return
        with self.record_unread(market):
            code = instance_of(required(shop, "the shop").contract_data())
            storage = Fields(code.storage, "market instance")
            members = contracts(required(tokens, "the list of tokens").value, "Tokens", 64)
            name, oracle = self.shown_name(market, storage.string("Name")), storage.address("Oracle")
            wasm_hash = (code.wasm_hash or b"").hex()
            if code.wasm_hash != WASM_HASH:
                self.unknown_code(market, wasm_hash, "v1")
            digest = config_hash_of(code.storage or ())
            self.reading.markets.append(Market(market, NAME, "v1", name, "active", oracle, digest, wasm_hash, members))

    def take_pool(self, market: Market, token: str, state: Entry | None) -> None:
        with self.record_unread(market.address, token):
            pool = Fields.of(required(state, "the pool's entry").value, "Pool")
            loans = Loans(pool.u32("rate"), pool.i128("lent"), pool.i128("held"), pool.u64("time"))
            read = PoolReading(market, token, token, pool.u32("decimals"), market.oracle, loans)
            self.compare_decimals(market.address, read.decimals, self.reading.tokens.get(token))
            self.append_pool(read, [pool_key(market.address, token)])
            self.reading.parameters[read.key] = tuple(parameters_of(pool, {"rate": 4}))


def calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """One call of ``pool(token)``, which gives the stored state, for each pool that was read."""
    for pool in reading.pools:
        call = ContractCall(pool.market.address, "pool", (address(pool.pool),))
        yield GetterCall(pool.market.address, pool.pool, call)


def compared(asked: GetterCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:
    """What is stored, next to what was read."""
    answer = Fields.of(value, "pool()")
    loans: Loans = computed.pool.state
    return {
        "borrow_apy_bps": (computed.row["borrow_apy_bps"], answer.u32("rate")),
        "lent": (loans.lent, answer.i128("lent")),
    }


def event_filters(deployments: Sequence[Deployment]) -> Sequence[EventFilter]:
    """Guilds say which shops opened."""
    guilds = tuple(address for item in deployments for address in item.addresses("guild"))
    return [EventFilter(guilds, ("opened",))] if guilds else []


def candidates_in(event: ContractEvent) -> Sequence[Candidate]:
    """The shop that opened."""
    return [Candidate(NAME, expect(event.value, scval.ADDRESS, "opened"), Origin.EVENT)]


async def read_shops(
    view: LedgerView,
    candidates: Sequence[Candidate],
    deployments: Sequence[Deployment],
) -> ProtocolReading:
    """Two waves of entries, and the prices."""
    reader = _Reader(candidates)
    markets = sorted({candidate.address for candidate in candidates})
    wanted = [key for market in markets for key in (instance_key(market), data_key(market, symbol("Tokens")))]
    entries = await view.read(wanted)
    for market in markets:
        reader.take_market(market, entries)
    pools = [(shop, token) for shop in reader.reading.markets for token in shop.members]
    keys = [pool_key(shop.address, token) for shop, token in pools]
    await view.make_room(len(pools))
    # The tokens' entries come in the same wave, and `read_tokens` finds them there.
    states = await view.read([*keys, *(instance_key(token) for _, token in pools)])
    reader.reading.tokens = await read_tokens(view, [token for _, token in pools])
    for (shop, token), key in zip(pools, keys, strict=True):
        reader.take_pool(shop, token, states[key])
    await reader.read_quotes(view)
    return reader.reading


def project(pool: PoolReading[Loans], close_time: int) -> PoolNumbers:
    """What is lent grows by simple interest from its time to the close time of its ledger."""
    loans = pool.state
    interest = loans.lent * loans.rate * (close_time - loans.time) // (10_000 * YEAR)
    borrowed = exact.add(loans.lent, interest)
    supplied = exact.add(borrowed, loans.held)
    used = exact.utilization_bps(borrowed, supplied)
    return PoolNumbers(
        total_supplied=supplied,
        total_borrowed=borrowed,
        total_collateral=0,
        utilization_bps=used,
        last_accrual_time=loans.time,
        supply_apy_bps=0,
        borrow_apy_bps=loans.rate,
        stored_supply_apr=0,
        stored_borrow_apr=loans.rate,
        accrued_supply_apr=0,
        accrued_borrow_apr=loans.rate,
        apr_decimals=4,
        stored_utilization=used,
        accrued_utilization=used,
        utilization_decimals=4,
        supply_index=1,
        borrow_index=1,
        index_decimals=0,
        rate_modifier=1,
        rate_modifier_decimals=0,
        backstop_credit=0,
        operations=Operations(can_borrow=pool.market.status == "active"),
        amounts=Amounts(available_to_borrow=loans.held),
    )


COVERAGE = Coverage(
    title="Pawn",
    structure="a market is a shop, its pools are its tokens",
    year_seconds=YEAR,
    supply_yield="none is paid",
    borrow_yield="the rate itself",
    supply_compounding="simple",
    borrow_compounding="simple",
    rates="as stored",
    totals="brought to the ledger's close time",
    prices="the shop's SEP-40 oracle; refused if not above zero, later than the ledger, or older than a day",
)

PAWN = Protocol(
    name=NAME,
    words=Words(coverage=COVERAGE, market_statuses={"active": "a shop is always open"}),
    read=read_shops,
    project=project,
    prices=PriceRule(failure=not_older_than(86_400)),
    discovery=Discovery(
        market_code={WASM_HASH: "v1"},
        events=MarketEvents(filters=event_filters, candidates=candidates_in),
    ),
    getters=Getters(calls=calls, fields=compared),
)
"""Shops that lend what they hold at a fixed rate a year, in basis points; nothing compounds."""
