"""The start of a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config import load
from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import ArchiveError, ConfigError, NetworkMismatchError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import u32
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.chain import Chain, Change
from exporter.localnet.lake_writer import LakeWriter
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.past.archive.checkpoint_proof import NotProvableError
from exporter.past.backfill.lake_job import LakeJob, LakePlan
from exporter.past.backfill.start_state import archive_start, empty_start, snapshot_start
from exporter.past.lake.objects import Lake
from exporter.stores.memory import MemoryStore
from tests.past.archive.simulated_archive import (
    CONTRACT,
    ONE,
    ORGANISATIONS,
    PASSPHRASE,
    TWO,
    SimulatedArchive,
    live,
    time_to_live,
    trust_document,
)
from tests.past.backfill.recorded_lake import IN_LINE, rows_of
from tests.protocols.protocol_facts import recorded_pools
from tests.snapshot_files import write_snapshot

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
TESTNET = NETWORKS["testnet"].passphrase


def test_sorobans_own_beginning(tmp_path: Path) -> None:
    """A lake that begins before Soroban has everything: markets, their tokens, and the answers of oracles."""
    network = RecordedNetwork(close_seconds=600)
    made, begins = network.chain, network.chain.close_time(network.chain.latest)
    chain = network.chain = Chain({}, start_ledger=made.latest - 3, start_time=begins - 1_800)
    with LakeWriter(chain, network.passphrase, tmp_path, protocol=19) as writer:
        chain.close([], close_time=begins - 1_200)
        chain.close([], close_time=begins - 600)
        writer.protocol = 28
        entries = {key: entry for key in made.known_keys() if (entry := made.stored(key)) is not None}
        chain.close([Change(key, item.data, item.live_until) for key, item in entries.items()], close_time=begins)
        for _ in range(7):
            network.advance()
    start = empty_start(Lake.open(str(tmp_path)))
    settings = load(None, {"network.name": NETWORK}, environment={}).settings
    ends = chain.close_time(chain.latest)
    store = MemoryStore()
    plan = LakePlan(
        settings, str(tmp_path), None, start, start.ledger, chain.latest, start.close_time, ends, 3600, range_ledgers=5
    )
    result = LakeJob(plan, store, MemoryStore(), IN_LINE, at_once=2).run()
    rows = rows_of(store)

    assert made.latest - 1 == start.ledger
    assert ({}, {}) == (result.refused, result.failed)
    assert result.rounds > 1  # the start names nothing but the lists
    assert recorded_pools() == rows.select("market", "pool").n_unique()
    assert "valid" in set(rows["price_reason"])


def test_a_checkpoint_of_a_real_archive(testnet_archive: Path) -> None:
    """The state is that of the newest checkpoint at or before the ledger; a later one can be had from it."""
    start = archive_start(str(testnet_archive), 960, TESTNET)
    contract = strkey.decode(POOL)[1]
    entries = start.entries([contract], [])
    assert start.later is not None
    later = start.later(960)

    assert (959, 22, 1023) == (start.ledger, start.protocol, later.ledger)
    assert instance_key(POOL) in entries
    assert {920, 924} <= {entry.last_modified for entry in entries.values()}
    assert all(entry.live_until is not None and entry.live_until > 959 for entry in entries.values())
    with pytest.raises(NotProvableError, match="10047 cannot be proven yet"):
        archive_start(str(testnet_archive), 10_060, TESTNET)
    with pytest.raises(NetworkMismatchError, match="--archive is of the network"):
        archive_start(str(testnet_archive), 960, NETWORKS["mainnet"].passphrase)


def test_a_snapshot_of_another_network(tmp_path: Path) -> None:
    """A snapshot file of another network is no start, because its contracts are others."""
    file = tmp_path / "start.json"
    write_snapshot(LedgerSnapshot(23, 100, 1_700_000_000, network_id(TESTNET), {}), file)

    assert 100 == snapshot_start(file, TESTNET).ledger
    with pytest.raises(NetworkMismatchError, match=r"start\.json is of the network with id"):
        snapshot_start(file, PASSPHRASE)


def test_the_first_checkpoint(tmp_path: Path) -> None:
    """A start at ledger 63 or later has that checkpoint; an earlier one has none, and the error says so."""
    made = SimulatedArchive(tmp_path / "archive", [[live(ONE, u32(7)), time_to_live(ONE, 900)]], checkpoint=63)
    trust = tmp_path / "trust.json"
    trust.write_bytes(trust_document(ORGANISATIONS))

    assert [63, 63] == [archive_start(str(made.folder), at, PASSPHRASE, trust=trust).ledger for at in (63, 126)]
    with pytest.raises(ConfigError, match="the first checkpoint is of ledger 63, after ledger 62"):
        archive_start(str(made.folder), 62, PASSPHRASE, trust=trust)


def test_a_start_that_nobody_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive whose files agree with each other is not a start unless the organisations signed its checkpoint."""
    made = SimulatedArchive(tmp_path / "archive", [[live(ONE, u32(7)), time_to_live(ONE, 900)]])
    trust = tmp_path / "trust.json"
    trust.write_bytes(trust_document(ORGANISATIONS))
    start = archive_start(str(made.folder), 130, PASSPHRASE, trust=trust)
    made.sign(*list(ORGANISATIONS)[:2])

    assert (127, [ONE], {}) == (start.ledger, list(start.entries([], [ONE])), start.entries([], [TWO]))
    monkeypatch.setattr("exporter.past.backfill.start_state.MAX_ENTRIES", 0)
    with pytest.raises(ArchiveError, match="more than 0 entries were asked for; name fewer contracts"):
        start.entries([strkey.decode(CONTRACT)[1]], [])
    with pytest.raises(NotProvableError, match="2 of 4 organisations signed ledger 128, 3 must"):
        archive_start(str(made.folder), 130, PASSPHRASE, trust=trust)
    with pytest.raises(ConfigError, match="no organisations are known to trust"):
        archive_start(str(made.folder), 130, PASSPHRASE)
