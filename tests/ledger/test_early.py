"""Keys that a view reads early save requests and waits, and nothing follows from them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from exporter.errors import SourceError
from exporter.ledger.batches import BATCH_TURNS, Batcher
from exporter.ledger.source import ContractCall, EntriesAnswer, SimulationAnswer
from exporter.ledger.view import LedgerView, Reading
from tests.chain_simulator import Chain, ChainSource

KEYS = [f"key {number}".encode() for number in range(150)]
EXPECTED = [f"expected {number}".encode() for number in range(80)]
CALL, OTHER = ContractCall("C1", "one"), ContractCall("C2", "other")


class Source(ChainSource):
    """A source that logs keys and calls; ``fails`` says whether calls and single keys fail."""

    def __init__(self) -> None:
        chain = Chain()
        for key in (*KEYS, *EXPECTED):
            chain.put(key, b"value")
        chain.close_ledger()
        super().__init__(chain)
        self.asked: list[tuple[bytes, ...]] = []
        self.called: list[ContractCall] = []
        self.fails = False

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        self.asked.append(tuple(keys))
        if self.fails and len(keys) == 1:
            raise SourceError("not that one")
        return await super().read_entries(keys)

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        self.called.append(call)
        await asyncio.sleep(0)
        if self.fails:
            raise SourceError("not now")
        return SimulationAnswer(self.chain.ledger, b"\0\0\0\x03\0\0\0\x2a", None, (), "source")


def test_keys_that_are_read_early_come_along() -> None:
    """Early keys are in the same request as those that are needed now, and are not asked for again."""
    source = Source()

    async def program(view: LedgerView) -> int:
        await asyncio.gather(view.read(KEYS), view.read_early([KEYS[0], *EXPECTED]))
        await view.read_early(EXPECTED)
        return len(await view.read(EXPECTED[:3]))

    reading: Reading[int] = asyncio.run(LedgerView(source).run_until_consistent(program))

    assert 3 == reading.result
    assert [(*KEYS, *EXPECTED)] == source.asked
    assert {*KEYS, *EXPECTED[:3]} == set(reading.entries)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_read_early_binds_nothing(fails: bool) -> None:
    """Nobody who does not ask for it sees it, whether it came or failed, and the reading does not depend on it."""
    source = Source()
    source.fails = fails

    async def program(view: LedgerView) -> None:
        await view.read_early([EXPECTED[0]], alone=True)
        await view.simulate_early([CALL, OTHER])
        await view.read(KEYS)

    reading: Reading[None] = asyncio.run(LedgerView(source).run_until_consistent(program))

    assert (set(KEYS), {}) == (set(reading.entries), reading.calls)
    assert (0, len(KEYS)) == (reading.certificate.calls, reading.certificate.keys)


def test_a_call_that_failed_early_is_made_again() -> None:
    """A failure of the source is that of the question that needed the answer."""
    source = Source()

    async def program(view: LedgerView) -> int:
        source.fails = True
        await view.simulate_early([CALL])
        source.fails = False
        (result,) = await view.call([CALL])
        return 0 if result.value is None else result.value[1]

    assert 42 == asyncio.run(LedgerView(source).run_until_consistent(program)).result
    assert [CALL, CALL] == source.called


def test_a_question_that_is_under_way_is_not_sent_again() -> None:
    """Parts that ask for the same at the same time, or while it is asked for early, wait for one answer."""
    source = Source()

    async def program(view: LedgerView) -> list[int]:
        early = asyncio.create_task(view.simulate_early([CALL]))
        while not source.called:
            await asyncio.sleep(0)
        results = await asyncio.gather(view.call([CALL, OTHER]), view.call([OTHER, CALL]))
        await early
        return [result.value[1] for each in results for result in each if result.value is not None]

    reading: Reading[list[int]] = asyncio.run(LedgerView(source).run_until_consistent(program))

    assert [42, 42, 42, 42] == reading.result
    assert [CALL, OTHER] == source.called


@pytest.mark.parametrize("turns", range(1, BATCH_TURNS + 4))
def test_a_batcher_that_was_stopped_can_be_asked_again(turns: int) -> None:
    """Whenever requests are stopped, who waits for them is cancelled, and a later question is sent."""
    sent: list[list[int]] = []
    free = asyncio.Event()

    async def send(batch: list[int]) -> None:
        sent.append(batch)
        await free.wait()

    async def main() -> None:
        batcher = Batcher(send)
        waiting = asyncio.create_task(batcher.ask([1, 2]))
        for _ in range(turns):
            await asyncio.sleep(0)
        batcher.stop()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        free.set()
        await batcher.ask([2, 3])

    asyncio.run(main())

    assert [2, 3] == sent[-1]
