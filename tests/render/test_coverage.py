"""The document that says what is covered."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import polars as pl

from exporter.deployments import Deployment, KnownContract
from exporter.numbers.compute import Tables, Unpriced
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Absent, Unread
from exporter.render.endpoints import excluded_on, protocol_list
from exporter.tables import MARKETS
from exporter.tree.read_back import render_document
from tests.history.frames import pools_frame
from tests.render.rendering import LEDGER, contract
from tests.render.test_overview import market

A, B, C, D = (contract(number) for number in (1, 2, 3, 4))


def coverage(tables: Tables, *deployments: Deployment, network: str = "mainnet") -> dict[str, Any]:
    """The document, its protocols by name."""
    file = render_document(protocol_list(tables, PROTOCOLS, deployments, network))
    assert "v1/protocols.json" == file.key
    document: dict[str, Any] = json.loads(file.data)
    return document | {"data": {part["protocol"]: part for part in document["data"]}}


def tables_of(*markets: dict[str, object], **missing: Any) -> Tables:
    return Tables(LEDGER, 1, pools_frame([], LEDGER), pl.DataFrame(markets, schema=MARKETS), **missing)


def test_every_protocol_is_there() -> None:
    """A protocol of which nothing was found is listed all the same, with nothing but zeros."""
    document = coverage(tables_of())

    assert sorted(PROTOCOLS) == sorted(document["data"])
    assert LEDGER == document["observed_ledger"]
    for part in document["data"].values():
        assert 0 == sum(value for name, value in part.items() if name.endswith("_count"))


def test_counts_of_what_was_found() -> None:
    """Markets, pools, and what is missing are counted for each protocol apart."""
    document = coverage(
        tables_of(
            market(A, pools=3),
            market(B, "alula", pools=2),
            unread=[Unread(A, C, "blend", "archived", "x"), Unread(D, None, "blend", "undecodable", "x")],
            absent=[Absent(C, "alula", "x")],
            unpriced=[Unpriced(A, C, "x"), Unpriced(B, C, "x"), Unpriced(B, D, "x")],
        )
    )

    names = ("market_count", "pool_count", "unread_count", "unpriced_count", "absent_count")
    assert [1, 3, 2, 1, 0] == [document["data"]["blend"][name] for name in names]
    assert [1, 2, 0, 2, 1] == [document["data"]["alula"][name] for name in names]


def test_versions_of_the_contracts() -> None:
    """Markets are counted by the code they run, the unknown among them."""
    rows = [market(A), market(B) | {"wasm_hash": "ab" * 32}, market(C) | {"wasm_hash": "ab" * 32}]

    versions = coverage(tables_of(*rows))["data"]["blend"]["contract_versions"]

    expected = [(None, 1), ("ab" * 32, 2)]
    assert expected == [(version["wasm_hash"], version["market_count"]) for version in versions]


def test_known_contracts_with_their_source() -> None:
    """Every address that was known beforehand stands with its role, and where and when it was taken."""
    known = KnownContract(A, "backstop", "a list", date(2026, 11, 18))

    document = coverage(tables_of(), Deployment("blend", "v2", (known,)))

    expected = {
        "deployment": "v2", "role": "backstop", "address": A, "name": "", "wasm_hash": None, "source": "a list",
        "date": "2026-11-18",
    }  # fmt: skip
    assert [expected] == document["data"]["blend"]["known_contracts"]
    assert [] == document["data"]["alula"]["known_contracts"]


def test_what_is_left_out() -> None:
    """On mainnet the vaults that would count Blend twice are named with the reason; elsewhere nothing is."""
    excluded = {item["name"]: item["reason"] for item in coverage(tables_of())["excluded"]}

    assert "twice" in excluded["DeFindex"]
    assert "NEAR" in excluded["Templar"]
    assert all(excluded.values())
    assert [] == coverage(tables_of(), network="local")["excluded"]
    assert () == excluded_on("nowhere")
