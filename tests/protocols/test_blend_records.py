"""Which Blend pools are genuine: factories' records, backstops, reward zones, and who answers for an address."""

from __future__ import annotations

import asyncio

import pytest

from exporter.deployments import BACKSTOP, FACTORY, MARKET, Deployment
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, symbol, u32, vec
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Origin, ProtocolReading, with_contract
from exporter.protocols.blend import Blend
from tests.protocols.blend_chain import CODE, BlendLedger, candidate, pool_instance, reward_zone, zone_of
from tests.protocols.made_ledger import (
    UNKNOWN_CODE,
    MadeSource,
    Raw,
    Written,
    account,
    contract,
    entry,
    instance,
    known,
    struct_of,
)

A, B, C, FACTORY_1, FACTORY_2 = (contract(label) for label in ("A", "B", "C", "factory 1", "factory 2"))
FACTORY_CODE = bytes(31) + b"f"


def deployment(label: str, markets: tuple[str, ...] = (), *, factory: bool = True) -> Deployment:
    """A deployment whose contracts are named after its label, as a list has it; ``factory`` False leaves it out."""
    around = [known(f"backstop {label}", BACKSTOP), *([known(f"factory {label}", FACTORY)] if factory else [])]
    return Deployment("blend", label, (*around, *(known(market, MARKET) for market in markets)))


def backstop(label: str, factory: Raw = None) -> Written:
    """The instance of a backstop, which names its factory; another value, or VOID to leave it out, may be given."""
    named = address(contract(f"factory {label}")) if factory is None else factory
    pairs = [(symbol("PoolFact"), named)] if named != VOID else []
    return instance(contract(f"backstop {label}"), pairs, FACTORY_CODE)


def factory(label: str, **changes: Raw) -> Written:
    """The instance of a factory, with what it deploys and for whom."""
    meta: dict[str, Raw] = {
        "backstop": address(contract(f"backstop {label}")),
        "blnd_id": address(contract("BLND")),
        "pool_hash": (scval.BYTES, CODE["v1"]),
    }
    return instance(contract(f"factory {label}"), [(symbol("PoolMeta"), struct_of(meta | changes))], FACTORY_CODE)


def record(label: str, market: str, value: ScVal = (scval.BOOL, True)) -> Written:
    """A factory's record of a pool."""
    return entry(contract(f"factory {label}"), vec(symbol("Contracts"), address(contract(market))), value)


def chain(*markets: str) -> BlendLedger:
    """Two deployments, and markets of which no factory has a record yet."""
    ledger = BlendLedger()
    for market in markets:
        ledger.add_market(market)
    ledger.replace(backstop("1"), factory("1"), backstop("2"), factory("2"))
    return ledger


BOTH = [deployment("1", ("A",)), deployment("2")]


def named(label: str, origin: Origin, voucher: str | None = None) -> Candidate:
    """A candidate of some origin."""
    return candidate(label, origin=origin, voucher=voucher)


def read_of(reading: ProtocolReading) -> list[str]:
    """The addresses of the markets that were read."""
    return [market.address for market in reading.markets]


class TestVerifying:
    """An address is taken for a pool because a factory has a record of it, or because somebody answers for it."""

    @pytest.mark.parametrize("origin", list(Origin))
    @pytest.mark.parametrize("label", ["1", "2"])
    def test_with_record(self, origin: Origin, label: str) -> None:
        """Whoever named a market, the record of any known factory makes it one, without a notice."""
        ledger = chain("C")
        ledger.replace(record(label, "C"))
        reading = ledger.read([named("C", origin)], BOTH).result

        assert [C] == read_of(reading)
        assert {C: contract(f"factory {label}")} == reading.verified
        assert [] == reading.notices

    @pytest.mark.parametrize("origin", [Origin.CONFIGURATION, Origin.DEPLOYMENT, Origin.REMEMBERED])
    def test_somebody_answers(self, origin: Origin) -> None:
        """A market without a record is read where operator, list or an earlier run name it, with a notice."""
        reading = chain("C").read([named("C", origin)], BOTH).result

        assert [C] == read_of(reading)
        assert {} == reading.verified
        assert 1 == len(reading.notices)
        assert reading.notices[0].startswith(f"no known factory has a record of 1 contract ({C}): read, because")

    @pytest.mark.parametrize("origin", [Origin.EVENT, Origin.LISTED, Origin.SNAPSHOT])
    def test_nobody_answers(self, origin: Origin) -> None:
        """A contract with a pool's code that no factory deployed is not a market by itself."""
        reading = chain("C").read([named("C", origin)], BOTH).result

        assert [] == read_of(reading)
        assert ([], []) == (reading.unread, reading.absent)
        assert [f"no known factory has a record of 1 contract ({C}): not read"] == [
            notice.split(", because anybody")[0] for notice in reading.notices
        ]

    @pytest.mark.parametrize("value", [(scval.BOOL, False), u32(1), VOID])
    def test_record_of_another_value(self, value: ScVal) -> None:
        """Only a record that says true is one."""
        ledger = chain("C")
        ledger.replace(record("1", "C", value))

        assert [] == read_of(ledger.read([named("C", Origin.EVENT)], BOTH).result)

    def test_file_without_factories(self) -> None:
        """Where what was read has no factory at all, nothing can be verified, and the file's contracts are read."""
        ledger = BlendLedger()
        ledger.add_market("C")
        reading = ledger.read([named("C", Origin.SNAPSHOT)], BOTH).result

        assert ([C], []) == (read_of(reading), reading.notices)

    def test_archived_record_of_unknown_code(self) -> None:
        """A record that nobody has used for months is archived, and is one all the same, of whatever code; with a flag.

        Such a pool is read by the form of its entries.
        """
        ledger = chain("C")
        ledger.replace(record("1", "C"), pool_instance("C", wasm_hash=UNKNOWN_CODE))
        ledger.archive(record("1", "C"))
        reading = ledger.read([named("C", Origin.EVENT)], BOTH).result

        assert [C] == read_of(reading)
        assert [True] == [UNKNOWN_CODE.hex() in notice for notice in reading.notices]

    def test_no_further_request(self) -> None:
        """Records are read along with the instances, and of a listed market only its own factory is asked."""
        ledger = chain("A", "C")
        ledger.replace(record("1", "A"), record("2", "C"))
        ledger.read([named("A", Origin.DEPLOYMENT), named("C", Origin.REMEMBERED, FACTORY_2)], BOTH)
        assert ledger.source is not None

        # a record and three keys for each market, two for each backstop, one for each factory; the backstop that the
        # pools name here and no list has; then the reserves, and what the backstop keeps of each pool and of its token
        assert [2 * 4 + 2 * 2 + 2, 1, 2 * 2 + 1 + 2 * 2 + 1] == [
            keys for kind, keys, _ in ledger.source.log if kind == "entries"
        ]


class TestRewardZones:
    """Markets that the backstops reward."""

    def test_with_record(self) -> None:
        """A market of a zone is read when the zone's own factory has a record of it."""
        ledger = chain("B", "C")
        ledger.replace(reward_zone("backstop 2", zone_of("B", "C")), record("2", "B"), record("1", "C"))
        reading = ledger.read([], BOTH).result

        assert [B] == read_of(reading)
        assert {B: FACTORY_2} == reading.verified
        assert [True] == [C in notice for notice in reading.notices]


class TestFactories:
    """Where the lists do not have a factory, the backstop names it."""

    def test_learned(self) -> None:
        """The factory that a backstop names verifies its pools, and is there to be remembered."""
        ledger = chain("C")
        ledger.replace(record("2", "C"))
        lists = [deployment("1"), deployment("2", ("C",), factory=False)]
        reading = ledger.read([named("C", Origin.DEPLOYMENT)], lists).result

        assert {C: FACTORY_2} == reading.verified
        assert {("2", FACTORY): FACTORY_2} == reading.contracts
        assert [] == reading.notices

    def test_completed_before(self) -> None:
        """Before the events are read the lists are completed, with one request where one lacks a factory."""
        ledger = chain()
        source = MadeSource(ledger.chain(), {})
        lists = [deployment("1"), deployment("2", factory=False)]
        completed = asyncio.run(_complete(source, lists))

        assert [FACTORY_1, FACTORY_2] == [item.address(FACTORY) for item in completed]
        assert [("entries", 1)] == [(kind, keys) for kind, keys, _ in source.log]
        assert [EventFilter((FACTORY_1, FACTORY_2), ("deploy",))] == Blend().event_filters(completed)
        assert [] == Blend().event_filters([Deployment("blend", "none")])

    def test_remembered_factory_is_learned_again(self) -> None:
        """A factory from the memory is asked like a listed one, and stays remembered."""
        ledger = chain("C")
        ledger.replace(record("2", "C"))
        lists = [with_contract(deployment("2", factory=False), FACTORY, FACTORY_2)]
        reading = ledger.read([named("C", Origin.EVENT, FACTORY_2)], lists).result

        assert {("2", FACTORY): FACTORY_2} == reading.contracts
        assert [C] == read_of(reading)

    @pytest.mark.parametrize(
        ("value", "detail"),
        [
            (address(account("x")), "field PoolFact is not a contract"),
            (u32(1), "field PoolFact: expected address, found u32"),
            (VOID, "field PoolFact is missing"),
        ],
    )
    def test_backstop_of_another_form(self, value: ScVal, detail: str) -> None:
        """A backstop that names no factory costs a notice, before the reading and in it."""
        ledger = chain("C")
        ledger.replace(backstop("2", value), record("1", "C"))
        lists = [deployment("1"), deployment("2", factory=False)]
        reading = ledger.read([named("C", Origin.EVENT)], lists).result

        assert [C] == read_of(reading)
        assert [True] == [detail in notice for notice in reading.notices]
        assert None is asyncio.run(_complete(MadeSource(ledger.chain(), {}), lists))[1].address(FACTORY)

    def test_drift(self) -> None:
        """Another factory, another backstop and other code than known are warned of."""
        ledger = chain()
        ledger.replace(
            backstop("1", address(contract("factory 3"))),
            factory("2", backstop=address(contract("backstop 1")), pool_hash=(scval.BYTES, UNKNOWN_CODE)),
        )
        notices = ledger.read([], BOTH).result.notices

        assert 3 == len(notices)
        assert all(notice.startswith("drift: ") for notice in notices)
        assert f"names the factory {contract('factory 3')}, not the known {FACTORY_1}" in notices[0]
        assert f"deploys for backstop {contract('backstop 1')}, not the listed {contract('backstop 2')}" in notices[1]
        assert f"deploys contract code {UNKNOWN_CODE.hex()}" in notices[2]

    @pytest.mark.parametrize("changes", [{"pool_hash": None}, {"backstop": u32(1)}, {"pool_hash": symbol("x")}])
    def test_factory_of_another_form(self, changes: dict[str, Raw]) -> None:
        """A factory whose own entry cannot be read still vouches for its pools, with a warning."""
        ledger = chain("C")
        ledger.replace(factory("2", **changes), record("2", "C"))
        reading = ledger.read([named("C", Origin.EVENT)], BOTH).result

        assert [C] == read_of(reading)
        assert [True] == ["cannot be read" in notice for notice in reading.notices]


async def _complete(source: MadeSource, lists: list[Deployment]) -> list[Deployment]:
    return list(await Blend().complete(LedgerView(source), lists))


class TestEvents:
    """What a deploy event names."""

    def event(self, value: ScVal) -> ContractEvent:
        """An event of the first factory."""
        return ContractEvent(FACTORY_1, 7, (symbol("deploy"),), value)

    def test_pool(self) -> None:
        """The value is the pool, and the factory that published it should have the record."""
        assert [named("C", Origin.EVENT, FACTORY_1)] == list(Blend().candidates_in(self.event(address(C))))

    @pytest.mark.parametrize("value", [u32(1), VOID, address(account("x")), vec(address(A))])
    def test_other_values(self, value: ScVal) -> None:
        """Any other value names nothing."""
        with pytest.raises(DecodeError, match="the event's value"):
            Blend().candidates_in(self.event(value))
