"""Runs whose ledger's close time is wrong, old, or that of the run before; and how a wrong run is undone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from exporter.audit.published_tree import check_files
from exporter.config import MAX_LEDGER_AGE
from exporter.deployments.networks import NETWORKS
from exporter.errors import ConfigError, SourceError
from exporter.job.sources import check_ledger_clock
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.audit.trees import read
from tests.job_runs import run, settings_for
from tests.localnet.recorded import only

pytestmark = pytest.mark.usefixtures("without_pages")

LEDGER, CLOSED = 5_000, datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TIME = int(CLOSED.timestamp())
DAY = 86_400
SLENDER = only("slender")


def network_at(ledger: int, time: int) -> RecordedNetwork:
    return RecordedNetwork(start_ledger=ledger, start_time=time, quiet_ledgers=100)


def publish(out: Path, ledger: int, time: int, *, discovery: bool = False, **options: Any) -> dict[str, Any]:
    """A run at a ledger, by a machine with the same clock; without discovery it is over three pools."""
    options.setdefault("now", datetime.fromtimestamp(time, UTC))
    if discovery:
        with running(create_app(network_at(ledger, time))) as url:
            code, facts = run(settings_for(out, url), **options)
    else:
        code, facts = run(settings_for(out, **SLENDER), network=network_at(ledger, time), **options)
    assert 0 == code
    return facts


def published(out: Path) -> Any:
    return json.loads((out / "v1/system/status.json").read_bytes())


class TestThisMachinesClock:
    """The close time that an RPC states is compared with it before anything is published."""

    def test_a_ledger_that_closed_in_the_future_is_refused(self, tmp_path: Path) -> None:
        """A ledger that closed more than five minutes from now is refused, and the tree stays; a little is allowed."""
        out = tmp_path / "out"
        publish(out, LEDGER, TIME)
        before = read(out)
        for options in ({}, {"dry_run": True}, {"replaced_ledger": LEDGER}):
            with pytest.raises(SourceError, match=r"after the time of this machine's clock.*Nothing was published"):
                publish(out, LEDGER + 1, TIME + 301, now=CLOSED, **options)

        assert before == read(out)
        publish(out, LEDGER + 1, TIME + 300, now=CLOSED)

    def test_a_ledger_that_is_old(self, tmp_path: Path) -> None:
        """An RPC that follows the network no more ends a run with exit code 3, at the published ledger too."""
        late = CLOSED + timedelta(minutes=15, seconds=1)
        network, out = network_at(LEDGER, TIME), tmp_path / "out"
        settings = settings_for(out, network__max_ledger_age="900s", **SLENDER)
        assert 0 == run(settings, network=network, now=CLOSED + timedelta(minutes=15))[0]
        assert run(settings, network=network, now=CLOSED)[1]["nothing_to_do"]
        with pytest.raises(SourceError, match=r"15 minutes 1 second ago.*network\.max_ledger_age allows 15 min"):
            run(settings, network=network, now=late)
        assert run(settings_for(out, **SLENDER), network=network, now=late)[1]["nothing_to_do"]

    def test_a_slow_clock(self) -> None:
        """A ledger that closed more than five minutes ago is a warning; not where that is on purpose."""

        def warning(minutes: int, **flags: Any) -> str | None:
            settings = settings_for(**{"network__max_ledger_age": "900s"} | flags)
            return check_ledger_clock(settings, LEDGER, TIME, CLOSED + timedelta(minutes=minutes))

        said = "ledger 5000 closed at 2026-11-21T12:00:00Z, 6 minutes ago: the RPC lags behind the network"
        assert [None, True] == [warning(5), (warning(6) or "").startswith(said)]
        assert [None, None] == [warning(6, network__prefer_checkpoint=True), warning(6, network__max_ledger_age="0s")]

    @pytest.mark.parametrize(
        ("flags", "longest"),
        [
            ({"network__name": "mainnet"}, MAX_LEDGER_AGE),
            ({"network__name": "testnet"}, MAX_LEDGER_AGE),
            ({"network__passphrase": "Another network"}, MAX_LEDGER_AGE),
            ({"network__name": "local"}, timedelta(0)),
            ({"network__passphrase": NETWORKS["local"].passphrase}, timedelta(0)),
            ({"network__name": "local", "network__max_ledger_age": "60s"}, timedelta(minutes=1)),
        ],
    )
    def test_the_default_is_15_minutes_except_on_local_networks(
        self, flags: dict[str, Any], longest: timedelta
    ) -> None:
        """The limit is 15 minutes without the key, and there is none on the local network."""
        assert longest == settings_for(**{"network__max_ledger_age": None} | flags).max_ledger_age


class TestTheRunBefore:
    """No ledger closes before an earlier one."""

    @pytest.mark.parametrize(
        ("ledger", "discovery"), [(LEDGER + 5, False), pytest.param(LEDGER + 10, True, marks=pytest.mark.slow)]
    )
    def test_a_wrong_run_is_undone(self, tmp_path: Path, ledger: int, discovery: bool) -> None:
        """A run with --replace-ledger, at that ledger or later, leaves a tree as if the replaced run had never been."""
        out, control = tmp_path / "out", tmp_path / "control"
        for each in (out, control):
            publish(each, LEDGER, TIME, discovery=discovery)
        publish(out, LEDGER + 5, TIME + 8 * DAY, discovery=discovery)  # closes buckets of every length
        with pytest.raises(SourceError, match=f"run once with --replace-ledger {LEDGER + 5}"):
            publish(out, LEDGER + 10, TIME + 600, discovery=discovery)
        publish(out, ledger, TIME + 600, replaced_ledger=LEDGER + 5, discovery=discovery)
        publish(control, ledger, TIME + 600, discovery=discovery)

        check_files(str(out))
        wanted, found = read(control), read(out)
        own = ("v1/system/", "v1/runs/", "v1/changes", "v1/markets/feeds/", "feed", "state/")
        assert [] == [key for key in wanted if found.get(key) != wanted[key] and not key.startswith(own)]
        assert discovery is ("state/known-markets.memory" in wanted)
        for key in ("state/known-markets.memory", "v1/history.json"):
            assert wanted.get(key) == found.get(key)
        publish(out, ledger + 1, TIME + 605, discovery=discovery)
        check_files(str(out))
        with pytest.raises(ConfigError, match=f"the newest that was published or begun is {ledger + 1}"):
            publish(out, ledger + 2, TIME + 610, replaced_ledger=LEDGER + 7, discovery=discovery)

    def test_several_wrong_runs_are_undone(self, tmp_path: Path) -> None:
        """The earliest wrong ledger is named; if a later one is given, the message says which is left."""
        out = tmp_path / "out"
        publish(out, LEDGER, TIME)
        for ledger in (LEDGER + 5, LEDGER + 6):
            publish(out, ledger, TIME + DAY + ledger)
        with pytest.raises(SourceError, match=f"ledger {LEDGER + 5} of an earlier run.*--replace-ledger {LEDGER + 5}"):
            publish(out, LEDGER + 10, TIME + 60, replaced_ledger=LEDGER + 6)
        publish(out, LEDGER + 10, TIME + 60, replaced_ledger=LEDGER + 5)

        check_files(str(out))
        history = json.loads((out / "v1/history.json").read_bytes())
        assert [LEDGER, LEDGER + 10] == [file["first_ledger"] for file in history["files"]]

    def test_a_wrong_run_of_the_same_ledger_and_day(self, tmp_path: Path) -> None:
        """A wrong run's file of the history is written once, so only a later ledger undoes the run."""
        publish(tmp_path / "out", LEDGER, TIME + 3_600)
        with pytest.raises(SourceError, match="run again when the endpoints have a later ledger"):
            publish(tmp_path / "out", LEDGER, TIME, replaced_ledger=LEDGER)
        publish(tmp_path / "out", LEDGER + 1, TIME, replaced_ledger=LEDGER)

        check_files(str(tmp_path / "out"))
