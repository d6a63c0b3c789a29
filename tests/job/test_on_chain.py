"""The exporter's numbers against the contracts' own views, over the embedded network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import CheckError
from exporter.job.on_chain import ChainCheck
from exporter.localnet import alula, blend, contracts
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.made import MadeNetwork
from exporter.localnet.network import CODE
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.jobs import on_chain, settings_for


def compare(network: MadeNetwork, behaviour: Behaviour | None = None, **flags: Any) -> ChainCheck:
    """Read a network and compare with its contracts."""
    with running(create_app(network, behaviour or Behaviour())) as url:
        return on_chain(settings_for(None, url, **flags))


def made(**options: Any) -> MadeNetwork:
    """A small network of both protocols."""
    return MadeNetwork(**{"pools": 12, "alula_markets": 2, **options})


def fields(check: ChainCheck) -> set[str]:
    """The fields that differ."""
    return {item.field for item in check.differences}


def test_all_agree() -> None:
    """Every pool of Alula and of Blend v2 agrees in every field; Blend v1 has no view, and that is said."""
    network = made()
    check = compare(network)

    v1 = [market for market in network.markets if market.generation.label == "v1"]
    v2_pools = sum(len(market.reserves) for market in network.markets if market.generation.label == "v2")
    assert [] == check.differences
    assert [] == check.other_clock
    assert len(v1) == len(check.without)
    assert all("v1" in item.reason for item in check.without)
    assert v2_pools > 0
    assert check.pools > v2_pools
    assert check.compared > 10 * check.pools


def test_moving_chain() -> None:
    """Calls made at other ledgers than the reading are compared at the close time of their own ledger."""
    check = compare(made(), Behaviour(advance_every_requests=20))

    assert [] == check.differences
    assert check.compared > 0


@pytest.mark.parametrize("seed", [2, 3])
def test_refused_prices(seed: int) -> None:
    """Where the contract refuses a price its market is asked pool by pool, and the refusal is what is compared."""
    check = compare(made(seed=seed, alula_markets=3, alula_missing=1))

    assert [] == check.differences
    assert any("Error(Contract" in item.reason for item in check.failed)  # the pool that is listed and missing


def shifted(function: Callable[..., Any], by: int) -> Callable[..., Any]:
    """A function whose number is too large."""
    return lambda *arguments: function(*arguments) + by


def test_a_yield_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract that computes another yield is told field by field, with both numbers."""
    monkeypatch.setattr(alula, "apy", shifted(alula.apy, 1))
    check = compare(made())

    assert {"supply_apy_bps", "borrow_apy_bps"} == fields(check)
    assert all(item.contract == item.ours + 1 for item in check.differences)  # type: ignore[operator]
    assert all(item.pool for item in check.differences)


def test_a_price_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract that uses another price is told."""
    monkeypatch.setattr(alula, "_price", shifted(alula._price, 5))

    assert {"oracle_price"} == fields(compare(made()))


def test_a_price_that_only_we_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A price that the contract refuses and the exporter does not is a difference."""
    monkeypatch.setattr(alula, "_MAX_PRICE_AGE", -1)
    check = compare(made())

    assert {"oracle_price"} == fields(check)
    assert all(item.contract is None for item in check.differences)


def test_an_accrual_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contract whose year is shorter accrues more, and the clock is no excuse for it."""
    monkeypatch.setattr(blend, "SECONDS_PER_YEAR", 31_000_000)
    check = compare(made())

    assert {"borrow_index", "total_borrowed"} <= fields(check)
    assert [] == check.other_clock


def test_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An RPC that runs calls at its own clock is recognized: at that time everything agrees (blend.md, "Views")."""
    before = blend.run_pool

    def later(host: contracts.Host, *arguments: Any) -> Any:
        host.timestamp += 1_000
        return before(host, *arguments)

    network = made()
    codes = CODE._by_wasm_hash
    (code,) = [wasm for wasm, function in codes.items() if function is before]
    monkeypatch.setitem(codes, code, later)
    check = compare(network)

    assert "accrued_to" in fields(check)
    assert {item.market for item in check.differences} == {text.split()[0] for text in check.other_clock}
    assert all("27.1" in text for text in check.other_clock)


def test_nothing_to_compare(mainnet_snapshot_path: Path) -> None:
    """Where no call can be made the check fails instead of passing without having looked."""
    with pytest.raises(CheckError, match="nothing could be compared with the contracts: Blend v1 pools have no view"):
        on_chain(settings_for(network__name="mainnet"), mainnet_snapshot_path)


def test_ledgers_that_close_faster_than_the_calls() -> None:
    """Where time runs out before all calls are of one ledger, it ends, and what holds is compared."""
    rarely = {"network__read_deadline_seconds": 3.0, "network__max_rounds": 100}
    check = compare(made(), Behaviour(advance_every_requests=4), **rarely)

    assert [] == check.differences
    assert check.compared > 0
    assert check.failed
