"""Questions that the parts of a program ask side by side, sent together.

What parts ask for before all of them wait for an answer is one batch, so that many small readers cost no more requests
than one large one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

Q = TypeVar("Q", bound=Hashable)

STILL_TURNS = 5
"""How many turns of the event loop without a further question mean that every part of the program waits."""


class Batcher(Generic[Q]):
    """Collects questions, and gives each batch to ``send`` when every part waits."""

    def __init__(self, send: Callable[[list[Q]], Awaitable[None]]) -> None:
        self._send = send
        self._batch: dict[Q, None] = {}
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, questions: Iterable[Q]) -> None:
        """Wait until these are answered. Raises what ``send`` does."""
        self._batch.update(dict.fromkeys(questions))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_when_still())
        await asyncio.shield(self._sending)  # the others still wait for it when this part is cancelled

    async def _send_when_still(self) -> None:
        still, size = 0, 0
        while still < STILL_TURNS:
            still, size = (still + 1, size) if size == len(self._batch) else (0, len(self._batch))
            await asyncio.sleep(0)
        batch, self._batch, self._sending = list(self._batch), {}, None
        await self._send(batch)
