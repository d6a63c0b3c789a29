"""Many calls in one simulation: the same answers with a router as without one, whatever the router does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from random import Random

import pytest

from exporter.errors import SourceError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import code_key, instance_key, variant_key
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, address, encode_scval, i128, u32, vec
from exporter.ledger.oracles import Quote, read_quotes
from exporter.ledger.router import BUNDLE_SIZE, Router
from exporter.ledger.source import ContractCall, SimulationAnswer
from exporter.ledger.storage_rules.host import price_data
from exporter.ledger.view import LedgerView, ViewLimits, read_at_one_ledger
from tests.chain_simulator import Chain, ChainSource, Reader
from tests.protocols.made_ledger import contract

Tamper = Callable[[ContractCall, SimulationAnswer], SimulationAnswer]
Quotes = dict[tuple[str, str], Quote]

ROUTER, CODE = contract("router"), bytes(range(32))
ORACLES = [contract(f"oracle {number}") for number in range(5)]
PAIRS = [(oracle, contract(f"token {number}")) for oracle in ORACLES for number in range(24)]
UNPRICED, UNKNOWN = PAIRS[5], PAIRS[45]
"""A token of which its oracle has no price, and one for which it traps."""
CALLS = len(ORACLES) + len(PAIRS)
TURNS = 2
"""Batches of calls: decimals with the first prices, then the others. Each has a sample."""


def price_key(pair: tuple[str, str]) -> bytes:
    return variant_key(pair[0], "Price", address(pair[1]))


def answer_of(reader: Reader, call: ContractCall) -> ScVal | str:
    """What an oracle or the router gives at a ledger, or the error of the call."""
    if reader.get(instance_key(call.contract)) is None:
        return "HostError: Error(Storage, MissingValue)"
    if call.contract == ROUTER:
        reader.get(code_key(CODE))
        results = []
        for _, ((_, callee), (_, function), (_, arguments), _) in call.arguments[1][1]:
            inner = Reader(reader.chain, reader.ledger)
            result = answer_of(inner, ContractCall(callee, function, arguments))
            if isinstance(result, str):
                results.append((scval.ERROR, (0, 2)))
            else:
                results.append(result)
                reader.footprint |= inner.footprint
        return vec(*results)
    if call.function == "decimals":
        return u32(7)
    if call.function != "lastprice":
        return "HostError: Error(WasmVm, MissingValue)"
    ((_, (_, (_, token))),) = call.arguments
    price = reader.get(price_key((call.contract, token)))
    return "HostError: Error(Contract, #2)\n\nEvent log (newest first):\n" if price is None else decode_scval(price)


class Oracles(ChainSource):
    """Oracles behind a router. It logs what is simulated, and may alter answers; some prices move with each ledger."""

    def __init__(
        self, tamper: Tamper | None = None, *, every: int | None = None, moving: int = 0, seed: int = 0
    ) -> None:
        chain = Chain()
        super().__init__(chain, requests_per_ledger=every)
        self.calls: list[ContractCall] = []
        self._tamper = tamper
        for key in (code_key(CODE), *map(instance_key, (ROUTER, *ORACLES))):
            chain.put(key, b"entry")
        priced = [pair for pair in PAIRS if pair not in (UNPRICED, UNKNOWN)]
        for place, pair in enumerate(priced):
            chain.put(price_key(pair), encode_scval(price_data(10**7 + place, 500)))
        chain.put(price_key(UNPRICED), encode_scval(VOID))
        chain.put(b"quiet", b"entry")
        chain.close_ledger()
        following = islice(cycle(priced), Random(seed).randrange(len(priced)), None)

        def move(chain: Chain) -> None:
            for pair in islice(following, moving):
                chain.put(price_key(pair), encode_scval(price_data(2 * 10**7 + chain.ledger, 5 * chain.ledger)))

        chain.on_close = move

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        self.calls.append(call)
        ledger = self._answering_ledger()
        self.log.append(("call", 0, ledger))
        reader = Reader(self.chain, ledger)
        given = answer_of(reader, call)
        if isinstance(given, str):
            answer = SimulationAnswer(ledger, None, given, (), "simulated")
        else:
            answer = SimulationAnswer(ledger, encode_scval(given), None, tuple(reader.footprint), "simulated")
        return answer if self._tamper is None else self._tamper(call, answer)

    @property
    def bundles(self) -> list[int]:
        """The size of each."""
        return [len(call.arguments[1][1]) for call in self.calls if call.function == "exec"]

    @property
    def alone(self) -> list[ContractCall]:
        return [call for call in self.calls if call.function != "exec"]


def made_router(choose: Callable[[Sequence[ContractCall]], ContractCall] = lambda calls: calls[0]) -> Router:
    return Router(ROUTER, CODE.hex(), choose=choose)


def quotes_of(source: Oracles, router: Router | None, first: int = 0) -> Quotes:
    """All quotes; the first ones are asked for before the others."""

    async def program(view: LedgerView) -> Quotes:
        return dict(await read_quotes(view, PAIRS[:first])) | dict(await read_quotes(view, PAIRS[first:]))

    return asyncio.run(read_at_one_ledger(source, program, None, router)).result


@pytest.fixture(scope="module")
def plain() -> Quotes:
    """The quotes of a chain that does not move, each asked for by a request of its own."""
    return quotes_of(Oracles(), None)


def test_same_quotes_for_fewer_requests(plain: Quotes) -> None:
    """Prices and the reasons of missing ones are the same to the letter; requests fall to a tenth."""
    source, router = Oracles(), made_router()

    assert plain == quotes_of(source, router)
    bundles = -(-CALLS // BUNDLE_SIZE)
    assert CALLS - TURNS <= sum(source.bundles) <= CALLS
    assert bundles == len(source.bundles)
    assert TURNS <= len(source.alone) <= TURNS + 1  # the samples, and the one that traps
    assert {
        "contract": ROUTER,
        "bundles": bundles,
        "failed": 0,
        "results": CALLS - len(source.alone),
        "stopped": None,
    } == router.report()
    assert [
        "the oracle has no price for this token",
        "lastprice() failed: HostError: Error(Contract, #2)",
    ] == [quote.failure for quote in plain.values() if quote.failure]


def routed_only(change: Callable[[SimulationAnswer], SimulationAnswer]) -> Tamper:
    """Alter what the router gives, and nothing else."""
    return lambda call, answer: change(answer) if call.function == "exec" else answer


def with_values(change: Callable[[tuple[ScVal, ...]], ScVal]) -> Tamper:
    """Alter the values in what the router gives."""

    def changed(answer: SimulationAnswer) -> SimulationAnswer:
        assert answer.result is not None
        return replace(answer, result=encode_scval(change(decode_scval(answer.result)[1])))

    return routed_only(changed)


def raise_error(_: SimulationAnswer) -> SimulationAnswer:
    """Every endpoint refuses the large request."""
    raise SourceError("simulateTransaction of exec: refused")


TRAP = "HostError: Error(Auth, InvalidAction)"
UNUSABLE = {
    "traps": (
        routed_only(lambda answer: replace(answer, result=None, error=f"{TRAP}\n\nEvent log: ...")),
        TRAP,
    ),
    "is refused": (routed_only(raise_error), "simulateTransaction of exec: refused"),
    "gives no XDR": (routed_only(lambda answer: replace(answer, result=b"\0")), "the result cannot be decoded: "),
    "gives a number": (with_values(lambda _: i128(5)), "the result is not a vector of 20 results"),
    "gives no vector": (with_values(lambda _: (scval.VEC, None)), "the result is not a vector of 20 results"),
    "gives too few": (with_values(lambda values: vec(*values[1:])), "the result is not a vector of 20 results"),
    "gives too many": (with_values(lambda values: vec(*values, values[0])), "the result is not a vector of 20 results"),
    "writes": (routed_only(lambda answer: replace(answer, writes=True)), "the calls write to the ledger"),
    "calls nobody": (
        routed_only(lambda answer: replace(answer, footprint=answer.footprint[:2])),
        "the footprint lacks a contract that was to be called",
    ),
}


class TestFallingBack:
    """A router that does not work costs a request or a few, and no price."""

    @pytest.mark.parametrize(
        ("router", "tamper", "reason"),
        [pytest.param(ROUTER, tamper, reason, id=f"the router {name}") for name, (tamper, reason) in UNUSABLE.items()]
        + [
            pytest.param(ORACLES[0], None, "HostError: Error(WasmVm, MissingValue)", id="another contract"),
            pytest.param(contract("nowhere"), None, "HostError: Error(Storage, MissingValue)", id="no contract"),
        ],
    )
    def test_unusable_answers(self, plain: Quotes, router: str, tamper: Tamper | None, reason: str) -> None:
        """Whatever is wrong with the first answer, the router is left alone and every call is made once, alone."""
        source, used = Oracles(tamper), Router(router)

        assert plain == quotes_of(source, used)
        assert sum(source.bundles) <= CALLS
        assert CALLS == len(source.alone) == len(set(source.alone))
        assert used.stopped is not None
        assert used.stopped.startswith(reason)
        assert [] == used.notices

    @pytest.mark.parametrize(("fits", "bundles"), [(10, {20, 10}), (3, {20, 10, 5})])
    def test_budget(self, plain: Quotes, fits: int, bundles: set[int]) -> None:
        """Where twenty calls are more than a transaction's budget, smaller bundles do it, down to five."""

        def tamper(call: ContractCall, answer: SimulationAnswer) -> SimulationAnswer:
            if call.function == "exec" and len(call.arguments[1][1]) > fits:
                return replace(answer, result=None, error="HostError: Error(Budget, ExceededLimit)", footprint=())
            return answer

        source, router = Oracles(tamper), made_router()

        assert plain == quotes_of(source, router, first=43)
        assert bundles <= set(source.bundles)
        assert fits == 3 or set(source.bundles[-8:]) == {10}  # what was learned of one batch holds for the next
        assert (fits == 10) == (router.stopped is None)
        assert 5 <= min(source.bundles)

    def test_other_code(self, plain: Quotes) -> None:
        """A router with other code than the list has is not used, and a notice says so."""
        source, router = Oracles(), Router(ROUTER, "00" * 32)

        assert plain == quotes_of(source, router)
        assert sum(source.bundles) <= CALLS
        assert [True] == ["not the one that the list has" in notice for notice in router.notices]


def lie_about(liars: Callable[[int], bool]) -> Tamper:
    """A router that doubles some of the prices it passes on, by their place in the bundle."""

    def doubled(value: ScVal) -> ScVal:
        if value[0] != scval.MAP:
            return value
        return (scval.MAP, tuple((key, i128(2 * item[1]) if key[1] == "price" else item) for key, item in value[1]))

    return with_values(
        lambda values: vec(*(doubled(value) if liars(place) else value for place, value in enumerate(values)))
    )


class TestLying:
    """A router that gives something else than the contracts themselves is caught, and nothing of it is kept."""

    def test_about_everything(self, plain: Quotes) -> None:
        """The first sample of a price shows it: every price is asked for without the router, and a notice says so."""
        router = made_router(choose=lambda calls: calls[-1])

        assert plain == quotes_of(Oracles(lie_about(lambda _: True)), router)
        assert router.lied
        (notice,) = router.notices
        assert ROUTER in notice
        assert "something else for lastprice of C" in notice

    def test_at_another_ledger(self, plain: Quotes) -> None:
        """What cannot be compared, as it is of another ledger, is not called a lie; nothing of it is kept either."""
        lie = lie_about(lambda _: True)

        def tamper(call: ContractCall, answer: SimulationAnswer) -> SimulationAnswer:
            return replace(lie(call, answer), ledger=answer.ledger - 1) if call.function == "exec" else answer

        router = made_router(choose=lambda calls: calls[-1])

        assert plain == quotes_of(Oracles(tamper), router)
        assert (False, []) == (router.lied, router.notices)
        assert router.stopped is not None

    def test_found_after_bundles_that_were_kept(self, plain: Quotes) -> None:
        """What an earlier bundle gave is asked for again, too, and the program sees it."""
        samples = iter([0])
        router = made_router(choose=lambda calls: calls[next(samples, 7)])

        assert plain == quotes_of(Oracles(lie_about(lambda place: place == 7)), router, first=40)
        assert router.lied


@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_moving_prices(plain: Quotes, seeds: int) -> None:
    """While prices move each is the true one of the ledger; no fewer are known than without the router, for less."""

    async def program(view: LedgerView) -> Quotes:
        await view.read([b"quiet"])  # pins the reading to a ledger
        return dict(await read_quotes(view, PAIRS))

    known, asked, bundles = {False: 0, True: 0}, {False: 0, True: 0}, 0
    for seed in range(seeds):
        for every, moving in ((2, 1), (3, 1), (7, 1), (7, 3), (40, 2)):
            for routed in (False, True):
                source = Oracles(every=every, moving=moving, seed=seed)
                router = made_router() if routed else None
                reading = asyncio.run(read_at_one_ledger(source, program, ViewLimits(max_rounds=6), router))
                certain = {
                    pair: quote
                    for pair, quote in reading.result.items()
                    if "not known to hold" not in (quote.failure or "")
                }
                for pair, quote in certain.items():
                    assert plain[pair].failure == quote.failure
                    if quote.price is not None and quote.timestamp is not None:
                        entry = source.chain.at(price_key(pair), reading.certificate.ledger)
                        assert entry is not None
                        assert entry.data == encode_scval(price_data(quote.price, quote.timestamp))
                known[routed] += len(certain)
                asked[routed] += len(source.log)
                bundles += len(source.bundles)

    assert known[True] >= known[False] > seeds * 5 * 90
    assert asked[True] < 0.8 * asked[False]
    assert bundles > seeds * 5
