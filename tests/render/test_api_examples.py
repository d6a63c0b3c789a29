"""Examples of the API's parameters, which the tree that has them answers."""

from __future__ import annotations

from msgspec.structs import replace

from exporter.protocols.compute import Tables
from exporter.render.api_examples import examples_of, filled
from exporter.tree.risk_documents import PublishedRisk, RiskDocument
from tests.render.rendering import contract
from tests.render.site.made import pool_row, tables_of


def tables(*rows: dict[str, object]) -> Tables:
    """Tables of pools, one a market, ascending by market."""
    return tables_of([pool_row(number, number, **row) for number, row in enumerate(rows)])


def test_examples_are_of_the_first_listed_pool() -> None:
    """All are of one pool, so that a path with several parameters is answered; an unlisted pool only without others."""
    made = tables({"listed": False, "symbol": "OTHER"}, {"symbol": "USDC"}, {"symbol": "EURC"})
    second = made.pools.row(1, named=True)

    assert {
        "market": second["market"],
        "pool": second["pool"],
        "token": second["token_address"],
        "address": second["token_address"],
        "protocol": second["protocol"],
        "symbol": "USDC",
    } == examples_of(made, None)
    assert "OTHER" == examples_of(tables({"listed": False, "symbol": "OTHER"}), None)["symbol"]


def test_a_symbol_is_the_one_that_people_use_and_has_a_file() -> None:
    """The native asset's example is XLM; a symbol that no file can have is no example."""
    native = tables({"symbol": "native"})

    assert "XLM" == examples_of(native, native.pools["token_address"][0])["symbol"]
    assert "symbol" not in examples_of(tables({"symbol": "a token"}), None)


def test_what_a_tree_has_not_has_no_example() -> None:
    """Without pools there is no example, but for the checkpoint of the risk that the run shows."""
    document = RiskDocument("network", 127, "2026-11-29T00:00:00Z", "0" * 64, [], [])
    risk = PublishedRisk("v1/risk/127.json", "0" * 64, document)

    assert {} == examples_of(tables(), None)
    assert {"checkpoint": 127} == examples_of(replace(tables(), risk=risk), None)


def test_a_path_is_filled_with_examples() -> None:
    """Values are percent-encoded, and a parameter without an example stays."""
    assert f"/v1/assets/{contract(1)}/a%2Fb/{{rest}}" == filled(
        "/v1/assets/{market}/{pool}/{rest}", {"market": contract(1), "pool": "a/b"}
    )
