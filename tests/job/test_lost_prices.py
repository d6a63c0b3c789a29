"""Runs over markets whose oracles stop: what they say, and how they end until prices come back."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from exporter.errors import StoreError
from exporter.job.lost_prices import KEY, LostPrices, load_missed
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tables import PoolKey
from tests.job_runs import run, settings_for
from tests.localnet.recorded import only

pytestmark = pytest.mark.usefixtures("without_pages")

DAY = 86_400
BEGIN = 1_790_000_000


def run_on(store: Store, day: int, *, stale: bool, **flags: Any) -> tuple[int, dict[str, Any], str]:
    """A run on a day over the same three pools, whose prices are a day old or new."""
    time = BEGIN + day * DAY
    since = DAY if stale else 5
    network = RecordedNetwork(start_ledger=4_999 + 100 * day, start_time=time - since, close_seconds=since)
    network.close()
    said = io.StringIO()
    code, facts = run(settings_for(**only("slender"), **flags), store, said=said, network=network)
    return code, facts, said.getvalue()


def status_of(store: Store) -> dict[str, Any]:
    stored = store.get("v1/system/status.json")
    assert stored is not None
    document: dict[str, Any] = json.loads(stored.data)
    return document


def test_runs_end_with_7_until_prices_return() -> None:
    """Every run without the prices of the last days says so, also when these days are over; then all is well again."""
    store = MemoryStore()
    code, before, _ = run_on(store, 0, stale=False)
    assert 0 == code
    assert 0 == before["lost_prices"]["expected"]
    for day in (1, 12):
        code, facts, said = run_on(store, day, stale=True)
        lost = facts["lost_prices"]
        assert (7, True) == (code, lost["too_many"])
        assert lost["expected"] == len(lost["lost"]) == 3 - len(before["unpriced"])
        assert f"{len(lost['lost'])} of {len(lost['lost'])} pools that had a price in the last 7 days have none" in said
    code, facts, said = run_on(store, 14, stale=False)

    assert 0 == code
    assert not facts["lost_prices"]["too_many"]
    assert "that had a price" not in said
    assert not store.has(KEY)


def test_a_share_that_is_allowed_and_pools_that_are_dead_keep_the_code_at_0() -> None:
    """A share of 1 is never exceeded; pools that `allow_unread` lists, or whose oracle is excluded, lose no price."""
    choices: list[dict[str, Any]] = [{"max_unpriced_share": 1.0}, {"allow_unread": []}, {"exclude": [ORACLE]}]
    for flags in choices:
        store = MemoryStore()
        run_on(store, 0, stale=False)
        if "allow_unread" in flags:
            stored = store.get("v1/markets.json")
            assert stored is not None
            flags = {"allow_unread": [entry["market"] for entry in json.loads(stored.data)["data"]]}
        code, facts, said = run_on(store, 1, stale=True, **flags)

        assert (0, False) == (code, facts["lost_prices"]["too_many"])
        assert 10_000 == facts["unpriced_bps"]
        assert "3 of 3 pools have no price: " in said


def test_the_share_of_pools_without_a_price_is_published() -> None:
    """The status, the metrics and the report have it, in all and by market, without a failure."""
    store = MemoryStore()
    code, facts, _ = run_on(store, 0, stale=True)

    status, metrics = status_of(store), store.get("metrics.txt")
    assert metrics is not None
    assert 0 == code
    assert 10_000 == status["unpriced_bps"] == facts["unpriced_bps"]
    assert status["unpriced_markets"] == facts["unpriced_markets"]
    assert status["unpriced_count"] == sum(item["unpriced_count"] for item in status["unpriced_markets"])
    assert {10_000} == {item["unpriced_bps"] for item in status["unpriced_markets"]}
    assert b"\nlending_unpriced_ratio 1.0000\n" in metrics.data
    for item in status["unpriced_markets"]:
        assert f'\nlending_market_unpriced_ratio{{market="{item["market"]}"}} 1.0000\n'.encode() in metrics.data


@pytest.mark.parametrize(("expected", "lost", "too_many"), [(0, 0, False), (4, 2, False), (4, 3, True), (1, 1, True)])
def test_only_more_than_the_share_is_too_many(expected: int, lost: int, too_many: bool) -> None:
    """Exactly the share is allowed; without any pool that had a price there is nothing to lose."""
    assert too_many == LostPrices(expected, (PoolKey("C", "P"),) * lost, 0.5).too_many


def test_a_damaged_memory_is_named_and_costs_nothing_else() -> None:
    """A notice says that the file cannot be understood, and the run uses only the history."""
    store = MemoryStore()
    run_on(store, 0, stale=False)
    store.put(KEY, b"[[")
    with pytest.raises(StoreError, match=r"state/lost-prices\.memory cannot be understood .*; remove it"):
        load_missed(store)

    code, _, said = run_on(store, 1, stale=True)
    assert 7 == code
    assert "state/lost-prices.memory cannot be understood" in said
    assert load_missed(store)
