"""What is said of the publisher's own records in a tree."""

from __future__ import annotations

import io

import polars as pl
import pytest

from exporter.audit.private_files import judge_private_files
from exporter.audit.unproven import UnprovenReason
from exporter.history.series import OLDER_KEY
from tests.render.rendering import system_status


def packed(*numbers: int) -> bytes:
    """A Parquet file of some numbers."""
    buffer = io.BytesIO()
    pl.DataFrame({"number": list(numbers)}).write_parquet(buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("derived", "is_proven"),
    [(packed(1, 2), True), (packed(1, 3), False), (packed(1), False), (b"no table", False), (None, False)],
)
def test_older_days_follow_from_the_history(derived: bytes | None, is_proven: bool) -> None:
    """Older days that the history does not give are named as the history's, whatever they are."""
    judged = list(judge_private_files({OLDER_KEY: packed(1, 2)}, system_status(), None, derived, "", 0))

    expected = [(UnprovenReason.HISTORY, f"{OLDER_KEY} (the files of the history give other days)")]
    assert ([] if is_proven else expected) == judged
