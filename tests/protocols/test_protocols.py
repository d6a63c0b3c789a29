"""What every protocol module keeps to, whichever protocols there are."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, cast

import polars as pl
import pytest
from msgspec.structs import replace

from exporter.errors import lasting
from exporter.exact import annual_yield_bps
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import CONTRACT_INSTANCE, STELLAR_ASSET, WASM, ContractInstance
from exporter.ledger.codec.scval_encode import i128, symbol, u32, u64, vec
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import Quote
from exporter.ledger.view import read_at_one_ledger
from exporter.protocols import PROTOCOLS
from exporter.protocols.accrual import Step
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.compute import row_of
from exporter.tables import POOLS_SCHEMA, REQUIRED_COLUMNS
from exporter.tree.documents import Absent, Unread
from tests.protocols.made_ledger import MadeLedger
from tests.protocols.places import DATA, MARKET, RESERVE, SLENDER, SLENDER_DEBT
from tests.protocols.protocol_facts import PriceAge, all_facts, missing_facts
from tests.protocols.room import room_made
from tests.protocols.world import World, contract
from tools.golden_rows import PATH, golden_rows

NOW = World("k2").time

EVERY = pytest.mark.parametrize("name", PROTOCOLS)


def read(name: str, *candidates: Candidate) -> ProtocolReading:
    """The reading of an empty ledger by a protocol."""
    source = MadeLedger()
    return asyncio.run(read_at_one_ledger(source, lambda view: PROTOCOLS[name].read(view, candidates, []))).result


def test_every_protocol_has_its_facts() -> None:
    """What the tests of all protocols compare a protocol with is there for each of them."""
    missing = [
        f"tests/protocols/facts/{name}.py is missing: it says what tests compare {name} with, as the others in its "
        "folder do (docs/adding-a-protocol.md, 5. The tests)"
        for name in missing_facts()
    ]

    assert [] == missing


def test_no_code_of_two_protocols() -> None:
    """Contract code belongs to one protocol, and is named by 32 bytes."""
    hashes = Counter(code for protocol in PROTOCOLS.values() for code in protocol.discovery.market_code)

    assert [] == [code.hex() for code, count in hashes.items() if count > 1 or len(code) != 32]


@EVERY
def test_on_an_empty_ledger_only_demanded_markets_are_unread(name: str) -> None:
    """On an empty ledger, a demanded market is unread and a known one absent; without candidates there is nothing."""
    nothing = read(name)
    assert name == PROTOCOLS[name].name == nothing.protocol
    assert ([], [], [], []) == (nothing.markets, nothing.unread, nothing.absent, nothing.notices)

    known, named = Candidate(name, contract("known")), Candidate(name, contract("named"), Origin.CONFIGURATION)
    reading = read(name, known, named)

    assert [] == reading.markets
    reason = "the ledger has no contract at this address"
    assert [Unread(contract("named"), None, name, "absent", f"{reason}; check [[markets]]")] == reading.unread
    assert [Absent(contract("known"), name, reason)] == reading.absent


@EVERY
def test_room_is_made_before_pools_are_read(name: str) -> None:
    """A reader announces all its pools once, while at least one key a pool is still ahead."""
    world = World(name)
    reading, made = room_made(PROTOCOLS[name], world.source, world.candidates(), world.deployments)

    assert (sum(len(market.members) for market in reading.markets),) == made.pools
    assert made.keys - made.keys_before >= sum(made.pools)


@EVERY
def test_every_pool_is_read_and_priced_without_notice(name: str) -> None:
    """All pools are read and priced, there is no notice, and the math gives no unknown number."""
    tables, reading = World(name).compute(), World(name).read().result
    reading.at_close_time(NOW)

    assert ([], [], [], []) == (tables.unread, tables.unpriced, tables.absent, tables.notices)
    for pool in reading.pools:
        row = cast(dict[str, Any], row_of(pool, PROTOCOLS[name].project(pool, NOW)))
        assert POOLS_SCHEMA.keys() == row.keys()
        assert [] == [
            column for column in REQUIRED_COLUMNS if row[column] is None and column not in ("oracle", "wasm_hash")
        ]


@EVERY
def test_words_for_parameters(name: str) -> None:
    """Words are for parameters that pools have, and each parameter of the rate curve has words."""
    shown = {each.name for parameters in World(name).read().result.parameters.values() for each in parameters}
    protocol = PROTOCOLS[name]
    curve = () if protocol.rate_model is None else protocol.rate_model.parameters

    assert [] == sorted(protocol.words.parameters.keys() - shown)
    assert [] == sorted(set(curve) - protocol.words.parameters.keys())


@EVERY
def test_yields_of_one_state(name: str) -> None:
    """All yields follow from the stored rates: compounded more often they are no less, and a reward adds to them."""
    coverage = PROTOCOLS[name].words.coverage
    for row in World(name).compute().pools.iter_rows(named=True):
        total = row["comparable_supply_apy_bps"] + (row["supply_reward_apr_bps"] or 0)
        assert total == row["total_supply_apy_bps"]
        for side in ("supply", "borrow"):
            compounding = getattr(coverage, f"{side}_compounding")
            daily, own = row[f"comparable_{side}_apy_bps"], row[f"{side}_apy_bps"]
            assert daily == annual_yield_bps(row[f"stored_{side}_apr"], 365, 10 ** row["apr_decimals"])
            if compounding == "simple" or int(compounding) <= 365:
                assert own <= daily
            else:
                assert daily <= own


@pytest.mark.parametrize(
    ("name", "key", "time", "debt"),
    [
        ("blend", DATA, ("last_time",), ("d_supply",)),
        ("slender", SLENDER, (RESERVE, "last_update_timestamp"), (vec(symbol("TokenSupply"), SLENDER_DEBT),)),
    ],
)
def test_only_debt_accrues(name: str, key: bytes, time: tuple[Any, ...], debt: tuple[Any, ...]) -> None:
    """An update of a pool's time is an accrual where there is debt."""
    world, rule = World(name), PROTOCOLS[name].accrual
    assert rule is not None
    old: dict[bytes, Entry] = {}
    step = Step(NOW + 60, lambda asked: old.get(asked) or world.entry(asked), world.entry, world.entry)
    for owed in (7, 0):
        world.put(key, i128(owed), *debt)
        world.put(key, u64(NOW), *time)
        old[key] = world.entry(key)
        world.put(key, u64(NOW + 60), *time)
        assert bool(owed) == bool(list(rule.read(key, step)))


def test_no_golden_row_changes_unnoticed() -> None:
    """Every column, parameter and configuration hash of a small network is what it was: none changes unnoticed."""
    rows = [json.loads(json.dumps(row)) for row in golden_rows()]

    assert json.loads(PATH.read_text()) == rows, "if that is meant: .venv/bin/python -m tools.golden_rows"


@EVERY
def test_order_and_repetition_of_candidates(name: str) -> None:
    """The same markets in another order, or named twice, give the same reading."""
    world = World(name)
    named = [*world.candidates(), *(Candidate(name, contract(label)) for label in "CB")]
    forth, back = (world.read(items).result for items in (named, [*named[::-1], *named]))

    assert (forth.markets, forth.pools, forth.absent) == (back.markets, back.pools, back.absent)


@EVERY
def test_something_else_at_the_address(name: str) -> None:
    """Another contract, and one without code of its own, is unread with what is missing, and costs no market."""
    world, others = World(name), (contract("T"), contract("asset"))
    for other, instance in zip(
        others,
        (ContractInstance(WASM, bytes(32), None, None), ContractInstance(STELLAR_ASSET, None, None, ())),
        strict=True,
    ):
        world.put(instance_key(other), (CONTRACT_INSTANCE, instance))
    tables = world.compute([*world.candidates(), *(Candidate(name, other) for other in others)])

    assert sorted(others) == [item.market for item in tables.unread]
    assert "missing" in next(item.detail for item in tables.unread if item.market == others[0])
    assert World(name).compute().pools.equals(tables.pools)


@pytest.mark.parametrize("name", [name for name, facts in all_facts().items() if facts.keeps_decimals])
def test_decimals_are_the_markets(name: str) -> None:
    """Amounts count in the decimals that the contract computes with; a token that says otherwise is noticed."""
    world, token = World(name), all_facts()[name].token
    world.put(instance_key(token), u32(9), "METADATA", "decimal")
    tables = world.compute()

    assert World(name).compute().pools["decimals"].equals(tables.pools["decimals"])
    said = f"computes with 7 decimals of token {token}, whose contract says 9"
    markets = tables.pools.filter(pl.col("token_address") == token)["market"].unique()
    assert [f"market {market} {said}" for market in sorted(markets)] == [
        notice.split(";")[0] for notice in tables.notices if "computes with" in notice
    ]


@EVERY
@pytest.mark.parametrize("listed", ["01" * 32, None])
def test_code_other_than_listed(name: str, listed: str | None) -> None:
    """Code that differs from a list's is still read, with a notice; without a hash there is nothing to compare."""
    world, code = World(name), bytes(range(32))
    world.code(MARKET[name], code)
    world.deployments = [
        replace(item, contracts=tuple(replace(each, wasm_hash=listed) for each in item.contracts))
        for item in world.deployments
    ]
    tables, reading = world.compute(), world.read().result
    reported = [notice.split(";")[0] for notice in tables.notices if code.hex() in notice]

    if name == "blend" or listed is not None:  # whose code the package knows by itself
        assert [f"market {MARKET[name]} runs contract code {code.hex()}, which is not known for {name}"] == reported
        assert MARKET[name] in reading.unknown_code
    else:
        assert ([], set()) == (reported, reading.unknown_code)
    assert (World(name).compute().pools.height, []) == (tables.pools.height, tables.unread)


REFUSED = [
    (Quote("O", "T", failure="trapped"), "trapped"),
    (Quote("O", "T"), "the oracle gave no price"),
    (Quote("O", "T", 7, 0, NOW), "the price is 0, not above zero"),
    (Quote("O", "T", 7, -5, 0), "the price is -5, not above zero"),
]


@EVERY
def test_a_price_must_be_above_zero_and_of_now(name: str) -> None:
    """A price above zero and of now is good; else what the oracle said is the reason, then the price, then its age."""
    rule = PROTOCOLS[name].prices.failure

    assert rule(Quote("O", "T", 7, 1, NOW, max_age=60), NOW) is None
    assert rule(Quote("O", "T", 7, 1, 0), NOW)
    for quote, reason in REFUSED:
        assert rule(quote, NOW) == reason or name == "xoxno"
        assert rule(quote, NOW)


@pytest.mark.parametrize(
    ("name", "rule"), [(name, facts.price_age) for name, facts in all_facts().items() if facts.price_age is not None]
)
def test_age_of_a_price(name: str, rule: PriceAge) -> None:
    """A price of exactly the longest age is good; one later than the ledger is good if the contract takes it."""

    def refused(age: int) -> str | None:
        return PROTOCOLS[name].prices.failure(Quote("O", "T", 7, 1, NOW - age), NOW)

    assert refused(rule.seconds) is None
    assert f"the price is {lasting(rule.seconds + 1)} old, more than {lasting(rule.seconds)}" == refused(
        rule.seconds + 1
    )
    assert (None if rule.takes_future else "the price is of 1 second after the ledger") == refused(-1)
