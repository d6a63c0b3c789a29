"""The exporter's numbers against the contracts' own views, over the recorded network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.errors import CheckError
from exporter.job.on_chain import ChainCheck
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.job.contract_views import ALULA, ContractViews
from tests.jobs import on_chain, settings_for
from tests.localnet.recorded import BLEND_V2, only, pools_of


def compare(network: RecordedNetwork, *names: str, behaviour: Behaviour | None = None, **flags: Any) -> ChainCheck:
    """Read some markets of a network (all), and compare with their contracts."""
    with running(create_app(network, behaviour or Behaviour())) as url:
        return on_chain(settings_for(None, url, **flags, **(only(*names) if names else {})))


def with_views(**options: Any) -> RecordedNetwork:
    """A network whose pools of Blend and Alula have debts, and answer their views."""
    network = RecordedNetwork()
    network.advance(network.pools)
    network.contracts = ContractViews(network, **options)
    return network


def fields(check: ChainCheck) -> set[str]:
    """The fields that differ."""
    return {item.field for item in check.differences}


def test_what_contracts_were_recorded_to_say() -> None:
    """Every field of K2, Peridot and XOXNO agrees with their recorded answers; what has no view or answer is named."""
    check = compare(RecordedNetwork())

    assert [] == check.differences
    assert [] == check.other_clock
    assert ["Blend v1 pools have no view of a reserve"] == [item.reason for item in check.without]
    assert {"k2": 48, "peridot": 12, "xoxno": 28} == {name: count for name, count in check.by_protocol.items() if count}
    assert {"alula", "blend", "slender"} < set(check.by_protocol)
    assert all("Error(WasmVm, MissingValue)" in item.reason for item in check.failed)


def test_views_of_blend_and_alula() -> None:
    """Every pool of Alula and of Blend v2 agrees in every field."""
    check = compare(with_views(), "blend", "alula")

    assert ([], [], []) == (check.differences, check.other_clock, check.failed)
    assert 7 == check.pools
    assert check.compared > 10 * check.pools


def test_moving_chain() -> None:
    """Calls made at other ledgers than the reading are compared at the close time of their own ledger."""
    check = compare(with_views(), "blend", behaviour=Behaviour(advance_every_requests=5))

    assert [] == check.differences
    assert check.compared > 0


def test_refused_prices() -> None:
    """Where the contract refuses a price its market is asked pool by pool, and the refusal is what is compared."""
    refused = pools_of(RecordedNetwork(), ALULA)[0].token
    check = compare(with_views(refused=[refused]), "alula")

    assert [(refused, "oracle_price", None)] == [
        (item.pool, item.field, item.contract) for item in check.differences
    ]  # the exporter has a price
    assert 3 == check.pools


def test_an_accrual_that_differs() -> None:
    """A contract that accrues more is reported, and the clock is not an excuse for it."""
    check = compare(with_views(more=1_000_000), "blend")

    assert {"borrow_index", "total_borrowed"} <= fields(check)
    assert [] == check.other_clock


def test_wall_clock() -> None:
    """An RPC that runs calls at its own clock is recognized: at that time everything agrees (blend.md, "Views")."""
    check = compare(with_views(clock=1_000), "blend")

    assert "accrued_to" in fields(check)
    assert {BLEND_V2} == {item.market for item in check.differences} == {text.split()[0] for text in check.other_clock}
    assert all("27.1" in text for text in check.other_clock)


def test_nothing_to_compare(mainnet_snapshot_path: Path) -> None:
    """Where no call can be made the check fails instead of passing without having looked."""
    with pytest.raises(CheckError, match="nothing could be compared with the contracts: Blend v1 pools have no view"):
        on_chain(settings_for(network__name="mainnet"), mainnet_snapshot_path)


@pytest.mark.slow
def test_ledgers_that_close_faster_than_the_calls() -> None:
    """Where time runs out before all calls are of one ledger, it ends, and what holds is compared."""
    rarely = {"network__read_deadline_seconds": 6.0, "network__max_rounds": 100}
    check = compare(with_views(), behaviour=Behaviour(advance_every_requests=4), **rarely)

    assert [] == check.differences
    assert check.compared > 0
    assert check.failed
