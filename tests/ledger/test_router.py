"""Many calls in one simulation: the same answers with a router as without one, whatever the router does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from exporter.deployments import router_of
from exporter.errors import SourceError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval, i128, vec
from exporter.ledger.oracles import Quote, read_quotes
from exporter.ledger.router import BUNDLE_SIZE, Router
from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer
from exporter.ledger.view import LedgerView, Reading, ViewLimits, read_at_one_ledger
from exporter.localnet.network import LocalNetwork
from tests.ledger.oracle_network import QUIET, FeedKind, OracleNetwork
from tests.localnet.direct_source import DirectSource
from tests.localnet.routed import CODE, ROUTER

Tamper = Callable[[ContractCall, SimulationAnswer], SimulationAnswer]
Quotes = dict[tuple[str, str], Quote]


class Asked(DirectSource):
    """A network that logs what is simulated, closes a ledger after each ``every`` requests, and may alter answers."""

    def __init__(self, network: LocalNetwork, every: int | None = None, tamper: Tamper | None = None) -> None:
        super().__init__(network)
        self.log: list[ContractCall] = []
        self.requests = 0
        self._every = every
        self._tamper = tamper

    def _answered(self) -> None:
        self.requests += 1
        if self._every is not None and self.requests % self._every == 0:
            self.network.advance()

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        self.log.append(call)
        answer = await super().simulate(call)
        return answer if self._tamper is None else self._tamper(call, answer)

    @property
    def bundles(self) -> list[int]:
        return [len(call.arguments[1][1]) for call in self.log if call.function == "exec"]

    @property
    def alone(self) -> list[ContractCall]:
        return [call for call in self.log if call.function != "exec"]


def first(calls: Sequence[ContractCall]) -> ContractCall:
    """The sample of a bundle, where a test has to know it."""
    return calls[0]


def made_router(**options: object) -> Router:
    return Router(ROUTER, CODE.hex(), **options)  # type: ignore[arg-type]


def pairs_of(network: OracleNetwork) -> list[tuple[str, str]]:
    """What there is a feed for, odd ones among them."""
    return [(feed.oracle, feed.token) for feed in network.feeds]


def quotes_of(source: Asked, router: Router | None, limits: ViewLimits | None = None) -> Reading[Quotes]:
    async def program(view: LedgerView) -> Quotes:
        return dict(await read_quotes(view, pairs_of(source.network)))  # type: ignore[arg-type]

    return asyncio.run(read_at_one_ledger(source, program, limits, router))


def failures_of(network: OracleNetwork) -> int:
    """How many feeds trap, so that their calls fail in a bundle and are repeated alone."""
    return sum(feed.kind is FeedKind.UNKNOWN for feed in network.feeds)


@pytest.fixture(scope="module")
def still() -> OracleNetwork:
    """A network that no test advances, and with it a hundred prices."""
    return OracleNetwork()


@pytest.fixture(scope="module")
def plain(still: OracleNetwork) -> Quotes:
    """Its quotes, each asked for by a request of its own."""
    return quotes_of(Asked(still), None).result


class TestSameAnswers:
    """With the router the same is known as without it, for fewer requests."""

    def test_quotes(self, still: OracleNetwork, plain: Quotes) -> None:
        """Prices and the reasons of missing ones are the same to the letter; requests fall to a tenth."""
        source, router = Asked(still), made_router()

        assert plain == quotes_of(source, router).result
        calls = len(still.oracles) + len(still.feeds)
        bundles = -(-calls // BUNDLE_SIZE)
        turns = 2  # decimals with the first prices, then the others: a sample of each
        assert bundles <= len(source.bundles) <= bundles + 1
        assert calls - turns <= sum(source.bundles) <= calls
        assert 0 < failures_of(still)
        assert len(source.alone) <= turns + failures_of(still)  # a failing one may have been the sample
        assert len(source.log) < calls / 6
        assert {
            "contract": ROUTER,
            "bundles": bundles,
            "failed": 0,
            "results": calls - len(source.alone),
            "stopped": None,
        } == router.report()
        assert {quote.failure for quote in plain.values()} >= {
            None,
            "the oracle has no price for this token",
            "lastprice() failed: HostError: Error(Contract, #2)",
        }


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

    def test_no_such_contract(self, still: OracleNetwork, plain: Quotes) -> None:
        """Where the ledger has no router one request shows it, and the run remembers."""
        source, router = Asked(still), Router(pairs_of(still)[0][1])  # a token, which has no exec

        assert plain == quotes_of(source, router).result
        assert sum(source.bundles) <= len(still.oracles) + len(still.feeds)
        assert len(still.oracles) + len(still.feeds) == len(source.alone) == len(set(source.alone))
        assert router.stopped is not None
        assert [] == router.notices

        absent = Router(router_of("mainnet").address)  # type: ignore[union-attr]
        assert plain == quotes_of(source, absent).result
        assert "HostError: Error(Storage, MissingValue)" == absent.stopped

    @pytest.mark.parametrize("name", UNUSABLE)
    def test_unusable_answers(self, still: OracleNetwork, plain: Quotes, name: str) -> None:
        """Whatever is wrong with the first answer, the router is left alone and every call is made once, alone."""
        tamper, reason = UNUSABLE[name]
        source, router = Asked(still, tamper=tamper), made_router()

        assert plain == quotes_of(source, router).result
        assert sum(source.bundles) <= len(still.oracles) + len(still.feeds)
        assert len(still.oracles) + len(still.feeds) == len(source.alone)
        assert router.stopped is not None
        assert router.stopped.startswith(reason)
        assert [] == router.notices

    @pytest.mark.parametrize(("fits", "bundles"), [(10, {20, 10}), (3, {20, 10, 5})])
    def test_budget(self, still: OracleNetwork, plain: Quotes, fits: int, bundles: set[int]) -> None:
        """Where twenty calls are more than a transaction's budget, smaller bundles do it, down to five."""

        def tamper(call: ContractCall, answer: SimulationAnswer) -> SimulationAnswer:
            if call.function == "exec" and len(call.arguments[1][1]) > fits:
                return replace(answer, result=None, error="HostError: Error(Budget, ExceededLimit)", footprint=())
            return answer

        source, router = Asked(still, tamper=tamper), made_router()

        assert plain == quotes_of(source, router).result
        assert bundles <= set(source.bundles)
        assert (fits == 10) == (router.stopped is None)
        assert 5 <= min(source.bundles)

    def test_other_code(self, still: OracleNetwork, plain: Quotes) -> None:
        """A router with other code than the list has is not used, and a notice says so."""
        source, router = Asked(still), Router(ROUTER, "00" * 32)

        assert plain == quotes_of(source, router).result
        assert sum(source.bundles) <= len(still.oracles) + len(still.feeds)
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

    def test_about_everything(self, still: OracleNetwork, plain: Quotes) -> None:
        """The first sample of a price shows it: every price is asked for without the router, and a notice says so."""
        source = Asked(still, tamper=lie_about(lambda _: True))
        router = made_router(choose=lambda calls: calls[-1])

        assert plain == quotes_of(source, router).result
        assert router.lied
        (notice,) = router.notices
        assert ROUTER in notice
        assert "something else for lastprice of C" in notice

    def test_at_another_ledger(self, still: OracleNetwork, plain: Quotes) -> None:
        """What cannot be compared, as it is of another ledger, is not called a lie; nothing of it is kept either."""
        lie = lie_about(lambda _: True)

        def tamper(call: ContractCall, answer: SimulationAnswer) -> SimulationAnswer:
            return replace(lie(call, answer), ledger=answer.ledger - 1) if call.function == "exec" else answer

        router = made_router(choose=lambda calls: calls[-1])

        assert plain == quotes_of(Asked(still, tamper=tamper), router).result
        assert (False, []) == (router.lied, router.notices)
        assert router.stopped is not None

    def test_found_after_bundles_that_were_kept(self, still: OracleNetwork, plain: Quotes) -> None:
        """What an earlier bundle gave is asked for again, too, and the program sees it."""
        samples = iter([0])
        source = Asked(still, tamper=lie_about(lambda place: place == 7))

        def choose(calls: Sequence[ContractCall]) -> ContractCall:
            return calls[next(samples, 7)]

        router = made_router(choose=choose)
        half = len(pairs_of(still)) // 3

        async def program(view: LedgerView) -> Quotes:
            quotes = dict(await read_quotes(view, pairs_of(still)[:half]))
            return quotes | dict(await read_quotes(view, pairs_of(still)[half:]))

        reading = asyncio.run(read_at_one_ledger(source, program, None, router))

        assert plain == reading.result
        assert router.lied


def true_quotes(network: OracleNetwork, ledger: int) -> Quotes:
    """What every oracle says at a ledger that is past, asked directly."""

    class Past(Asked):
        async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
            raise AssertionError("quotes are of calls alone")

        async def simulate(self, call: ContractCall) -> SimulationAnswer:
            found = self.network.contracts.simulate(self.network.chain, ledger, call)
            return SimulationAnswer(ledger, found.result, found.error, tuple(found.footprint), "past")

    return quotes_of(Past(network), None).result


def certified(network: OracleNetwork, quotes: Quotes) -> Quotes:
    """Those that are known at the ledger of the reading, be it a price or why there is none.

    A constant price has the time of the simulation, which a reading cannot pin (docs/decisions.md).
    """
    constant = {(feed.oracle, feed.token) for feed in network.feeds if feed.kind is FeedKind.CONSTANT}
    return {
        pair: replace(quote, timestamp=0) if pair in constant else quote
        for pair, quote in quotes.items()
        if "not known to hold" not in (quote.failure or "")
    }


def read_pinned(source: Asked, network: OracleNetwork, router: Router | None) -> Reading[Quotes]:
    """Quotes of a network, and a quiet entry that is read before and pins the reading to a ledger."""
    pinned = QUIET[0]

    async def program(view: LedgerView) -> Quotes:
        await view.read([pinned])
        return dict(await read_quotes(view, pairs_of(network)))

    return asyncio.run(read_at_one_ledger(source, program, ViewLimits(max_rounds=6), router))


class TestMovingPrices:
    """While prices move every price that is given is the true one of the ledger, and none is lost to its bundle."""

    @pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.slow)])
    def test_against_runs_without(self, seeds: int) -> None:
        """Over many schedules all prices are the oracles' own, at least as many as without the router, for less."""
        known, asked, bundles = {False: 0, True: 0}, {False: 0, True: 0}, 0
        for seed in range(seeds):
            for every, prices in ((2, 1), (3, 1), (7, 1), (7, 3), (40, 2)):
                for routed in (False, True):
                    network = OracleNetwork(seed, prices, window=4000)
                    source = Asked(network, every)
                    reading = read_pinned(source, network, made_router(choose=first) if routed else None)
                    quotes = certified(network, reading.result)
                    truth = certified(network, true_quotes(network, reading.certificate.ledger))
                    assert {pair: truth[pair] for pair in quotes} == quotes
                    known[routed] += len(quotes)
                    asked[routed] += source.requests
                    bundles += len(source.bundles)

        assert known[True] >= known[False] > seeds * 5 * 90
        assert asked[True] < 0.8 * asked[False]
        assert bundles > seeds * 5
