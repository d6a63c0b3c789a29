"""The recorded network's state as a history archive that made validators signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from exporter.deployments.networks import RECORDED_PASSPHRASE, network_id
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.localnet.player import RecordedNetwork
from exporter.past.archive.state_index import LIVE
from exporter.past.archive_source import FromArchive
from tests.past.archive.simulated_archive import ORGANISATIONS, SimulatedArchive, time_to_live, trust_document

CHECKPOINT = 65_000_063


def records_of(entries: Mapping[bytes, RawEntry]) -> list[bytes]:
    """The records of entries in a bucket, with their times to live."""
    records = []
    for key, entry in sorted(entries.items()):
        records.append(LIVE + entry.last_modified.to_bytes(4, "big") + entry.data + bytes(4))
        if entry.live_until is not None:
            records.append(time_to_live(key, entry.live_until))
    return records


def recorded_state(change: Callable[[dict[bytes, RawEntry]], None] | None = None) -> LedgerSnapshot:
    """All entries of the recorded network at the checkpoint. ``change`` may change them."""
    network = RecordedNetwork()
    chain = network.chain
    entries = {key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    if change is not None:
        change(entries)
    closed = chain.close_time(chain.latest) + 300
    return LedgerSnapshot(28, CHECKPOINT, closed, network_id(network.passphrase), entries)


def recorded_archive(
    folder: Path,
    change: Callable[[dict[bytes, RawEntry]], None] | None = None,
    newest: Sequence[bytes] = (),
) -> tuple[SimulatedArchive, FromArchive]:
    """The archive of `recorded_state`, and how to read it; the folder also gets ``trust.json``.

    ``newest`` are records of the newest bucket.
    """
    state = recorded_state(change)
    records = records_of(state.entries)
    signed = SimulatedArchive(
        folder / "archive",
        [list(newest) or records[: len(records) // 2], [], records],
        hot=[[]],
        version=28,
        checkpoint=CHECKPOINT,
        time=state.close_time - CHECKPOINT,
        passphrase=RECORDED_PASSPHRASE,
    )
    (folder / "trust.json").write_bytes(trust_document(ORGANISATIONS, RECORDED_PASSPHRASE))
    given = FromArchive((str(signed.folder),), CHECKPOINT, folder / "trust.json", folder / "kept")
    return signed, given
