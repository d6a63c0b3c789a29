"""Runs against an RPC whose network is of a later protocol than this version understands."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import exporter
from exporter.errors import SourceError
from exporter.ledger.codec.ledger_header import LATEST_PROTOCOL, UPDATE
from exporter.ledger.rpc import client
from exporter.ledger.rpc.endpoints import Timing
from exporter.localnet import rpc
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.job_runs import run, settings_for
from tests.localnet.recorded import only

pytestmark = pytest.mark.usefixtures("without_pages")


@pytest.mark.parametrize(("later", "count"), [pytest.param(0, 0, marks=pytest.mark.slow), (1, 1)])
def test_what_can_be_read_is_published_with_a_notice(tmp_path: Path, later: int, count: int) -> None:
    """A later protocol, and only that, gives one notice to update the exporter. A repeated run has it, too."""
    network = RecordedNetwork()
    network.protocol_version = LATEST_PROTOCOL + later
    with running(create_app(network)) as url:
        code, _ = run(settings_for(tmp_path, url, **only("slender")))
    notices = json.loads((tmp_path / "v1/system/status.json").read_bytes())["notices"]

    assert (0, count) == (code, len(notices))
    assert all(UPDATE in notice for notice in notices)
    assert exporter.check_tree(str(tmp_path)).not_rerendered is None


def test_an_answer_in_another_form_says_to_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the source names the protocol, which is most probably its cause."""

    def changed(_node: rpc.Node, _params: Any) -> Any:
        return {"latestLedger": "of another form"}

    monkeypatch.setitem(rpc._METHODS, "getLedgerEntries", changed)
    monkeypatch.setattr(client, "Timing", lambda: Timing(sleep=lambda _: asyncio.sleep(0)))
    network = RecordedNetwork()
    network.protocol_version = LATEST_PROTOCOL + 1
    with running(create_app(network)) as url, pytest.raises(SourceError, match=UPDATE):
        run(settings_for(tmp_path, url))
