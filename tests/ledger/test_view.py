"""The one-ledger read transaction, tested as a database person tests isolation."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.errors import NoCommonLedgerError, SourceError
from exporter.ledger.batches import BATCH_TURNS
from exporter.ledger.observation import Entry, KeyObservation
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from exporter.ledger.view import LedgerView, ViewLimits, read_at_one_ledger
from tests.chain_simulator import Chain, ChainSource, Reader, number_result

QUIET = [f"quiet {number}".encode() for number in range(1000)]
State = dict[bytes, tuple[bytes, bool] | None]
Outcome = tuple[object, str | None]  # of a call: its value and its error


def data_of(entry: Entry | None) -> tuple[bytes, bool] | None:
    """The part of an entry that tests compare: its data, and whether it is archived."""
    return None if entry is None else (entry.raw.data, entry.archived)


def true_state(chain: Chain, keys: Mapping[bytes, object], ledger: int) -> State:
    """The true state of the chain at a ledger."""
    state: State = {}
    for key in keys:
        raw = chain.at(key, ledger)
        state[key] = None if raw is None else (raw.data, raw.live_until == 0)
    return state


def quiet_chain(*keys: bytes) -> Chain:
    """A chain that has these keys, and one ledger more than its first."""
    chain = Chain()
    for key in keys:
        chain.put(key, b"value")
    chain.close_ledger()
    return chain


def busy_chain(*busy: bytes, quiet: Iterable[bytes] = (), ledgers: int = 0) -> Chain:
    """A chain on which keys change at every ledger, after this many in which nothing did, and others never."""
    chain = Chain()
    for key in quiet:
        chain.put(key, b"value")
    for _ in range(ledgers):
        chain.close_ledger()

    def change(chain: Chain) -> None:
        for key in busy:
            chain.put(key, f"{key.decode()} at {chain.ledger + 1}".encode())

    chain.on_close = change
    chain.close_ledger()
    return chain


def states_of(keys: Sequence[bytes]) -> Callable[[LedgerView], Awaitable[State]]:
    async def program(view: LedgerView) -> State:
        return {key: data_of(entry) for key, entry in (await view.read(keys)).items()}

    return program


class TestFinishing:
    """The transaction ends in few rounds if it can."""

    def test_quiet_chain_takes_one_round(self) -> None:
        """If the chain does not move, everything is read once, with 200 keys in a request."""
        source = ChainSource(quiet_chain(*QUIET))
        reading = asyncio.run(read_at_one_ledger(source, states_of(QUIET)))

        assert dict.fromkeys(QUIET, (b"value", False)) == reading.result
        assert 1 == reading.certificate.rounds
        assert 101 == reading.certificate.ledger
        assert 5 == len(source.log)

    @pytest.mark.parametrize("seed", range(5))
    def test_busy_few_among_quiet_many(self, seed: int) -> None:
        """Five entries that change at every ledger do not keep 1,000 quiet ones from a common ledger."""
        rng = random.Random(seed)
        busy = [f"busy {number}".encode() for number in range(5)]
        keys = QUIET + busy
        rng.shuffle(keys)
        chain = busy_chain(*busy, quiet=keys, ledgers=50)
        source = ChainSource(chain, requests_per_ledger=3)
        reading = asyncio.run(read_at_one_ledger(source, states_of(keys)))

        assert true_state(chain, reading.result, reading.certificate.ledger) == reading.result
        assert reading.certificate.rounds <= 4
        assert len(source.log) <= 4 * 6

    @pytest.mark.parametrize("pace", range(3, 8))
    def test_absent_entries_that_are_never_removed_cost_no_round(self, pace: int) -> None:
        """1,000 keys without an entry bind no ledger when their contract keeps what it writes, even as some appear."""
        chain = Chain()
        busy, awaited = [b"busy %d" % number for number in range(5)], [b"awaited %d" % number for number in range(1000)]
        for key in QUIET:
            chain.put(key, b"value")

        def change(chain: Chain) -> None:
            for key in busy if chain.ledger % 20 else (*busy, awaited[chain.ledger]):
                chain.put(key, f"at {chain.ledger + 1}".encode())

        chain.on_close = change
        chain.close_ledger()
        source = ChainSource(chain, requests_per_ledger=pace)

        async def program(view: LedgerView) -> State:
            found = [*(await view.read(QUIET)).items(), *(await view.read(busy, never_removed=awaited)).items()]
            return {key: data_of(entry) for key, entry in found}

        reading = asyncio.run(read_at_one_ledger(source, program))

        assert true_state(chain, reading.result, reading.certificate.ledger) == reading.result
        assert reading.certificate.rounds <= 4

    @pytest.mark.parametrize(("kept", "first"), [([], 102), ([b"never"], 101)])
    def test_an_absent_entry_that_may_be_removed_binds_its_ledger(self, kept: list[bytes], first: int) -> None:
        """An absence of any other key says nothing about earlier ledgers: the entry may have been there."""
        chain = quiet_chain(b"other")
        chain.close_ledger()

        async def program(view: LedgerView) -> None:
            await view.read([b"other"] if kept else [b"other", b"never"], kept)

        certificate = asyncio.run(read_at_one_ledger(ChainSource(chain), program)).certificate

        assert (first, 102) == (certificate.interval.first, certificate.interval.last)


def test_program_that_reads_nothing() -> None:
    """A reading that uses nothing of the ledger holds at the newest one."""

    async def program(view: LedgerView) -> str:
        return "nothing"

    reading = asyncio.run(read_at_one_ledger(ChainSource(Chain(first_ledger=77)), program))

    assert ("nothing", 77) == (reading.result, reading.certificate.ledger)


async def pause(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


class LateSource(ChainSource):
    """Gives each answer only after whoever else is ready has asked, too, as requests in flight together do."""

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        answers = await super().read_entries(keys)
        await pause(4 * BATCH_TURNS)
        return answers

    async def simulate_together(self, calls: Sequence[ContractCall]) -> list[SimulationAnswer]:
        """The calls of one request: each is at a ledger of its own, because ledgers close between them."""
        answers = [await self.simulate(call) for call in calls]
        await pause(4 * BATCH_TURNS)
        return answers


def requests_of(source: ChainSource) -> list[int]:
    return [keys for kind, keys, _ in source.log if kind == "entries"]


class TestPartsTogether:
    """Keys that parts of a program ask for at the same time go out in common requests."""

    def test_a_failed_common_request_reaches_every_waiting_part(self) -> None:
        """If the common request fails, every part that waits for it gets the error, and the run ends with it."""

        class Failing(ChainSource):
            async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
                raise SourceError("down")

        async def program(view: LedgerView) -> None:
            parts = await asyncio.gather(*(view.read([key]) for key in QUIET[:4]), return_exceptions=True)
            assert ["down"] * 4 == list(map(str, parts))
            raise SourceError("all parts failed")

        with pytest.raises(SourceError, match="all parts failed"):
            asyncio.run(read_at_one_ledger(Failing(quiet_chain(*QUIET)), program))

    def test_a_part_a_few_turns_behind_is_waited_for(self) -> None:
        """A part that is a few turns of the event loop behind, as one that starts parts of its own, is waited for."""
        source = ChainSource(quiet_chain(*QUIET))

        async def late(view: LedgerView) -> None:
            await pause(BATCH_TURNS - 1)
            await view.read([QUIET[1]])

        async def program(view: LedgerView) -> None:
            await asyncio.gather(view.read([QUIET[0]]), late(view))

        asyncio.run(read_at_one_ledger(source, program))

        assert [2] == requests_of(source)

    def test_a_cancelled_part_costs_the_others_nothing(self) -> None:
        """A part that is cancelled costs the others nothing."""
        source = ChainSource(quiet_chain(*QUIET))

        async def program(view: LedgerView) -> list[int]:
            parts = [asyncio.create_task(view.read([key])) for key in QUIET[:3]]
            await pause(2)
            parts[0].cancel()
            left = await asyncio.gather(*parts, return_exceptions=True)
            return [len(part) for part in left if not isinstance(part, BaseException)]

        assert [1, 1] == asyncio.run(read_at_one_ledger(source, program)).result
        assert [3] == requests_of(source)

    @given(
        st.lists(st.lists(st.lists(st.integers(0, 999), max_size=300), min_size=1, max_size=4), min_size=1, max_size=6),
        st.integers(0, 2**32),
    )
    @settings(max_examples=60, deadline=None)
    def test_requests_are_bounded_by_keys_and_waves(self, parts: list[list[list[int]]], seed: int) -> None:
        """Any parts in any waves see the true state, with at most ceil(keys / 200) requests and one for each wave."""
        chain = quiet_chain(*QUIET)
        source = ChainSource(chain, seed=seed)

        async def part(view: LedgerView, waves: list[list[int]]) -> State:
            state: State = {}
            for wave in waves:
                entries = await view.read([QUIET[number] for number in wave])
                state |= {key: data_of(entry) for key, entry in entries.items()}
            return state

        async def program(view: LedgerView) -> list[State]:
            return await asyncio.gather(*(part(view, waves) for waves in parts))

        reading = asyncio.run(read_at_one_ledger(source, program))
        keys = {number for waves in parts for wave in waves for number in wave}

        assert all(true_state(chain, state, reading.certificate.ledger) == state for state in reading.result)
        assert sum(requests_of(source)) == len(keys)
        assert len(requests_of(source)) <= -(-len(keys) // 200) + max(map(len, parts))


class TestCertificate:
    def test_is_of_everything_that_was_used(self) -> None:
        """The interval is of everything that was used, and what that was is counted."""
        chain = Chain()
        chain.put(b"old", b"1")
        chain.close_ledger()
        for _ in range(5):
            chain.close_ledger()
        chain.put(b"new", b"2")
        for _ in range(3):
            chain.close_ledger()
        chain.functions["price"] = lambda reader: number_result(len(reader.get(b"old") or b""))

        async def program(view: LedgerView) -> None:
            await view.read([b"old", b"new"])
            await view.call([ContractCall("oracle", "price")])

        certificate = asyncio.run(read_at_one_ledger(ChainSource(chain), program)).certificate

        assert (107, 109) == (certificate.interval.first, certificate.interval.last)
        assert 109 == certificate.ledger
        assert (2, 1, 1, 0) == (
            certificate.keys,
            certificate.calls,
            certificate.footprint_keys,
            certificate.uncertified_calls,
        )

    def test_failed_call_binds_no_ledger(self) -> None:
        """A call that trapped at another ledger than the entries were read at is not a reason to read again."""
        chain = Chain()
        chain.put(b"key", b"1")
        chain.close_ledger()
        chain.functions["price"] = lambda _: None
        source = ChainSource(chain, requests_per_ledger=2)

        async def program(view: LedgerView) -> str | None:
            await view.read([b"key", b"absent"])
            return (await view.call([ContractCall("oracle", "price")]))[0].error

        reading = asyncio.run(read_at_one_ledger(source, program))

        assert "HostError: trapped" == reading.result
        assert (101, 1) == (reading.certificate.ledger, reading.certificate.rounds)
        assert [("entries", 2, 101), ("call", 0, 102)] == source.log


class TestRefusing:
    """If no ledger covers everything, the transaction says so."""

    def test_nothing_more_is_asked_once_the_time_is_up(self) -> None:
        """Once the time is up nothing more is asked, however many rounds are left."""
        source = ChainSource(busy_chain(b"a", b"b"), requests_per_ledger=1, keys_per_request=1)
        limits = ViewLimits(max_rounds=1000, max_seconds=-1)

        with pytest.raises(NoCommonLedgerError, match="after 1 rounds"):
            asyncio.run(read_at_one_ledger(source, states_of([b"a", b"b"]), limits))

        assert 2 == len(source.log)

    @pytest.mark.parametrize(("rounds", "requests"), [(1, 2), (2, 5), (3, 8)])
    def test_rounds_that_run_out(self, rounds: int, requests: int) -> None:
        """Exactly as many rounds as are allowed are made, each of a few requests."""
        source = ChainSource(busy_chain(b"a", b"b"), requests_per_ledger=1, keys_per_request=1)

        with pytest.raises(NoCommonLedgerError, match=f"after {rounds} rounds"):
            asyncio.run(read_at_one_ledger(source, states_of([b"a", b"b"]), ViewLimits(max_rounds=rounds)))

        assert requests == len(source.log)

    @pytest.mark.parametrize(
        ("limits", "problem"),
        [(ViewLimits(max_calls=10), "10 contract calls at most"), (ViewLimits(max_keys=10), "10 ledger keys at most")],
    )
    def test_too_many_questions(self, limits: ViewLimits, problem: str) -> None:
        """A ledger that makes a program use more than the bounds is refused before more is asked."""
        source = ChainSource(Chain(functions={"price": lambda _: None}))

        async def program(view: LedgerView) -> None:
            async def part(numbers: range) -> None:
                await view.call(ContractCall(f"{number}", "price") for number in numbers)
                await view.read(QUIET[number] for number in numbers)

            await part(range(5))
            await asyncio.gather(part(range(8)), part(range(8, 11)))

        with pytest.raises(NoCommonLedgerError, match=problem):
            asyncio.run(read_at_one_ledger(source, program, limits))

        assert 1 == len(requests_of(source))

    def test_more_busy_entries_than_a_request_holds(self) -> None:
        """Entries that change at every ledger and never fit one request are refused, naming a key."""
        busy = [f"busy {number}".encode() for number in range(4)]
        source = ChainSource(busy_chain(*busy), requests_per_ledger=1, keys_per_request=2)

        with pytest.raises(NoCommonLedgerError, match=busy[0].hex()[:8]) as caught:
            asyncio.run(read_at_one_ledger(source, states_of(busy)))

        assert 3 == caught.value.exit_code

    def test_call_that_cannot_be_certified_is_an_error_of_its_own(self) -> None:
        """Calls that never hold at one ledger lose their result, and the entries are still read."""
        chain = Chain()
        chain.on_close = lambda chain: chain.put(b"oracle", str(chain.ledger + 1).encode())
        chain.put(b"pool", b"value")
        chain.functions["price"] = lambda reader: number_result(int(reader.get(b"oracle") or b"0"))
        chain.close_ledger()
        source = ChainSource(chain, requests_per_ledger=1)

        async def program(view: LedgerView) -> tuple[object, list[str | None]]:
            entries = await view.read([b"pool"])
            calls = await view.call([ContractCall("a", "price"), ContractCall("b", "price")])
            return data_of(entries[b"pool"]), [call.error for call in calls]

        reading = asyncio.run(read_at_one_ledger(source, program))
        pool, errors = reading.result

        assert (b"value", False) == pool
        assert reading.certificate.uncertified_calls >= 1
        assert any(error is not None and "not known to hold at ledger" in error for error in errors)

    @pytest.mark.parametrize(("answer", "problem"), [(b"two", "disagree"), (b"zero", "older")])
    def test_nodes_of_two_chains(self, answer: bytes, problem: str) -> None:
        """Other data for the same last change, or an older version in a later answer, mean a faulty endpoint."""
        seen = KeyObservation(Entry(b"key", RawEntry(b"one", 95, None)), 100)

        with pytest.raises(SourceError, match=problem):
            seen.update(b"key", RawEntry(answer, 95 if problem == "disagree" else 90, None), 101)


def _random_chain(rng: random.Random) -> tuple[Chain, list[bytes]]:
    keys = [f"key {number}".encode() for number in range(rng.randint(2, 9))]
    chain = Chain()

    def write(chain: Chain, key: bytes) -> None:
        choice = rng.random()
        ledger = chain.ledger + 1
        if choice < 0.15:
            chain.put(key, None)
        elif choice < 0.3:
            chain.put(key, f"temporary {ledger}".encode(), ledger + rng.randint(0, 6), temporary=True)
        elif choice < 0.45:
            chain.put(key, f"persistent {ledger}".encode(), ledger + rng.randint(0, 6))
        else:
            chain.put(key, f"value {ledger}".encode())

    def change(chain: Chain) -> None:
        for key in keys:
            if rng.random() < rates[key]:
                write(chain, key)
        if rng.random() < list_rate:
            chain.put(b"list", b",".join(rng.sample(keys, rng.randint(1, len(keys)))))

    rates = {key: rng.choice([0.0, 0.02, 0.02, 0.1, 0.5, 1.0]) for key in keys}
    list_rate = rng.choice([0.0, 0.02, 0.2])
    for key in keys:
        if rng.random() < 0.9:
            write(chain, key)
    chain.put(b"list", b",".join(keys))
    chain.on_close = change
    chain.functions["join"] = lambda reader: _join(reader, keys)
    chain.functions["trap"] = lambda reader: None if len(reader.get(keys[0]) or b"") % 2 else number_result(1)
    for _ in range(rng.randint(10, 30)):  # no node lags to before the list was there
        chain.close_ledger()
    return chain, keys


def _join(reader: Reader, keys: list[bytes]) -> bytes:
    return number_result(sum(len(reader.get(key) or b"") * 100**index for index, key in enumerate(keys[:3])))


async def _program(view: LedgerView) -> tuple[State, tuple[Outcome, ...]]:
    """Reads a list, then what the list names, then calls: each step derived from the one before."""
    listed = (await view.read([b"list"]))[b"list"]
    assert listed is not None
    keys = listed.raw.data.split(b",")
    entries = await view.read(keys)
    state: State = {b"list": data_of(listed)} | {key: data_of(entries[key]) for key in keys}
    results = await view.call([ContractCall("contract", "join"), ContractCall("contract", "trap")])
    return state, tuple((result.value, result.error) for result in results)


def _run_schedule(seed: int, together: bool) -> str:
    rng = random.Random(seed)
    chain, keys = _random_chain(rng)
    source = (LateSource if together else ChainSource)(
        chain,
        requests_per_ledger=rng.choice([None, 1, 2, 3, 7]),
        keys_per_request=rng.choice([1, 2, 3, 200]),
        lags=rng.choice([(0,), (0, 1), (0, 0, 5), (0, 3, 9)]),
        close_probability=rng.choice([0.0, 0.1, 0.5]),
        seed=seed,
    )

    async def program(view: LedgerView) -> list[tuple[State, tuple[Outcome, ...]]]:
        return await asyncio.gather(*(_program(view) for _ in range(1 + together)))

    try:
        reading = asyncio.run(read_at_one_ledger(source, program, ViewLimits(max_rounds=8)))
    except NoCommonLedgerError:
        assert len(source.log) < 8 * 200
        return "refused"
    assert all(part == reading.result[0] for part in reading.result), f"seed {seed}"
    state, (join, _trap) = reading.result[0]
    ledger = reading.certificate.ledger
    assert true_state(chain, state, ledger) == state, f"seed {seed}"
    listed = chain.at(b"list", ledger)
    assert listed is not None
    assert {b"list", *listed.data.split(b",")} == set(state), f"seed {seed}"
    value, error = join
    if error is None:
        expected = _join(Reader(chain, ledger), keys)
        assert (10, int.from_bytes(expected[4:], "big", signed=True)) == value, f"seed {seed}"
        return "read"
    assert "not known to hold" in error
    return "read without call"


SLOW = pytest.mark.slow
SCHEDULES = [(150, False), (60, True), pytest.param(20_000, False, marks=SLOW), pytest.param(5_000, True, marks=SLOW)]


@pytest.mark.parametrize(("schedules", "together"), SCHEDULES)
def test_any_schedule_gives_the_true_state_or_a_refusal(schedules: int, together: bool) -> None:
    """The result is the chain's true state at the ledger it names, or a refusal; two programs see the same state."""
    counts = Counter(_run_schedule(seed, together) for seed in range(schedules))

    # Most schedules can be read, so the comparison was made.
    assert counts["read"] > (0.4 if together else 0.5) * schedules, counts
    assert together or counts["refused"] > 0, counts


@pytest.mark.parametrize(("spacing", "ledgers", "taken"), [(1, 40, 141), (64, 40, 127), (64, 20, 121)])
def test_a_checkpoint_is_taken_where_one_will_do(spacing: int, ledgers: int, taken: int) -> None:
    """The newest checkpoint among the ledgers at which all holds is taken or, without one, the newest ledger."""
    chain = Chain()
    chain.put(b"quiet", b"value")
    for _ in range(ledgers + 1):
        chain.close_ledger()

    reading = asyncio.run(read_at_one_ledger(ChainSource(chain), states_of([b"quiet"]), ViewLimits(spacing=spacing)))

    assert taken == reading.certificate.ledger
