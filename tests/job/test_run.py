"""The whole job over the embedded network and over files, and what it leaves when it fails."""

from __future__ import annotations

import io
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from exporter.console import Console
from exporter.errors import NotNewerError, PublishedCheckError, SourceError, StoreError
from exporter.job.run_log import RunLog
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.stores.store import Store
from tests.audit.trees import read
from tests.job_runs import run, settings_for
from tests.localnet.broken_pool import network_with_a_broken_pool
from tests.localnet.recorded import only
from tests.protocols.protocol_facts import recorded_pools
from tests.s3.wire_bucket import WireBucket
from tests.stores.bucket_simulator import BucketSimulator, Call

pytestmark = pytest.mark.usefixtures("without_pages")

SLENDER = only("slender")
"""Flags of a run over three pools alone, which takes a third of the time."""


def walk(folder: Path, head: str) -> list[dict[str, Any]]:
    """All rows behind a head document, by its cursors."""
    rows: list[dict[str, Any]] = []
    page = json.loads((folder / head).read_bytes())
    for _ in range(10_000):
        rows += page["data"]
        if page["next_cursor"] is None:
            return rows
        page = json.loads((folder / "v1" / "pages" / f"{page['next_cursor']}.json").read_bytes())
    raise AssertionError("the walk does not end")


def feeds_of(store: Store) -> dict[str, bytes]:
    keys = [info.key for info in store.list("") if info.key.endswith(".atom")]
    return {key: stored.data for key in keys if (stored := store.get(key)) is not None}


class TestEmbeddedNetwork:
    def test_a_run_publishes_every_pool_at_one_ledger(self, tmp_path: Path) -> None:
        """A run publishes every pool of the network at one ledger, in documents, pages and Parquet alike."""
        network = RecordedNetwork()
        with running(create_app(network, Behaviour(advance_every_requests=7))) as url:
            code, facts = run(settings_for(tmp_path / "out", url, schedule__interval="15m"))

        rows = walk(tmp_path / "out", "v1/assets/limit/10.json")
        status = json.loads((tmp_path / "out" / "v1" / "system" / "status.json").read_bytes())
        history = duckdb.sql(f"select * from '{tmp_path}/out/history/pools/*/*.parquet' order by market, pool")
        assert history is not None
        assert 0 == code
        assert recorded_pools() == len(rows) == status["pool_count"]
        assert {facts["certificate"]["ledger"]} == {row["observed_ledger"] for row in rows}
        assert ("2026-11-21T12:00:00Z", "2026-11-21T12:15:00Z") == (status["generated_at"], status["next_expected_at"])
        assert [(row["market"], row["pool"], int(row["total_supplied"])) for row in rows] == [
            (market, pool, int(supplied))
            for market, pool, supplied in history.project("market, pool, total_supplied").fetchall()
        ]
        assert rows == sorted(rows, key=lambda row: (row["market"], row["pool"]))

    def test_a_run_reads_each_document_once_and_leaves_feeds_without_changes_alone(self) -> None:
        """Within its hold a quiet run asks for no document twice, and a feed has other bytes only with a change.

        It writes 14 objects a pool at most. tests/test_docs.py compares what costs are computed with.
        """
        network, bucket = RecordedNetwork(), BucketSimulator()
        with running(create_app(network)) as url:
            run(settings_for(None, url), bucket)
            network.advance()
            before = feeds_of(bucket)
            bucket.calls.clear()
            run(settings_for(None, url), bucket)
        holds = [number for number, call in enumerate(bucket.calls) if call.operation == "exclusive"]
        status = next(at for at, call in enumerate(bucket.calls) if call == Call("swap", "v1/system/status.json"))
        read = Counter(call.key for call in bucket.calls[holds[0] : status] if call.operation == "get")
        changes = json.loads(bucket.get("v1/changes.json").data)["data"]
        changed = {f"markets/{item['market']}.atom" for item in changes}
        other = {key for key, data in feeds_of(bucket).items() if before[key] != data}

        assert 1 == len(holds)
        assert {} == {key: count for key, count in read.items() if count > 1}
        assert changed >= other - {"feed.atom"}
        assert len(before) > len(changed) + 1
        assert len(bucket.writes()) <= 14 * recorded_pools()

    @pytest.mark.slow
    def test_a_quiet_run_into_a_bucket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A quiet run into a bucket lists no folder twice, and takes the lease once after its trial."""
        network = RecordedNetwork()
        with WireBucket() as bucket:
            for name, value in bucket.environment("quiet").items():
                monkeypatch.setenv(name, value)
            settings = settings_for(output__uri="s3://bucket/live", **SLENDER)
            run(settings, network=network)
            network.advance()
            bucket.forget()
            run(settings, network=network)
        listed = [call.key for call in bucket.calls if call.operation == "LIST"]
        lease = [call.operation for call in bucket.calls if call.key == "live/.exporter.lease"]
        heads = [call.key for call in bucket.calls if call.operation == "HEAD"]

        assert [] == [key for key, count in Counter(listed).items() if count > 1]
        assert len(listed) <= 26
        assert Counter(GET=2, PUT=5, HEAD=1) == Counter(lease)
        assert ["live/.exporter.lease"] == heads

    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize(
        ("key", "said"),
        [
            ("", "Not a directory|cannot write into"),
            *((f"v1/system/{name}.json", r"nested too deep.*Remove this one file") for name in ("status", "intent")),
            ("v1/history.json", "nested too deep"),
        ],
    )
    def test_an_output_that_cannot_be_used_costs_no_reading(
        self, tmp_path: Path, key: str, said: str, dry_run: bool
    ) -> None:
        """The output is tried first: if it refuses or cannot be understood, the network is not asked."""
        path = tmp_path / "out" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'{"x":' + b"[" * 200_000)
        report = RunLog(None)
        with pytest.raises(StoreError, match=said):
            run(settings_for(tmp_path / "out", "http://127.0.0.1:9"), report=report, dry_run=dry_run)

        assert ["output"] == [step["step"] for step in report.facts["steps"]]

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_a_run_that_must_not_publish(self, tmp_path: Path, dry_run: bool) -> None:
        """A run at an earlier ledger ends with 3, at the published one with 0, before it computes; no byte changes."""
        settings = settings_for(tmp_path / "out", **SLENDER)
        published = RecordedNetwork(start_ledger=5_000)
        run(settings, network=published)
        before, report = read(tmp_path / "out"), RunLog(None)
        with pytest.raises(NotNewerError) as caught:
            run(settings, network=RecordedNetwork(start_ledger=4_999), report=report, dry_run=dry_run)
        code, facts = run(settings, network=published, dry_run=dry_run)

        assert 3 == caught.value.exit_code
        assert ["output", "read"] == [step["step"] for step in report.facts["steps"]]
        assert (0, True) == (code, facts["nothing_to_do"])
        assert ["output", "read"] == [step["step"] for step in facts["steps"] if step["complete"]]
        assert before == read(tmp_path / "out")

    def test_nothing_to_do_ends_as_the_published_run_did(self, tmp_path: Path) -> None:
        """A second run at a ledger ends with 7 as long as the first lacks a listed pool, and with 6 for damage."""
        network, _ = network_with_a_broken_pool()
        settings = settings_for(tmp_path, **only("blend"))
        first, facts = run(settings, network=network)
        (name,) = (f"{item['market']}/{item['pool']}" for item in facts["unread"])
        said = io.StringIO()
        second, facts = run(settings, network=network, said=said)
        allowed, _ = run(settings_for(tmp_path, **only("blend"), allow_unread=[name]), network=network)
        next((tmp_path / "history/pools").rglob("*.parquet")).unlink()
        with pytest.raises(PublishedCheckError, match="damage in the history, 1 in all"):
            run(settings, network=network)

        assert (7, 7, 0) == (first, second, allowed)
        assert facts["nothing_to_do"]
        assert f"warning: the published run could not read {name}: ResData" in said.getvalue()

    @pytest.mark.slow
    def test_notices_of_a_run_that_publishes_nothing(self, tmp_path: Path) -> None:
        """A run with nothing to do, a dry run and one that is refused report what they noticed, like any other."""
        network, memory = RecordedNetwork(), tmp_path / "out" / "state" / "known-markets.memory"
        with running(create_app(network)) as url:
            run(settings_for(tmp_path / "out", url))

            def notices(*, dry_run: bool = False, **flags: Any) -> int:
                memory.write_bytes(b"damaged")
                report = RunLog(None, Console("text", said := io.StringIO()))
                with suppress(SourceError):  # where the ledger is too old
                    run(settings_for(tmp_path / "out", url, **flags), report=report, dry_run=dry_run)
                assert any("known-markets.memory cannot be read" in notice for notice in report.facts["notices"])
                return said.getvalue().count("warning: state/known-markets.memory cannot be read")

            nothing_to_do = [notices(), notices(dry_run=True), notices(network__max_ledger_age="60s")]
            network.advance()

            assert [1, 1, 1, 1] == [*nothing_to_do, notices(dry_run=True)]

    def test_a_damaged_status_document(self, tmp_path: Path) -> None:
        """The message says to remove that one file; the next run then leaves the tree of a run that lost nothing."""
        network = RecordedNetwork(close_seconds=400)
        damaged, control = (settings_for(tmp_path / name, **SLENDER) for name in ("damaged", "control"))
        status = tmp_path / "damaged/v1/system/status.json"
        for settings in (damaged, control):
            run(settings, network=network)
        network.advance()
        status.write_bytes(b"{")
        with pytest.raises(StoreError, match=r"v1/system/status\.json cannot be understood .* Remove this one file"):
            run(damaged, network=network)
        status.unlink()
        for settings in (damaged, control):
            assert 0 == run(settings, network=network)[0]

        found, wanted = read(tmp_path / "damaged"), read(tmp_path / "control")
        assert wanted.keys() == found.keys()
        assert ["v1/system/status.json"] == [key for key in wanted if wanted[key] != found[key]]
        statuses = [json.loads(tree["v1/system/status.json"]) for tree in (found, wanted)]
        assert statuses[0] | {"previous_run_id": statuses[1]["previous_run_id"]} == statuses[1]

    def test_dry_run_writes_nothing(self, tmp_path: Path) -> None:
        """A dry run does all the work and leaves no file; over a published tree it changes no byte."""
        network, settings = RecordedNetwork(), settings_for(tmp_path / "out", **SLENDER)
        first = run(settings, network=network, dry_run=True)
        assert not (tmp_path / "out").exists()
        _, real = run(settings, network=network)
        before = read(tmp_path / "out")
        network.advance()
        for code, facts in (first, run(settings, network=network, dry_run=True)):
            assert (0, False) == (code, facts["published"])
            assert real["checked"]["files"].keys() == facts["checked"]["files"].keys()

        assert before == read(tmp_path / "out")

    def test_unread_pools_end_the_run_with_7_unless_allowed(self, tmp_path: Path) -> None:
        """A missing reserve is named, archived ones are published and say so; the exit code is 7 unless allowed."""
        first, second, third = [pool.key for pool in RecordedNetwork().pools if pool.protocol == "blend"][:3]
        network = RecordedNetwork(archived=[first, second], without=[third])
        code, facts = run(settings_for(tmp_path / "out", **only("blend")), network=network)
        names = tuple(f"{item['market']}/{item['pool']}" for item in facts["unread"])
        allowed, _ = run(settings_for(tmp_path / "allowed", allow_unread=names, **only("blend")), network=network)

        status = json.loads((tmp_path / "out" / "v1" / "system" / "status.json").read_bytes())
        assert (7, 0) == (code, allowed)
        rows = walk(tmp_path / "out", "v1/pools/index.json")
        assert ["absent"] == [item["reason"] for item in status["unread"]]
        assert 5 == len(rows)
        assert 2 == sum(row["archived"] for row in rows)
        assert 6 == status["pool_count"]
