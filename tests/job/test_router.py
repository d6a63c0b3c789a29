"""A whole run whose calls go through a router."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from exporter.deployments import KnownContract
from exporter.deployments.networks import NETWORKS
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.jobs import run, settings_for
from tests.localnet.routed import ROUTER, route


def job(folder: Path, network: RecordedNetwork, *, router: bool) -> tuple[dict[str, Any], Counter[str]]:
    """A whole run: its report, and what the server was asked."""
    behaviour = Behaviour()
    with running(create_app(network, behaviour)) as url:
        code, facts = run(settings_for(folder, url, network__router=router), dry_run=True)
    assert 0 == code
    return facts, behaviour.counts


def test_a_run_with_a_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds what one without it does, for fewer simulations, and reports the bundles."""
    known = KnownContract(ROUTER, "router", "a test", date(2026, 11, 18))
    monkeypatch.setitem(NETWORKS, NETWORK, replace(NETWORKS[NETWORK], router=known))
    network = RecordedNetwork()
    route(network)
    without, plain = job(tmp_path / "plain", network, router=False)
    facts, asked = job(tmp_path / "routed", network, router=True)

    assert without["router"] is None
    for name in ("unpriced", "unread", "absent", "notices"):
        assert without[name] == facts[name]
    calls, simulations = plain["simulateTransaction"], asked["simulateTransaction"]
    routed = facts["router"]
    assert (ROUTER, 0, None) == (routed["contract"], routed["failed"], routed["stopped"])
    assert routed["bundles"] > 0
    assert calls - routed["results"] + routed["bundles"] == simulations < calls
