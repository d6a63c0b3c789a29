"""The recipe of docs/adding-a-protocol.md, followed: a made-up protocol, from ledger entries to the pools frame.

Two thirds of this file are what the protocol's module would be, in full; the rest is what its test file would be.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from exporter.deployments import MARKET, Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, addresses, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import Quote
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.numbers import exact
from exporter.numbers.compute import Tables, compute
from exporter.protocols.base import Candidate, Coverage, Market, Origin, ProtocolModule, ProtocolReading
from exporter.protocols.collector import Collector
from exporter.protocols.shared_columns import Given, shared_columns, utilization_bps
from exporter.tables import PROTOCOL_COLUMNS
from tests.protocols.blend_chain import NOW, BlendLedger, BlendSource, contract, entry, instance, token_instance

# ----------------------------------------------------------------------------- the module: exporter/protocols/pawn

NAME = "pawn"
CODE = hashlib.sha256(b"the code of a pawnshop").digest()
COLUMNS = ("market", "pool", "token_address", "oracle", "name", "wasm_hash", "decimals", "rate", "lent", "held", "time")


def pool_key(market: str, token: str) -> bytes:
    """The ledger key of a pool's state."""
    return variant_key(market, "Pool", address(token))


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(NAME, candidates, COLUMNS)
        self.markets: dict[str, tuple[Market, tuple[str, ...]]] = {}

    def take_market(self, market: str, entries: Mapping[bytes, Entry | None]) -> None:
        shop, tokens = entries[instance_key(market)], entries[data_key(market, symbol("Tokens"))]
        if not self.market_is_usable(market, shop, tokens, "list of tokens") or shop is None or tokens is None:
            return
        try:
            code = instance_of(shop.contract_data())
            storage = Fields(code.storage, "market instance")
            members = addresses(tokens.value, "Tokens", 100)
            name, oracle = self.shown_name(market, storage.string("Name")), storage.address("Oracle")
        except DecodeError as error:
            self.unread(market, None, "undecodable", str(error))
            return
        wasm_hash = (code.wasm_hash or b"").hex()
        if code.wasm_hash != CODE:
            self.unknown_code(market, wasm_hash, "v1")
        digest = hashlib.sha256(shop.raw.data).hexdigest()[:16]
        found = Market(market, NAME, "v1", name, "active", oracle, digest, wasm_hash, members)
        self.reading.markets.append(found)
        self.markets[market] = found, members

    def take_pool(self, market: Market, token: str, state: Entry | None) -> None:
        if state is None or state.archived:
            self.unread(market.address, token, "archived" if state else "absent", "the pool's entry")
            return
        try:
            pool = Fields.of(state.value, "Pool")
            row = {"rate": pool.u32("rate"), "lent": pool.i128("lent"), "held": pool.i128("held")}
            row |= {"decimals": pool.u32("decimals"), "time": pool.u64("time")}
        except DecodeError as error:
            self.unread(market.address, token, "undecodable", str(error))
            return
        self.append(
            {"market": market.address, "pool": token, "token_address": token, "oracle": market.oracle,
             "name": market.name, "wasm_hash": market.wasm_hash, **row}
        )  # fmt: skip


class Pawn:
    """Shops that lend what they hold at a fixed rate a year, in basis points; nothing compounds."""

    name = NAME
    coverage = Coverage(
        "Pawn",
        "a market is a shop, a pool a token",
        31_536_000,
        "none",
        "the rate itself",
        "simple",
        "simple",
        "stored",
        "stored",
        "SEP-40",
    )

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        return {CODE: "v1"}

    def event_filters(self, deployments: Sequence[Deployment]) -> Sequence[EventFilter]:
        guilds = tuple(address for item in deployments for address in item.addresses("guild"))
        return [EventFilter(guilds, ("opened",))] if guilds else []

    def candidates_in(self, event: ContractEvent) -> Sequence[Candidate]:
        return [Candidate(NAME, expect(event.value, scval.ADDRESS, "opened"), Origin.EVENT)]

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        reader = _Reader(candidates)
        markets = sorted({candidate.address for candidate in candidates})
        wanted = [key for market in markets for key in (instance_key(market), data_key(market, symbol("Tokens")))]
        entries = await view.read(wanted)
        for market in markets:
            reader.take_market(market, entries)
        pools = [(shop, token) for shop, tokens in reader.markets.values() for token in tokens]
        keys = [pool_key(shop.address, token) for shop, token in pools]
        await view.read([*keys, *(instance_key(token) for _, token in pools)])
        states, reader.reading.tokens = await view.read(keys), await read_tokens(view, [token for _, token in pools])
        for (shop, token), key in zip(pools, keys, strict=True):
            reader.take_pool(shop, token, states[key])
        await reader.read_quotes(view)
        return reader.reading

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
        numbers = dict.fromkeys(("decimals", "rate", "lent", "held", "time"), pl.Int128())
        raw = exact.frame(columns, {**dict.fromkeys(COLUMNS, pl.String()), **numbers})
        supplied = exact.add(raw["lent"], raw["held"])
        given: dict[str, Given] = {
            "market_name": "name", "market_status": pl.lit("active"), "borrow_apy_bps": "rate",
            "utilization_bps": pl.lit(utilization_bps(raw["lent"], supplied)), "total_supplied": pl.lit(supplied),
            "total_borrowed": "lent", "last_accrual_time": "time",
        }  # fmt: skip
        nothing = {
            name: 0 for name in PROTOCOL_COLUMNS if name not in {*COLUMNS, *given, "decimals", "protocol", "version"}
        }
        return shared_columns(raw, NAME, "v1", **nothing, **given)

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        return None if quote.price else quote.failure or "no price"


# --------------------------------------------------------------------- its tests: tests/protocols/test_pawn_reader.py

SHOP, USDC, XLM = contract("shop"), contract("USDC"), contract("XLM")


def pool_state(**changes: ScVal | None) -> ScVal:
    """A pool that lent 300 of 1000 at 5 percent."""
    fields: dict[str, ScVal | None] = {
        "decimals": u32(7), "held": i128(700), "lent": i128(300), "rate": u32(500), "time": u64(NOW - 5),
    }  # fmt: skip
    return struct_map({name: value for name, value in (fields | changes).items() if value is not None})


def ledger_of(state: ScVal | None = None, code: bytes = CODE) -> BlendLedger:
    """A shop with two pools, one of which has the given state."""
    ledger = BlendLedger()
    storage = [(symbol("Name"), string("Corner")), (symbol("Oracle"), address(contract("oracle")))]
    ledger.replace(instance(SHOP, storage, code), entry(SHOP, symbol("Tokens"), vec(address(USDC), address(XLM))))
    for label, token, value in (("USDC", USDC, pool_state()), ("XLM", XLM, state or pool_state())):
        ledger.replace(entry(SHOP, vec(symbol("Pool"), address(token)), value), token_instance(label, label.encode()))
        ledger.set_price("oracle", label, 2 * 10**7)
    ledger.set_decimals("oracle", u32(7))
    return ledger


def tables_of(ledger: BlendLedger) -> Tables:
    """Read the shop through the one-ledger view, and compute the frames."""
    module: ProtocolModule = Pawn()
    candidates = [Candidate(NAME, SHOP)]
    source = BlendSource(ledger.chain(), ledger.results)
    reading = asyncio.run(read_at_one_ledger(source, lambda view: module.read(view, candidates, ())))
    assert 1 == reading.certificate.rounds
    return compute([reading.result], {NAME: module}, reading.certificate.ledger, NOW)


def test_pools_frame() -> None:
    """Entries of the ledger end as rows of the pools frame, with the protocol's own numbers and a price."""
    pools = tables_of(ledger_of()).pools.sort("symbol")

    expected = ("USDC", NAME, 1000, 300, 3000, 500, "2.0000000", "valid")
    columns = ("symbol", "protocol", "total_supplied", "total_borrowed", "utilization_bps", "borrow_apy_bps")
    assert expected == pools.select(*columns, "oracle_price_usd", "price_reason").row(0)
    assert [USDC, XLM] == pools["pool"].to_list()


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        (pool_state(rate=None), "Pool: field rate is missing"),
        (pool_state(lent=u32(1)), "Pool: field lent: expected i128, found u32"),
    ],
)
def test_upgrade_that_changes_a_field(state: ScVal, detail: str) -> None:
    """A pool whose entry has lost a field, or has it in another type, is unread with the field; the other is read."""
    tables = tables_of(ledger_of(state))

    assert [(XLM, detail)] == [(item.pool, item.detail) for item in tables.unread]
    assert [USDC] == tables.pools["pool"].to_list()


def test_upgrade_that_keeps_the_form() -> None:
    """Unknown code with a further field is read and flagged."""
    tables = tables_of(ledger_of(pool_state(extra=u32(1)), code=bytes(32)))

    assert 2 == tables.pools.height
    assert [f"market {SHOP} runs contract code {'00' * 32}, which is not known for pawn"] == [
        notice.split(";")[0] for notice in tables.notices
    ]


def test_events() -> None:
    """An event of a known contract names a market."""
    event = ContractEvent(contract("guild"), 7, (symbol("opened"),), address(SHOP))

    assert [Candidate(NAME, SHOP, Origin.EVENT)] == Pawn().candidates_in(event)
    assert MARKET == "market"


def test_recipe_names_everything(project_root: Path) -> None:
    """The recipe speaks of every member of the interface, and of this file."""
    recipe = (project_root / "docs" / "adding-a-protocol.md").read_text()
    members = [name for name in vars(ProtocolModule) if not name.startswith("_")] + list(ProtocolModule.__annotations__)

    assert [] == [name for name in members if f"`{name}" not in recipe]
    assert "tests/protocols/test_recipe.py" in recipe
    assert re.search(r"unknown_code", recipe)
