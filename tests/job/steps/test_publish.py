"""Tests of exporter/job/steps/publish.py."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from exporter.job.steps.publish import without_collecting


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was_after_rendering(enabled: bool) -> None:
    """The search for reference cycles is off while a run renders, and then as before, also after an error."""
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with suppress(KeyError), without_collecting():
            within = gc.isenabled()
            raise KeyError
        after = gc.isenabled()
    finally:
        (gc.enable if was_enabled else gc.disable)()

    assert (False, enabled) == (within, after)
