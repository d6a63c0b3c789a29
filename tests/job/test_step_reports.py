"""Tests of exporter/job/step_reports.py."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.deployments.listing import MarketKey, MarketListings
from exporter.job.run_log import RunLog
from exporter.job.step_reports import report_missing
from exporter.tree.documents import Unread
from tests.job_runs import settings_for
from tests.render.compared import A, B, pool, tables


@pytest.mark.parametrize("protocols", list(permutations(["alula", "blend", "k2"])))
def test_a_listed_market_that_was_not_read_is_named_whatever_else_its_address_was_tried_as(
    protocols: tuple[str, ...],
) -> None:
    """Markets of other protocols with the same address are not listed, and hide it neither before nor behind it."""
    listings = MarketListings((), [MarketKey("blend", B)])
    unread = [Unread(B, None, protocol, "undecodable", "it is") for protocol in protocols]
    of_run = replace(tables(1, [pool(A)], unread=unread), listings=listings)
    read: Any = SimpleNamespace(listings=listings, notices=[])
    log = RunLog(None)

    assert [B] == report_missing(settings_for(), of_run, read, log)
    assert ["blend"] == [item.protocol for item in of_run.of_listed().unread]
