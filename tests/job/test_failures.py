"""The drill of docs/failures.md: each failure is produced, and ends as the page says."""

from __future__ import annotations

import pytest

from exporter.errors import ExitCode
from tests.failure_drill import FAILURES, documented, outcomes

PUBLISHED = [code for code in ExitCode if code.is_published]


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_ends_as_the_page_says(name: str) -> None:
    """Each failure has the exit code and the message of the page, and readers keep what was published.

    The metrics keep when that was, and when the next run was promised, so that a monitor sees that readers wait.
    """
    good, failures = outcomes()
    expected, failure, promised = documented()[name], failures[name], times_in(good.metrics)

    assert (expected.code, True) == (failure.code, expected.message in failure.message), failure.message
    assert 2 == len(promised)
    assert promised == times_in(failure.metrics)  # the drill's clock stands still, so a published run has the same
    if failure.code not in PUBLISHED and "status document" not in name and name != "the RPC is behind":
        assert good.status == failure.status


def times_in(metrics: str) -> set[str]:
    names = ("lending_run_published_timestamp_seconds ", "lending_run_next_expected_timestamp_seconds ")
    return {line for line in metrics.splitlines() if line.startswith(names)}


def test_the_drill_has_every_failure() -> None:
    """The page lists the failures that are tested here, and no others."""
    assert documented().keys() == FAILURES.keys()
