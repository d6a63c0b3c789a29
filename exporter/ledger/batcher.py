"""Questions that the parts of a program ask side by side, sent together.

What parts ask for in the same batch, that is before all of them wait for an answer, goes out in common requests, so
that many small readers cost no more than one large one. Calls wait until no part waits for keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from exporter.ledger.source import ContractCall

STILL_TURNS = 5
"""How many turns of the event loop without a further question mean that every part of the program waits."""


class _Batch:
    def __init__(self) -> None:
        self.keys: dict[bytes, None] = {}
        self.calls: dict[ContractCall, None] = {}
        self.questions = 0
        self.waiting = 0
        self.task: asyncio.Task[None] | None = None


class Batcher:
    """Collects keys and calls, and gives each batch to ``send`` when every part waits."""

    def __init__(self, send: Callable[[list[bytes], list[ContractCall]], Awaitable[None]]) -> None:
        self._send = send
        self._batches: dict[str, _Batch] = {}
        self._asking: set[asyncio.Task[None]] = set()  # those that ask for keys, until they are answered

    async def keys(self, asked: Sequence[bytes]) -> None:
        await self._ask("keys", asked)

    async def calls(self, asked: Sequence[ContractCall]) -> None:
        """Ask for calls. They wait for keys, and keys wait for no calls."""
        await self._ask("calls", asked)

    async def _ask(self, kind: str, asked: Sequence[bytes] | Sequence[ContractCall]) -> None:
        batch = self._batches.get(kind)
        if batch is None:
            batch = self._batches[kind] = _Batch()
            batch.task = asyncio.create_task(self._send_when_still(batch))
            if kind == "keys":
                self._asking.add(batch.task)
                batch.task.add_done_callback(self._asking.discard)
        assert batch.task is not None  # made with it
        getattr(batch, kind).update(dict.fromkeys(asked))
        batch.questions += 1
        batch.waiting += 1
        try:
            await asyncio.shield(batch.task)  # the others still wait for it when this part is cancelled
        finally:
            batch.waiting -= 1
            if not batch.waiting and not batch.task.done():
                self._end(batch)
                batch.task.cancel()

    async def _send_when_still(self, batch: _Batch) -> None:
        still = 0
        while still < STILL_TURNS:
            questions = batch.questions
            if batch.calls and self._asking:
                await asyncio.wait(self._asking)
                still = 0
            await asyncio.sleep(0)
            still = still + 1 if batch.questions == questions else 0
        self._end(batch)
        await self._send(list(batch.keys), list(batch.calls))

    def _end(self, batch: _Batch) -> None:
        self._batches = {kind: other for kind, other in self._batches.items() if other is not batch}
