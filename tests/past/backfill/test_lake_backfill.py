"""The past out of a lake: what runs at these ledgers published, whoever does the work and whatever becomes of it."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from exporter.audit.rollup_faults import rollup_faults
from exporter.bounds import decompress
from exporter.cli import main
from exporter.deployments.networks import NETWORKS, derived_address
from exporter.errors import LakeError, SourceError, StoreError
from exporter.history.manifest import read_history_manifest
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import data_key, decode_contract_data, encode_contract_data, variant_key
from exporter.ledger.codec.scval_encode import address, i128, symbol, vec
from exporter.ledger.source import RawEntry
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.past.backfill import lake_job
from exporter.past.backfill.journal import read_journal
from exporter.past.backfill.lake_job import SKIP, LakeResult
from exporter.past.backfill.start_state import StartState
from exporter.past.lake.extract import RangeOfLedgers, extract
from exporter.past.lake.objects import Lake
from exporter.past.lake.watch import Watch
from exporter.protocols import accrual_rules
from exporter.stores.folder import FolderStore
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.documents import Transitions
from exporter.tree.families import JOURNAL_KEY
from tests.past.backfill.recorded_lake import RecordedLake, history_of, make_lake

pytestmark = pytest.mark.usefixtures("without_pages")

LEDGERS, EVERY = 50, 2 * 3600
BOUNDARIES = 4  # the ledgers 12, 24, 36 and 48
GAP, BEFORE_GAP = 32, 2
MAINNET, TESTNET = (item for item in NETWORKS[NETWORK].deployments if item.protocol == "blend")


ARCHIVED, MISSING = (
    [variant_key(TESTNET.markets[0], name, address(token)) for name in ("ResConfig", "ResData")]
    for token in RecordedNetwork().prices.tokens[3:5]
)


def restore(network: RecordedNetwork) -> None:
    network.close({key: network.look(key) for key in ARCHIVED})


def empty_reward_zone(network: RecordedNetwork) -> None:
    key = data_key(MAINNET.backstop or "", symbol("RZ"))
    stored = network.chain.stored(key)
    assert stored is not None
    network.close({key: encode_contract_data(decode_contract_data(stored.data)._replace(value=vec()))})


MARKET, USER = TESTNET.markets[0], RecordedNetwork().prices.tokens[0]
DEPLOYED = derived_address("recorded network a pool")


NO_KEY = struct.pack(">II32sIII", 6, 1, strkey.decode(MARKET)[1], 16, 1, 2**32 - 1)
"""Begins as a key of the market's does, with a vector that has more items than there are bytes in a ledger."""


def liquidate(network: RecordedNetwork) -> None:
    """Debts become nobody's; a contract that nobody watches says the same, and bytes that only look like a key."""
    topics = symbol("defaulted_debt"), address(USER)
    events = [(market, topics, i128(5)) for market in (MARKET, USER, DEPLOYED)]
    network.close({}, [*events, (USER, (), (scval.BYTES, NO_KEY))])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> RecordedLake:
    """Eight hours of all six protocols: a market is deployed that only an event names, an archived pool is restored."""
    network = RecordedNetwork(close_seconds=0, archived=ARCHIVED, without=MISSING[1:])
    network.advance(network.pools)
    network.close_seconds = 600
    return make_lake(
        tmp_path_factory.mktemp("recorded"),
        network,
        LEDGERS,
        live_at=(36, 48),
        events={14: lambda played: played.deploy("a pool"), 20: liquidate, 38: empty_reward_zone, 42: restore},
    )


@pytest.fixture(scope="module")
def whole(lake: RecordedLake) -> MemoryStore:
    store = MemoryStore()
    result = lake.backfill(EVERY, store)
    assert ({}, {}, []) == (result.failed, result.refused, result.gaps)
    assert (BOUNDARIES, BOUNDARIES) == (result.boundaries, result.added)
    manifest = read_history_manifest(store)
    assert manifest is not None
    assert accrual_rules().keys() == {item.protocol for item in manifest.transitions}
    assert all(item.confirmed and not item.differing for item in manifest.transitions)
    assert 2 == result.rounds  # the pool that was deployed is watched only in the second
    return store


def test_rows_are_those_that_live_runs_published(lake: RecordedLake, whole: MemoryStore) -> None:
    """Field for field, and so byte for byte: amounts, rates, prices, reasons, and the market that events announced."""
    backfilled = history_of(whole)

    assert 2 == len(lake.live)
    for key, data in lake.live.items():
        assert data == backfilled[key]


def test_a_start_that_names_ever_more_contracts(lake: RecordedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """If each reading names further contracts, the search for all of them ends with an error that says so."""
    monkeypatch.setattr(lake_job, "MAX_START_READINGS", 2)

    with pytest.raises(SourceError, match=r"after 2 readings of ledger snapshot file start\.json it still names"):
        lake.backfill(EVERY, MemoryStore())


def liquidations_of(store: Store) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
    """The rows of the table of liquidations, and the spans that it covers."""
    manifest, stored = read_history_manifest(store), store.get("history/liquidations.parquet")
    assert manifest is not None
    assert manifest.liquidations is not None
    assert stored is not None
    assert stored.etag == manifest.liquidations.sha256
    rows = pl.read_parquet(stored.data).to_dicts()
    return rows, [(span.first_ledger, span.last_ledger) for span in manifest.liquidations.spans]


def faults_of(store: Store) -> list[str]:
    """The tables of a history that a check says are wrong."""
    manifest = read_history_manifest(store)
    assert manifest is not None

    def read(key: str) -> bytes | None:
        stored = store.get(key)
        return None if stored is None else stored.data

    return [fault.key for fault in rollup_faults(manifest, read, None, recompute=True)]


def test_the_table_has_the_liquidations_of_the_replayed_ledgers(lake: RecordedLake, whole: MemoryStore) -> None:
    """The table has what the watched markets published in the ledgers that were replayed, and a check reads it."""
    rows, spans = liquidations_of(whole)
    shown = ("observed_ledger", "protocol", "market", "event", "user", "token_address", "amount")
    store = MemoryStore(whole)

    expected = [
        (lake.first + 20, "blend", market, "defaulted_debt", None, USER, Decimal(5)) for market in (MARKET, DEPLOYED)
    ]
    assert expected == [tuple(row[name] for name in shown) for row in rows]
    assert [(lake.first + 1, lake.last)] == spans
    assert [] == faults_of(store)
    store.put("history/liquidations.parquet", b"another file")
    assert ["history/liquidations.parquet"] == faults_of(store)


def test_ledgers_of_one_second(tmp_path: Path) -> None:
    """If several ledgers closed in the second of a boundary, the last is taken; its rows are those of a live run.

    They share an object of the lake. What an object that is not full does not have is a gap.
    """

    def at_once(network: RecordedNetwork) -> None:
        network.close_seconds = 0
        network.advance()
        network.close_seconds = 600

    network, store = RecordedNetwork(close_seconds=600), MemoryStore()
    lake = make_lake(tmp_path, network, 16, live_at=(14,), events={13: at_once, 14: at_once}, ledgers_per_batch=8)
    result = lake.backfill(3 * 3600, store)
    manifest = read_history_manifest(store)

    first, last = lake.first, lake.last
    work = RangeOfLedgers("", str(lake.folder), None, network.passphrase, first, last + 2, Watch())

    assert [(first, first), (last + 1, last + 2)] == [(gap.first, gap.last) for gap in extract(work)[0].gaps]
    assert ({}, 1) == (result.failed, result.added)
    assert lake.live == history_of(store)
    assert manifest is not None
    assert [] == [item for item in manifest.transitions if item.differing]


class FullAfter(MemoryStore):
    """A store that refuses every write after this many."""

    left = 1_000

    def put(self, key: str, data: bytes) -> bool:
        if self.left == 0:
            raise StoreError(f"{key}: No space left on device")
        self.left -= 1
        return super().put(key, data)


def test_no_byte_depends_on_ranges_or_interruptions(lake: RecordedLake, whole: MemoryStore) -> None:
    """Other ranges, and a job that ended early, found its disk full and is begun again, give the same bytes."""
    store, changes, middle = MemoryStore(), FullAfter(), lake.first + 28

    def backfill(**options: Any) -> LakeResult:
        return lake.backfill(EVERY, store, changes, range_ledgers=17, **options)

    backfill(last=middle, ends=lake.network.chain.close_time(middle))
    changes.left = 3
    with pytest.raises(StoreError, match="No space left"):
        backfill()
    changes.left = 1_000
    assert backfill().touched < LEDGERS - 17  # what was extracted before is kept
    assert history_of(whole) == history_of(store)
    assert liquidations_of(whole) == liquidations_of(store)
    again = backfill()
    assert (0, again.boundaries, 0) == (again.added, again.present, again.touched)
    assert liquidations_of(whole) == liquidations_of(store)
    store.put(JOURNAL_KEY, b"damaged")  # it may be lost: what is there is found
    lost = backfill()
    assert (0, 0) == (lost.added, lost.present)
    assert history_of(whole) == history_of(store)


def transitions_of(store: Store) -> list[Transitions]:
    """The counts of transitions in the manifest."""
    manifest = read_history_manifest(store)
    assert manifest is not None
    return manifest.transitions


@pytest.mark.slow
def test_a_backfill_of_the_same_ledgers_counts_their_transitions_once(lake: RecordedLake, whole: MemoryStore) -> None:
    """If the time between boundaries changes, the counts are those of the last backfill, not the sum of both."""
    store = MemoryStore()
    changes = MemoryStore()

    lake.backfill(EVERY // 2, store, changes)
    lake.backfill(EVERY, store, changes)

    assert transitions_of(whole) == transitions_of(store)


def path_of(folder: Path, ledger: int) -> Path:
    return folder / (Lake.open(str(folder)).config.key_of(ledger) + ".xdr.zst")


def damaged(lake: RecordedLake, folder: Path, ledger: int, data: bytes | None) -> RecordedLake:
    """The lake with another object in the place of one, or none."""
    copy = shutil.copytree(lake.folder, folder / "lake")
    path_of(copy, ledger).unlink()
    if data is not None:
        path_of(copy, ledger).write_bytes(data)
    return RecordedLake(copy, lake.start, lake.network, lake.first)


def object_of(lake: RecordedLake, ledger: int) -> bytes:
    return path_of(lake.folder, ledger).read_bytes()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory, lake: RecordedLake) -> RecordedLake:
    """A lake of another network that has the ledger of the gap."""
    network = RecordedNetwork(start_ledger=lake.first + GAP - 1)
    network.passphrase = "Another Network ; November 2026"
    return make_lake(tmp_path_factory.mktemp("foreign"), network, 1)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("missing", "has no object"),
        ("cut", "is damaged"),
        ("foreign", "of another network"),
        ("other", "holds 1 ledgers"),
        ("flipped", "hash"),
        ("newer", "unknown version of a ledger's meta: 3; the network's software is newer than this; update the exp"),
    ],
)
def test_faulty_objects_are_gaps(
    lake: RecordedLake, foreign: RecordedLake, tmp_path: Path, fault: str, reason: str
) -> None:
    """An object that is missing, damaged, or another's is a gap with its reason; the ledgers around it are read."""
    at = lake.first + GAP
    raw = bytearray(decompress(object_of(lake, at)))
    raw[200] ^= 1
    newer = raw[:12] + struct.pack(">I", 3) + raw[16:]
    data = {
        "missing": None,
        "cut": object_of(lake, at)[:400],
        "foreign": object_of(foreign, at),
        "other": object_of(lake, at + 1),
        "flipped": pa.compress(bytes(raw), codec="zstd", asbytes=True),
        "newer": pa.compress(bytes(newer), codec="zstd", asbytes=True),
    }[fault]
    broken = damaged(lake, tmp_path, at, data)
    work = RangeOfLedgers("", str(broken.folder), None, lake.network.passphrase, at - 5, at + 5, Watch())
    extracted = extract(work)[0]

    assert [(at, at, True)] == [(gap.first, gap.last, reason in gap.reason) for gap in extracted.gaps]
    assert [*range(at - 5, at), *range(at + 1, at + 6)] == list(extracted.ledgers)


@pytest.mark.parametrize(
    ("protocol", "passphrase", "reason"),
    [
        (30, "This Network ; November 2026", ""),
        (30, "Another Network ; November 2026", "was not signed for this network"),
        (
            31,
            NETWORK,
            "is of protocol 31, and this version understands those up to 30; the network's software is newer",
        ),
    ],
)
def test_ledgers_of_protocol_30_and_later(tmp_path: Path, protocol: int, passphrase: str, reason: str) -> None:
    """Ledgers of protocol 30 are read, those of another network or of a later protocol are gaps."""
    network = RecordedNetwork()
    network.passphrase = passphrase
    lake = make_lake(tmp_path, network, 2, protocol=protocol)
    work = RangeOfLedgers(
        "", str(lake.folder), None, "This Network ; November 2026", lake.first + 1, lake.last, Watch()
    )
    extracted = extract(work)[0]

    assert [bool(reason)] * 2 == [ledger not in extracted.ledgers for ledger in (lake.first + 1, lake.last)]
    assert all(reason in gap.reason for gap in extracted.gaps)


@pytest.mark.slow
def test_behind_a_gap_there_is_no_row(lake: RecordedLake, whole: MemoryStore, tmp_path: Path) -> None:
    """The job stops and names the ledger; with --on-gap skip it refuses every row behind; repaired, it gives all."""
    at = lake.first + GAP
    broken, store, changes = damaged(lake, tmp_path, at, None), MemoryStore(), MemoryStore()

    with pytest.raises(LakeError, match=f"ledger {at}: .*has no object.*run the same command again"):
        broken.backfill(EVERY, store, changes)
    assert read_history_manifest(store) is None
    result = broken.backfill(EVERY, store, changes, on_gap=SKIP)
    assert [(at, at)] == [(gap.first, gap.last) for gap in result.gaps]
    assert (BEFORE_GAP, BOUNDARIES - BEFORE_GAP) == (result.added, len(result.refused))
    expected = history_of(whole)
    assert all(data == expected[key] for key, data in history_of(store).items())

    repaired = lake.backfill(EVERY, store, changes, on_gap=SKIP)
    assert {} == repaired.refused
    assert expected == history_of(store)


@pytest.mark.slow
def test_a_checkpoint_behind_a_gap_begins_again(lake: RecordedLake, whole: MemoryStore, tmp_path: Path) -> None:
    """If there is a later state, only the rows between the gap and that state are refused."""
    at = lake.first + GAP
    broken, store = damaged(lake, tmp_path, at, None), MemoryStore()
    plan = broken.plan(EVERY)

    def later(ledger: int) -> StartState:
        assert ledger == at
        state, time = lake.network.chain.state(at + 10), lake.network.chain.close_time(at + 10)

        def entries(contracts: Collection[bytes], keys: Collection[bytes]) -> dict[bytes, RawEntry]:
            return {key: state[key] for key in state if key[8:40] in contracts or key in keys}

        return replace(plan.start, ledger=at + 10, close_time=time, entries=entries)

    result = broken.backfill(EVERY, store, on_gap=SKIP, start=replace(plan.start, later=later))

    assert [lake.first + 36] == list(result.refused)  # the gap is 32, the checkpoint 42
    assert BOUNDARIES - 1 == result.added
    expected = history_of(whole)
    assert all(data == expected[key] for key, data in history_of(store).items())
    (pieces,) = read_journal(store).segments.values()  # the gap cut a segment, and each piece is counted
    assert BOUNDARIES - 1 == sum(len(piece.boundaries) for piece in pieces)
    confirmed = sum(sum(piece.tally.confirmed.values()) for piece in pieces)
    assert confirmed == sum(item.confirmed for item in transitions_of(store))
    assert 2 == len(pieces)
    assert all(piece.tally.confirmed for piece in pieces)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["backfill", "--network", NETWORK, *arguments])


def test_the_command_reads_the_range_and_refuses_nonsense(
    lake: RecordedLake, whole: MemoryStore, tmp_path: Path
) -> None:
    """The command reads the range, says what it does, and refuses what cannot be meant."""
    out, changes = tmp_path / "tree", tmp_path / "changes"
    where = ("--lake", str(lake.folder), "--out", str(out), "--changes", str(changes), "--workers", "1")
    until = ("--to", str(lake.first + 13))  # the first boundary
    done = run(*where, "--start-snapshot", str(lake.start), "--every", "2h", "--log-format", "json", *until)
    unstarted = run(*where)
    wrong = run(*where, "--every", "soon")

    assert 7 == done.exit_code, done.output  # one pool is archived, one missing
    assert dict(list(history_of(whole).items())[:1]) == history_of(FolderStore(out))
    assert (2, True) == (unstarted.exit_code, "had contracts by then" in unstarted.stderr)
    assert (2, True) == (wrong.exit_code, "Invalid value for '--every': 'soon' is not a duration" in wrong.stderr)
