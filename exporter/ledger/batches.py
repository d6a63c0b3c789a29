"""Runs parts of a reading next to each other, and joins their questions into few requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeVar

Q = TypeVar("Q", bound=Hashable)

BATCH_TURNS = 5
"""The number of turns of the event loop for which a batch waits for more questions. Then every part has asked."""


class Batcher(Generic[Q]):
    """Collects the questions of a program's parts, and gives a batch to ``send`` when every part has asked.

    So several small readers need no more requests than one large reader. A question that is under way is not sent
    again: who asks it meanwhile waits for the same answer.
    """

    def __init__(self, send: Callable[[list[Q]], Awaitable[None]]) -> None:
        self._send = send
        self._collecting: asyncio.Task[None] | None = None
        self._under_way: dict[Q, asyncio.Task[None]] = {}
        """The questions that are not answered yet, with the task that sends each."""

    def stop(self) -> None:
        """Cancel the requests that are under way."""
        for task in set(self._under_way.values()):
            task.cancel()

    async def ask(self, questions: Iterable[Q]) -> None:
        """Wait until these questions are answered. Raises what ``send`` raises."""
        tasks = {self._task_of(question) for question in questions}
        # Shielded, because a part that is cancelled must not cancel the request of the others.
        await asyncio.gather(*map(asyncio.shield, tasks))

    def _task_of(self, question: Q) -> asyncio.Task[None]:
        if question not in self._under_way:
            if self._collecting is None:
                self._collecting = asyncio.create_task(self._send_soon())
                self._collecting.add_done_callback(self._forget)
            self._under_way[question] = self._collecting
        return self._under_way[question]

    def _forget(self, done: asyncio.Task[None]) -> None:
        self._under_way = {question: task for question, task in self._under_way.items() if task is not done}
        if self._collecting is done:  # it was stopped before it sent anything
            self._collecting = None

    async def _send_soon(self) -> None:
        for _ in range(BATCH_TURNS):
            await asyncio.sleep(0)
        collecting, self._collecting = self._collecting, None
        await self._send([question for question, task in self._under_way.items() if task is collecting])


async def gather_or_cancel(*parts: Coroutine[Any, Any, Any]) -> list[Any]:
    """The results of all parts. If one of them raises, the others are cancelled before its error goes on."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
