"""Provides the state with which a replay begins: from a file, from a history archive, or an empty one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, field

from exporter.deployments.networks import network_id
from exporter.errors import ArchiveError, ConfigError, NetworkMismatchError
from exporter.ledger.checkpoints import CHECKPOINT_LEDGERS, checkpoint_of
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.archive_places import Archives, Deadline, RemoteFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.checkpoint_proof import make_proof
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.trusted_organisations import trust_of
from exporter.past.lake.objects import Lake
from exporter.user_files import user_path

SOROBAN_PROTOCOL = 20
MAX_ENTRIES = 5_000_000
"""Largest number of entries of a checkpoint that are kept in memory."""

Entries = Callable[[Collection[bytes], Collection[bytes]], dict[bytes, RawEntry]]
"""A function that returns entries of the state: all those of some contracts (ids), and those of some LedgerKeys.

The entries have the true last ledger of their lives."""


class StartState(Struct, frozen=True):
    """The state after a ledger.

    Attributes:
        close_time: the close time of the ledger, in unix seconds.
        protocol: Stellar's protocol version at the ledger.
        entries: returns the entries that are asked for.
        label: a name for people.
        instances: the contracts whose instances a snapshot file has.
        later: returns the first available state at or after another ledger, to begin again after a gap; None if there
            is no other state.
    """

    ledger: int
    close_time: int
    protocol: int
    entries: Entries
    label: str
    instances: list[tuple[str, ContractInstance]] = field(default_factory=list)
    later: Callable[[int], StartState] | None = None


def snapshot_start(path: Path, passphrase: str) -> StartState:
    """The state in a ledger snapshot file.

    Raises `SnapshotFileError` if it cannot be read, and `NetworkMismatchError` if it is of another network.
    """
    snapshot = LedgerSnapshot.load(path)
    if snapshot.network_id != network_id(passphrase):
        raise NetworkMismatchError(
            f"--start-snapshot {path.name} is of the network with id {snapshot.network_id}, not of {passphrase!r}"
        )
    return StartState(
        snapshot.ledger,
        snapshot.close_time,
        snapshot.protocol_version,
        lambda contracts, keys: {
            key: entry for key, entry in snapshot.entries.items() if key[8:40] in contracts or key in keys
        },
        f"ledger snapshot file {path.name}",
        list(snapshot.contract_instances()),
    )


def archive_start(
    uri: str, ledger: int, passphrase: str, seconds: float = 300.0, trust: Path | None = None
) -> StartState:
    """The state at the newest checkpoint of a history archive at or before a ledger. The checkpoint is proven.

    Each reading of a checkpoint may take ``seconds``. ``trust`` is the file with the list of trusted organisations;
    None for the packaged list of the network.

    Raises `ArchiveError` if the checkpoint cannot be read or proven, `NetworkMismatchError` if it is of another
    network, and `ConfigError` if nobody is trusted on this network, or there is no checkpoint before the ledger.
    """
    trusted = trust_of(passphrase, trust)

    def opened() -> Archives:
        deadline = Deadline(seconds, "network.read_deadline")
        return Archives([HistoryArchive(RemoteFiles(uri, deadline) if "://" in uri else FolderFiles(user_path(uri)))])

    def at(checkpoint_ledger: int) -> StartState:
        archives = opened()
        stated = archives.each[0].checkpoint(checkpoint_ledger).passphrase
        if stated not in (None, passphrase):
            raise NetworkMismatchError(f"--archive is of the network {stated!r}, not of {passphrase!r}")
        checkpoint = make_proof(archives, checkpoint_ledger, trusted)[0]

        def entries(contracts: Collection[bytes], keys: Collection[bytes]) -> dict[bytes, RawEntry]:
            def includes(key: bytes) -> bool:
                is_contract_data = key[:8] == b"\0\0\0\x06\0\0\0\1"
                return (is_contract_data and key[8:40] in contracts) or key in keys

            with TemporaryDirectory() as folder:
                index = StateIndex(opened(), checkpoint, Path(folder), includes)
                selected = dict(islice(index.items(), MAX_ENTRIES + 1))
                index.close()
            if len(selected) > MAX_ENTRIES:
                raise ArchiveError(f"more than {MAX_ENTRIES} entries were asked for; name fewer contracts")
            return selected

        header, label = checkpoint.header, f"checkpoint {checkpoint_ledger} of the history archive"
        facts = checkpoint_ledger, header.close_time, header.protocol_version, entries, label
        return StartState(*facts, later=lambda after: at(checkpoint_of(after)))

    before = ledger - (ledger + 1) % CHECKPOINT_LEDGERS
    if before < CHECKPOINT_LEDGERS - 1:
        raise ConfigError(
            f"--archive: the first checkpoint is of ledger 63, after ledger {ledger}, the first of --from; begin later"
        )
    return at(before)


def empty_start(lake: Lake) -> StartState:
    """The empty state before the first ledger with contracts. Raises `ConfigError` if the lake begins later."""
    oldest, newest = lake.span()
    before = ledger_at(SOROBAN_PROTOCOL - 1, oldest, newest, lambda ledger: lake.close_of(ledger)[1])
    if before is None:
        raise ConfigError(
            f"{lake.label} begins at ledger {oldest}, and the network had contracts by then; the entries before it "
            "have to come from elsewhere: give --archive URI (a history archive) or --start-snapshot FILE"
        )
    time = lake.close_of(before)[0]
    return StartState(before, time, SOROBAN_PROTOCOL - 1, lambda *_: {}, "Soroban's beginning")


def ledger_at(time: int, first: int, last: int, close_time: Callable[[int], int]) -> int | None:
    """The last ledger of a range that closed at or before a time in unix seconds; None if none did."""
    closed_count = bisect_right(range(first, last + 1), time, key=close_time)
    return first + closed_count - 1 if closed_count else None
