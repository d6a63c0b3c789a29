"""Extensionless copies of documents (exporter/tree/routes.py; docs/api.md, "Documents")."""

from __future__ import annotations

import pytest

from exporter.tree.families import alias_of, former_alias_of, is_alias
from exporter.tree.routes import Served, route

M = "C" + "A" * 55
T = "C" + "B" * 55

PUBLIC = {
    "v1/assets/index.json": "v1/assets",
    "v1/markets.json": "v1/markets",
    f"v1/markets/{M}.json": f"v1/markets/{M}",
    "v1/system/status.json": "v1/system/status",
}

FORMER = {
    f"v1/assets/{M}/{T}.json": f"v1/assets/{M}/{T}",
    f"v1/assets/{M}/{T}/history/1d.json": f"v1/assets/{M}/{T}/history",
    f"v1/tokens/{T}.json": f"v1/tokens/{T}",
    "v1/protocol/summary.json": "v1/protocol/summary",
    "v1/protocols.json": "v1/protocols",
    "v1/errors/404.json": "v1/errors/404",
    "v1/history.json": "v1/history",
}
"""Copies that earlier versions wrote."""

WITHOUT_ALIAS = [
    "index.html",
    "v1/openapi.json",
    "v1/assets/empty.json",
    "v1/assets/limit/20.json",
    f"v1/assets/market/{M}/index.json",
    f"v1/assets/market/{M}/limit/5.json",
    f"v1/assets/market/{M}/token/{T}/index.json",
    f"v1/assets/token/{T}/index.json",
    f"v1/assets/{M}/{T}/history/5m.json",
    f"v1/assets/{M}/{T}/history/1w.json",
    "v1/pages/abc.json",
    "v1/buckets/abc.json",
    "v1/runs/7-abc.json",
    "v1/system/intent.json",
    "v1/system/superseded.json",
    "history/pools/date=2026-11-21/1.parquet",
    "state/history-buckets.bin",
    "v1/markets/not-a-strkey.json",
    "v1/assets",
]


@pytest.mark.parametrize("key", PUBLIC)
def test_public_paths(key: str) -> None:
    """The few documents that a bare bucket answers also stand under their public path, and the rule agrees."""
    alias = alias_of(key)

    assert PUBLIC[key] == alias
    assert is_alias(alias)
    answer = route(f"/{alias}", "", (1, 20))
    assert isinstance(answer, Served)
    assert key in answer.keys


@pytest.mark.parametrize("key", WITHOUT_ALIAS)
def test_other_keys(key: str) -> None:
    """Pages, records, what only a query string picks, and what has its extension in the path stand once."""
    assert None is alias_of(key)
    assert None is former_alias_of(key) or key.startswith("v1/runs/")


@pytest.mark.parametrize("key", FORMER)
def test_former_copies(key: str) -> None:
    """Other documents have no copy any more, and the one that an earlier version left is known."""
    assert (None, FORMER[key]) == (alias_of(key), former_alias_of(key))


@pytest.mark.parametrize("key", [*PUBLIC, *WITHOUT_ALIAS[:-1]])
def test_no_key_of_the_tree_looks_like_an_alias(key: str) -> None:
    """Whatever a run writes can be told from the copies."""
    assert not is_alias(key)
