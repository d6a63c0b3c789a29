"""What happens to rows for which exact arithmetic has no result: they are named, and they can be set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import polars as pl

from exporter.errors import ExactDivisionError, ExactError, ExactOverflowError

_ROWS_IN_MESSAGE = 5


def failure(operation: str, overflowing: Sequence[int], dividing_by_zero: Sequence[int] = ()) -> ExactError:
    """The error for one operation: a division error if any row divides by zero, else an overflow.

    Its rows are the rows of both kinds, ascending.
    """
    rows = sorted({*overflowing, *dividing_by_zero})
    shown = ", ".join(str(row) for row in rows[:_ROWS_IN_MESSAGE]) + (", ..." if len(rows) > _ROWS_IN_MESSAGE else "")
    where = f"row {shown}" if len(rows) == 1 else f"{len(rows)} rows ({shown})"
    if not dividing_by_zero:
        return ExactOverflowError(f"{operation}: the result does not fit in {where}", rows)
    kinds = "division by zero or overflow" if overflowing else "division by zero"
    return ExactDivisionError(f"{operation}: {kinds} in {where}", rows)


@contextmanager
def naming(quantity: str) -> Iterator[None]:
    """Put the name of the quantity that is being computed before the message of an ExactError; also a decorator."""
    try:
        yield
    except ExactError as error:
        raise type(error)(f"{quantity}: {error}", error.rows) from error


def set_aside_failures(
    frame: pl.DataFrame, compute: Callable[[pl.DataFrame], pl.DataFrame]
) -> tuple[pl.DataFrame, dict[int, ExactError]]:
    """Compute the rows of a frame that can be computed.

    Args:
        frame: the input rows.
        compute: gives a result for a frame, or raises an ExactError with positions in the frame it was given. Each
            row's result must not depend on the other rows.

    Returns:
        What `compute` gives for the rows that have a result, in the frame's order, and for each of the other rows
        its position in `frame` with the error it raised.

    Raises:
        ExactError: when `compute` raises one that names no row.
    """
    positions = list(range(frame.height))
    failures: dict[int, ExactError] = {}
    kept = frame
    while True:  # every turn but the last sets at least one row aside
        try:
            return compute(kept), failures
        except ExactError as error:
            if not error.rows:
                raise
            failures.update({positions[row]: error for row in error.rows})
            positions = [position for position in positions if position not in failures]
            kept = frame[positions]
