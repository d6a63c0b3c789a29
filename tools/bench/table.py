"""What a benchmark found, as a table in Markdown, and two things timed in turn."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import process_time


@dataclass(frozen=True, slots=True)
class Row:
    """A figure in words, and where there is one the ratio to something that was measured in the same run."""

    what: str
    figure: str
    against: str = ""
    ratios: Sequence[float] = ()
    unit: str = "times as fast"


def table(rows: Iterable[Row]) -> str:
    """The rows as a table; of several ratios the median, with the lowest and the highest."""
    lines = ["| what | figure | against | ratio |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.figure} | {row.against} | {_shown(row)} |" for row in rows]
    return "\n".join(lines)


def put_between_markers(page: str, name: str, text: str) -> str:
    """A page of Markdown with another text between its two comments of this name. RuntimeError if it lacks them."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, first, rest = page.partition(begin)
    _, second, after = rest.partition(end)
    if not first or not second:
        raise RuntimeError(f"the page has no comments {begin.strip()} and {end.strip()}")
    return f"{before}{begin}\n{text}\n\n{end}{after}"


def _shown(row: Row) -> str:
    if not row.ratios:
        return ""
    low, high, count = min(row.ratios), max(row.ratios), len(row.ratios)
    spread = "" if count == 1 else f" ({low:.3g} to {high:.3g} in {count})"
    return f"**{statistics.median(row.ratios):.3g}** {row.unit}{spread}"


def in_turn(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int
) -> tuple[list[float], list[float], list[float]]:
    """Processor seconds of two actions, and theirs over ours, round by round; what disturbs one round disturbs both."""
    ours()  # caches and lazy imports
    theirs()
    our_times: list[float] = []
    their_times: list[float] = []
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            gc.collect()
            began = process_time()
            (ours, theirs)[which]()
            (our_times, their_times)[which].append(max(process_time() - began, 1e-9))
    return our_times, their_times, [slow / fast for fast, slow in zip(our_times, their_times, strict=True)]
