"""Tests which Blend pools are genuine: factories' records, backstops, reward zones, and who vouches for an address."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.deployments import BACKSTOP, FACTORY, MARKET, Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import BOOL, BYTES, VEC, ScVal
from exporter.ledger.codec.scval_encode import VOID, address, symbol, u32, vec
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Origin, ProtocolReading, with_contract
from exporter.protocols.blend import records
from exporter.protocols.blend.layout import reward_zone_key
from exporter.protocols.blend.records import record_key
from tests.localnet.recorded import BLEND_V1, BLEND_V2
from tests.protocols.world import Source, World, account, contract

V1, V2 = World("blend").deployments
FACTORY_1, FACTORY_2 = (item.address(FACTORY) or "" for item in (V1, V2))
BACKSTOP_1, BACKSTOP_2 = (item.address(BACKSTOP) or "" for item in (V1, V2))
RECORD = record_key(FACTORY_1, BLEND_V1)


def without(deployment: Deployment, *roles: str) -> Deployment:
    """A deployment whose list lacks the contracts of some roles."""
    return replace(deployment, contracts=tuple(item for item in deployment.contracts if item.role not in roles))


def strangers(*changes: tuple[Any, ...]) -> World:
    """No list has the markets, and no zone has v1's; then what is under some keys is changed."""
    world = World("blend")
    world.deployments = [without(item, MARKET) for item in world.deployments]
    world.put(reward_zone_key(BACKSTOP_1), vec())
    world.put(reward_zone_key(BACKSTOP_2), vec())
    for key, value, *path in changes:
        world.put(key, value, *path)
    return world


def read(world: World, origin: Origin, voucher: str | None = None) -> ProtocolReading:
    """The reading if somebody names v1's market."""
    return world.read([Candidate("blend", BLEND_V1, origin, voucher=voucher)]).result


def markets(reading: ProtocolReading) -> list[str]:
    """The addresses of the markets that were read."""
    return [market.address for market in reading.markets]


class TestVerifying:
    """An address is taken for a pool because a factory has a record of it, or because somebody answers for it."""

    @pytest.mark.parametrize("origin", list(Origin))
    @pytest.mark.parametrize("factory", [FACTORY_1, FACTORY_2])
    def test_a_known_factorys_record_makes_any_named_market_one(self, origin: Origin, factory: str) -> None:
        """Whoever named a market, the record of any known factory makes it one, without a notice."""
        reading = read(strangers((RECORD, None), (record_key(factory, BLEND_V1), (BOOL, True))), origin)

        assert ([BLEND_V1], {BLEND_V1: factory}, []) == (markets(reading), reading.verified, reading.notices)

    @pytest.mark.parametrize("origin", list(Origin))
    @pytest.mark.parametrize("record", [None, (BOOL, False), u32(1), VOID])
    def test_without_a_record_somebody_must_vouch_for_a_market(self, origin: Origin, record: ScVal | None) -> None:
        """A market without a true record is read if the operator, a list or an earlier run vouches for it."""
        answered = origin in (Origin.CONFIGURATION, Origin.DEPLOYMENT, Origin.REMEMBERED)
        reading = read(strangers((RECORD, record)), origin)
        (notice,) = reading.notices

        assert [BLEND_V1] * answered == markets(reading)
        assert ({}, [], []) == (reading.verified, reading.unread, reading.absent)
        said = (
            f"no known factory has a record of 1 contract ({BLEND_V1}): {'read, because' if answered else 'not read'}"
        )
        assert notice.startswith(said)

    def test_the_operators_market_is_read_whoever_else_names_it(self) -> None:
        """A market without a record that the operator names is read, whoever else names it before or after."""
        named = [Candidate("blend", BLEND_V1, origin) for origin in (Origin.CONFIGURATION, Origin.EVENT)]
        for order in (named, named[::-1]):
            assert [BLEND_V1] == markets(strangers((RECORD, None)).read(order).result)

    def test_file_without_factories(self) -> None:
        """If a file has no factory at all, nothing can be verified, and the file's contracts are read."""
        around = (FACTORY_1, FACTORY_2, BACKSTOP_1, BACKSTOP_2)
        reading = read(strangers((RECORD, None), *((instance_key(item), None) for item in around)), Origin.SNAPSHOT)

        assert ([BLEND_V1], []) == (markets(reading), reading.notices)

    def test_archived_record_of_unknown_code(self) -> None:
        """A record that nobody has used for months is archived, and is one all the same, of whatever code; with a flag.

        Such a pool is read by the form of its entries.
        """
        world = strangers()
        world.archive(RECORD)
        world.code(BLEND_V1, bytes(range(32)))
        reading = read(world, Origin.EVENT)

        assert [BLEND_V1] == markets(reading)
        assert [True] == [bytes(range(32)).hex() in notice for notice in reading.notices]


class TestRewardZones:
    """Markets that the backstops reward."""

    def test_a_market_with_a_record_is_read_once(self) -> None:
        """A market of a zone is read, once, when a factory has a record of it, whichever of them."""
        zone = reward_zone_key(BACKSTOP_2), vec(*map(address, (BLEND_V2, BLEND_V1, BLEND_V2)))

        assert {BLEND_V1: FACTORY_1, BLEND_V2: FACTORY_2} == strangers(zone).read([]).result.verified
        without = strangers(zone, (RECORD, None)).read([]).result
        assert [BLEND_V2] == markets(without)
        assert [True] == [BLEND_V1 in notice for notice in without.notices]

    def test_absent_listed_markets_are_all_counted_and_few_named(self) -> None:
        """Listed markets without a contract are absent and noticed; few are named in the notice, all are counted."""
        gone = sorted(contract(f"gone {number}") for number in range(300))
        tables = strangers((reward_zone_key(BACKSTOP_1), vec(*map(address, gone)))).compute([])
        (notice,) = tables.notices

        assert (gone, []) == ([item.market for item in tables.absent], tables.unread)
        assert notice.startswith("reward zones list 300 markets without a contract: ")
        assert len(notice) < 1000

    @pytest.mark.parametrize(
        ("value", "notice"),
        [
            (VOID, "cannot be decoded: reward zone: expected vec, found void"),
            (vec(*[address(BLEND_V2)] * 50_001), "reward zone: 50001 addresses, more than 50000"),
            ((VEC, None), "cannot be decoded: reward zone: the vector is missing"),
            (vec(address(BLEND_V2), u32(1)), "cannot be decoded: reward zone[1]: expected address, found u32"),
            (vec(address(account("x")), address(account("y"))), f"lists {account('x')} and 1 more, not contracts"),
        ],
    )
    def test_zones_of_another_form(self, value: ScVal, notice: str) -> None:
        """A zone that is not a list of contracts adds nothing, is noticed, and costs the known markets nothing."""
        world = World("blend")
        world.put(reward_zone_key(BACKSTOP_1), value)
        tables = world.compute()

        assert 6 == tables.pools.height
        assert [True] == [notice in item for item in tables.notices]


LACKING = [without(V1, FACTORY), V2]


class TestFactories:
    """If the lists do not have a factory, the backstop names it."""

    def test_the_factory_that_a_backstop_names_verifies_its_pools(self) -> None:
        """The factory that a backstop names verifies its pools, and is there to be remembered, also next time."""
        for lists in (LACKING, [with_contract(LACKING[0], FACTORY, FACTORY_1), V2]):
            world = World("blend")
            world.deployments = lists
            reading = read(world, Origin.EVENT, FACTORY_1)
            assert (FACTORY_1, []) == (reading.verified[BLEND_V1], reading.notices)
            assert {(V1.label, FACTORY): FACTORY_1} == reading.contracts

    def test_lists_are_completed_before_events_are_read(self) -> None:
        """The lists are completed before events are read, with one request if one lacks a factory."""
        world = World("blend")
        completed = complete(world, LACKING)

        assert [FACTORY_1, FACTORY_2] == [item.address(FACTORY) for item in completed]
        assert [1] == world.source.waves
        deployed, queued = records.event_filters(completed)
        assert EventFilter((FACTORY_1, FACTORY_2), ("deploy",)) == deployed
        assert EventFilter((BLEND_V1, BLEND_V2), ("queue_set_reserve",)) == queued
        assert [] == records.event_filters([Deployment("blend", "none")])

    @pytest.mark.parametrize(
        ("value", "detail"),
        [
            (address(account("x")), "field PoolFact is not a contract"),
            (u32(1), "field PoolFact: expected address, found u32"),
            (None, "field PoolFact is missing"),
        ],
    )
    def test_backstop_of_another_form(self, value: ScVal | None, detail: str) -> None:
        """A backstop that names no factory costs a notice, before the reading and in it."""
        world = World("blend")
        world.put(instance_key(BACKSTOP_1), value, "PoolFact")
        world.deployments = LACKING
        reading = world.read().result

        assert [BLEND_V1, BLEND_V2] == markets(reading)
        assert any(detail in notice for notice in reading.notices)
        assert complete(world, LACKING)[0].address(FACTORY) is None

    def test_another_factory_backstop_or_code_is_warned_of(self) -> None:
        """Another factory, another backstop and other code than known are warned of."""
        world, new = World("blend"), contract("new")
        world.put(instance_key(BACKSTOP_1), address(new), "PoolFact")
        world.put(instance_key(FACTORY_2), address(BACKSTOP_1), "PoolMeta", "backstop")
        world.put(instance_key(FACTORY_2), (BYTES, bytes(32)), "PoolMeta", "pool_hash")
        notices = [notice for notice in world.read().result.notices if notice.startswith("drift: ")]

        assert 3 == len(notices)
        assert f"names the factory {new}, not the known {FACTORY_1}" in notices[0]
        assert f"deploys for backstop {BACKSTOP_1}, not the listed {BACKSTOP_2}" in notices[1]
        assert f"deploys contract code {bytes(32).hex()}" in notices[2]

    @pytest.mark.parametrize(("name", "value"), [("pool_hash", None), ("backstop", u32(1)), ("pool_hash", symbol("x"))])
    def test_factory_of_another_form(self, name: str, value: ScVal | None) -> None:
        """A factory whose own entry cannot be read still vouches for its pools, with a warning."""
        world = World("blend")
        world.put(instance_key(FACTORY_1), value, "PoolMeta", name)
        reading = world.read().result

        assert FACTORY_1 == reading.verified[BLEND_V1]
        assert [True] == ["cannot be read" in notice for notice in reading.notices]


def complete(world: World, lists: list[Deployment]) -> list[Deployment]:
    """The lists with what the backstops name."""
    world.source = Source(world.chain, {})
    return list(asyncio.run(records.with_factories(LedgerView(world.source), lists)))


class TestEvents:
    """What a factory's event of a pool, and a pool's event of a reserve, name."""

    def named(self, topic: str, value: ScVal) -> list[Candidate]:
        """The candidates in an event of the first factory, or of its pool."""
        publisher = FACTORY_1 if topic == "deploy" else BLEND_V1
        return list(records.candidates_in(ContractEvent(publisher, 7, (symbol(topic),), value)))

    def test_a_factory_names_pools_and_a_pool_its_token(self) -> None:
        """A factory names the pool that it should have a record of, a pool the token of the reserve."""
        new = contract("new")

        assert [Candidate("blend", BLEND_V1, Origin.EVENT, voucher=FACTORY_1)] == self.named(
            "deploy", address(BLEND_V1)
        )
        queued = self.named("queue_set_reserve", vec(address(new), u32(1)))
        assert [Candidate("blend", BLEND_V1, Origin.EVENT, pool=new)] == queued

    @pytest.mark.parametrize("value", [u32(1), VOID, address(account("x")), vec(u32(1)), vec()])
    @pytest.mark.parametrize("topic", ["deploy", "queue_set_reserve"])
    def test_any_other_value_names_nothing(self, topic: str, value: ScVal) -> None:
        """Any other value names nothing."""
        with pytest.raises(DecodeError, match="the event's value"):
            self.named(topic, value)
