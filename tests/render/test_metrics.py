"""The metrics for monitors."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

import exporter.render.run_documents
from exporter.render.run_documents import render_metrics
from tests.render.compared import A, B, X, Y, pool, tables
from tests.render.rendering import contract


def test_metrics_are_read_by_the_monitor_s_own_parsers() -> None:
    """Parsers understand both forms of the text, and every number is the published one to its last digit."""
    odd = 'a"b\\c\nd'
    run = tables(
        7,
        [
            pool(symbol=odd, supply_apy_bps=610, decimals=7, total_supplied=10**30 + 1, tvl_usd_cents=None),
            pool(A, Y, supply_apy_bps=0, decimals=0, total_supplied=5, tvl_usd_cents=12345, can_supply=None),
            pool(B, decimals=4_000_000_000),
        ],
    )
    text = render_metrics(run).data.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]

    def values(name: str) -> dict[tuple[str, str], float]:
        return {(it.labels["market"], it.labels["pool"]): it.value for it in families[f"lending_{name}"].samples}

    assert {"gauge"} == {family.type for family in families.values()}
    assert 7 == families["lending_run_ledger"].samples[0].value
    assert 0.061 == values("pool_supply_apy_ratio")[A, X]
    assert {(A, Y): 123.45} == {key: it for key, it in values("pool_tvl_usd").items() if key[0] == A}
    assert odd == families["lending_pool_open"].samples[0].labels["symbol"]
    supplied = [s.labels["operation"] for s in families["lending_pool_open"].samples if s.labels["pool"] == Y]
    assert "supply" not in supplied
    assert (B, X) not in values("pool_supplied_tokens")
    assert f"{10**23}.0000001" in text
    plain = {family.name: len(family.samples) for family in prometheus_families(text)}
    assert plain == {name: len(family.samples) for name, family in families.items()}


def test_metrics_of_very_many_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of the highest value have lines, in the order of the pools, and the number of the others is given."""
    monkeypatch.setattr(exporter.render.run_documents, "MAX_METRIC_POOLS", 3)
    worth = {A: 5, B: 9, X: None, Y: None, contract(30): None}
    rows = [pool(market, market, tvl_usd_cents=value) for market, value in sorted(worth.items())]
    text = render_metrics(tables(7, rows)).data.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]

    first_of_the_others = min(X, Y, contract(30))
    assert sorted([A, B, first_of_the_others]) == [
        sample.labels["market"] for sample in families["lending_pool_utilization_ratio"].samples
    ]
    assert 2 == families["lending_pools_not_shown"].samples[0].value
    assert 5 == families["lending_pools"].samples[0].value
