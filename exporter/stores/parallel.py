"""Doing many small things at once, with a bound on how many wait and on the bytes that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def in_parallel(
    items: Iterable[_T],
    work: Callable[[_T], _R],
    *,
    workers: int,
    size_of: Callable[[_T], int] = lambda _: 0,
    most_bytes: int = 0,
    stop: Event,
) -> Iterator[_R]:
    """Do some work for every item of a stream, and give the results as they come, in any order.

    The stream is read as the work goes on: at most twice as many items as workers, and (beyond one item) at most so
    many bytes, were taken from it and not finished. The first error, of the work or of the stream, comes out of it
    when all work that was begun has ended.

    Args:
        items: the stream.
        work: what is done for each item, in a thread.
        workers: how many threads.
        size_of: how many bytes an item holds.
        most_bytes: how many bytes all items together may hold; 0: any number.
        stop: is set when an error occurred, so that the work can end early.
    """
    finished: SimpleQueue[Future[_R]] = SimpleQueue()
    sizes: dict[Future[_R], int] = {}
    held = 0
    with ThreadPoolExecutor(workers, thread_name_prefix="store") as pool:
        try:
            for item in items:
                size = size_of(item)
                while sizes and (len(sizes) >= 2 * workers or (most_bytes and held + size > most_bytes)):
                    future = finished.get()
                    held -= sizes.pop(future)
                    yield future.result()
                future = pool.submit(work, item)
                sizes[future] = size
                held += size
                future.add_done_callback(finished.put)
            while sizes:
                future = finished.get()
                del sizes[future]
                yield future.result()
        finally:
            if sizes:
                stop.set()
                for future in sizes:
                    future.cancel()
