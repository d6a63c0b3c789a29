"""The drill of docs/failures.md: each failure is produced, and ends as the page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.errors import ExitCode
from tests.failure_drill import FAILURES, STATUS, Drill, copied, documented, published

PUBLISHED = [code for code in ExitCode if code.is_published]


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    with published(tmp_path_factory.mktemp("drill")) as drill:
        yield drill


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_ends_as_the_page_says(name: str, drill: Drill, tmp_path: Path) -> None:
    """Each failure has the exit code and the message of the page, and readers keep what was published.

    The metrics keep when that was, and when the next run was promised, so that a monitor sees that readers wait.
    """
    own = copied(drill, tmp_path)
    before, promised = (own.out / STATUS).read_bytes(), times_in(own.metrics)
    code, message = FAILURES[name](own)

    expected = documented()[name]
    assert (expected.code, True) == (code, expected.message in message), message
    assert 2 == len(promised)
    assert promised == times_in(own.metrics)  # the clock of the drill stands still, so a published run has the same
    if code not in PUBLISHED and "status document" not in name and name != "the RPC is behind":
        assert before == (own.out / STATUS).read_bytes()


def times_in(metrics: Path) -> set[str]:
    names = ("lending_run_published_timestamp_seconds ", "lending_run_next_expected_timestamp_seconds ")
    return {line for line in metrics.read_text().splitlines() if line.startswith(names)}


def test_the_drill_has_every_failure() -> None:
    """The page lists the failures that are tested here, and no others."""
    assert documented().keys() == FAILURES.keys()
