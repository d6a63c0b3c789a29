"""The history in buckets as the job carries it on, whatever becomes of the state that it keeps."""

from __future__ import annotations

import io
import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from exporter.audit.check import check_tree
from exporter.errors import PublishedCheckError, StoreError
from exporter.history import series
from exporter.history.manifest import read_history_manifest
from exporter.history.series import STATE_KEY, Series
from exporter.history.time_buckets import BUCKETS
from exporter.ledger.codec.entries import instance_key
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.publishing.published_state import read_published
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.files import RenderedFile
from tests.job_runs import NOW, run, settings_for
from tests.localnet.recorded import BLEND_V1, only, pools_of

pytestmark = pytest.mark.usefixtures("without_pages")

WEEK = 7 * 86_400
STATE_PREFIX = STATE_KEY.removesuffix(".bin")


@pytest.fixture(autouse=True)
def short_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest documents of one span, so that a few runs make older pages."""
    monkeypatch.setattr(series, "BUCKETS", tuple(replace(bucket, pages=0) for bucket in BUCKETS))


class StubbornStore(MemoryStore):
    """A store that refuses to keep the state."""

    def put(self, key: str, data: bytes) -> bool:
        """See Store."""
        if key.startswith(STATE_PREFIX):
            raise StoreError(f"{key}: no space left")
        return super().put(key, data)


def publish_runs(store: Store, runs: int) -> tuple[dict[str, bytes], str]:
    """Some runs of the job, hours apart; gives the tree without the state, and what the console said."""
    network = RecordedNetwork(close_seconds=5 * 3600)
    said = io.StringIO()
    with running(create_app(network)) as url:
        for _ in range(runs):
            assert 0 == run(settings_for(None, url, **only(BLEND_V1)), store, said=said)[0]
            network.advance()
    tree = {info.key: stored.data for info in store.list("") if (stored := store.get(info.key)) is not None}
    return {key: data for key, data in tree.items() if not key.startswith(STATE_PREFIX)}, said.getvalue()


@pytest.mark.parametrize("runs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_state_that_cannot_be_kept_changes_no_byte(runs: int) -> None:
    """The tree is the same whether the state is kept or could never be written; a run says so and goes on."""
    kept = MemoryStore()
    tree, _ = publish_runs(kept, runs)
    other, said = publish_runs(StubbornStore(), runs)

    assert kept.get(STATE_KEY) is not None
    assert (runs > 1) == any(key.startswith("v1/buckets/") for key in tree)
    assert tree == other
    assert runs == said.count("the next run reads the history again")


@pytest.mark.slow
def test_runs_without_pools(tmp_path: Path) -> None:
    """A tree is whole after each run: the first ones of its days read no pool, nor does one that closes a page.

    Its tables are there from the first run on, and its days are joined.
    """
    network, out = RecordedNetwork(close_seconds=9 * 3600), tmp_path / "out"
    tokens = {key: network.look(key) for key in (instance_key(pool.token) for pool in pools_of(network, BLEND_V1))}
    gone = dict.fromkeys(tokens)
    for step, seconds in ((gone, 9), ({}, 9), (tokens, 9), (None, 9), (None, 9), (None, 5), (gone, 5), (tokens, 0.2)):
        network.close_seconds = int(seconds * 3600)
        if step is None:
            network.advance()
        else:
            network.close(step)
        closed = datetime.fromtimestamp(network.chain.close_time(network.chain.latest), UTC)
        with running(create_app(network)) as url:
            run(settings_for(out, url, **only(BLEND_V1)), now=closed)
        package = json.loads((out / "datapackage.json").read_bytes())

        assert check_tree(str(out)).not_rerendered is None
        assert [] == [path for each in package["resources"] for path in each["path"] if not (out / path).exists()]
    keys = [file["key"] for file in json.loads((out / "v1/history.json").read_bytes())["files"]]
    assert any("/65000002-65000004-" in key for key in keys)


@pytest.mark.parametrize("steps", [[WEEK], pytest.param([20, 300, 3600, WEEK], marks=pytest.mark.slow)], ids=len)
def test_only_what_closed_is_rendered(monkeypatch: pytest.MonkeyPatch, steps: list[int]) -> None:
    """A run renders the lengths in which a bucket closed, all of a length that has lost one, and all after a failure.

    Its files are those of a run that renders everything, as its id says.
    """
    network, store = RecordedNetwork(), MemoryStore()
    rendered, newest_documents = list[RenderedFile](), Series.newest_documents

    def counting(own: Series, kept: Collection[str] = ()) -> list[RenderedFile]:
        rendered[:] = newest_documents(own, kept)
        return rendered

    monkeypatch.setattr(Series, "newest_documents", counting)
    every = {bucket.name for bucket in BUCKETS}
    with running(create_app(network)) as url:

        def run_after(seconds: int, into: Store = store) -> tuple[set[str], str, int]:
            """The lengths that a run rendered, its id, and when its ledger closed."""
            if seconds:
                network.close_seconds = seconds
                network.advance()
            code, facts = run(settings_for(None, url, **only("alula")), into, now=NOW + timedelta(days=30))
            assert code in (0, 7)  # after a week all prices are stale
            names = {file.key.rpartition("/")[2] for file in rendered}
            lengths = {"1d" if name == "history.csv" else name.removesuffix(".json") for name in names}
            return lengths, facts["run_id"], facts["ledger_close_time"]

        lengths, _, time = run_after(0)
        assert every == lengths
        for seconds in steps:
            alone = MemoryStore(store)  # where the state is lost; the store itself stays as it is
            alone.put(STATE_KEY, b"")
            everything, run_id, later = run_after(seconds, alone)
            assert every == everything
            closed = {bucket.name for bucket in BUCKETS if bucket.start(time) != bucket.start(later)}
            assert (closed, run_id, later) == run_after(0)
            time = later

        lost = next(info.key for info in store.list("v1/assets/") if info.key.endswith("/history/1w.json"))
        stored = store.get(lost)
        assert stored is not None
        store.delete([lost])
        assert "1w" in run_after(20)[0]
        assert stored == store.get(lost)

        store.put(lost, stored.data[:-1] + b" ")
        with pytest.raises(PublishedCheckError, match=lost):
            run_after(20)
        assert every == run_after(20)[0]
        assert stored == store.get(lost)

        monkeypatch.setattr(series, "RENDERED_BY", "another version")
        assert every == run_after(20)[0]


def test_a_run_publishes_names_the_damage_and_fails() -> None:
    """The new numbers are published, the files are named, nothing is compacted; it fails until they are mended."""
    network, store, said = RecordedNetwork(close_seconds=5 * 3600), MemoryStore(), list[io.StringIO]()

    def run_next() -> int:
        """A run some hours later."""
        network.advance()
        said.append(io.StringIO())
        now = NOW + timedelta(hours=5 * len(said))
        return run(settings_for(**only("slender")), store, said=said[-1], now=now, network=network)[0]

    assert [0, 0, 0] == [run_next() for _ in range(3)]
    before, manifest = read_published(store), read_history_manifest(store)
    assert before is not None
    assert manifest is not None
    whole = {file.key: stored.data for file in manifest.files[:2] if (stored := store.get(file.key)) is not None}
    (missing, _), (short, data) = whole.items()
    store.delete([missing])
    store.put(short, data[:-1])

    with pytest.raises(PublishedCheckError, match=f"damage in the history, 2 in all; the first: {missing} is missing"):
        run_next()
    assert f"{short} has {len(data) - 1} bytes, not {len(data)}" in said[-1].getvalue()
    assert "compacting" not in said[-1].getvalue()
    after = read_published(store)
    assert after is not None
    assert before.status.observed_ledger < after.status.observed_ledger
    for key, content in whole.items():
        store.put(key, content)
    assert 0 == run_next()
