"""Backfilling a history: which files, what was done before, and how results get into the manifest.

Results are taken in batches: Parquet files first, then the manifest in one step, then the record of what is done. A
job that is killed has lost the batch under way at the most; the next one does what is left. Order, number and kind of
workers make no difference to the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import msgspec

from exporter.backfill.executors import Result, Started, run_all
from exporter.backfill.merge import MergeResult, merge_into_history
from exporter.backfill.work import DONE, FAILED, Outcome, part_of_snapshot
from exporter.config import Settings
from exporter.errors import ConfigError, LostRaceError, SnapshotFileError
from exporter.history.manifest import HistoryPart, read_history_manifest
from exporter.ledger.snapshot_file import read_snapshot_bytes
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Transitions
from exporter.tree.families import HISTORY_MANIFEST_KEY
from exporter.tree.read_back import render_document

JOURNAL_KEY = "state/backfill.journal"
"""Which snapshot files were taken in, by the digest of their content. No part of the API: its ending is none that is
served. It may be removed at any time."""

BATCH = 64
"""So many results are published together."""

WAIT_SECONDS = 600.0
"""So long a batch waits for a publisher that is at work."""

MAX_FILES = 1_000_000


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file that is to be taken in: its name for people, its content and the SHA-256 of that."""

    name: str
    content: bytes
    digest: str


@dataclass(slots=True)
class BackfillResult:
    """What a backfill did. ``unread`` has the names of markets and pools by file, ``failed`` the reason by file."""

    added: int = 0
    known: int = 0
    empty: int = 0
    rows: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)


class _Journal(msgspec.Struct):
    """The ledger of each file that was taken in, by digest; 0 for one whose ledger has no market."""

    ledgers: dict[str, int] = {}


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The snapshot files among files and folders: those named, and every ``.json`` in the folders, sorted, each once.

    Raises:
        ConfigError: a path is not there, there is no file at all, or there are too many.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(sorted(path.rglob("*.json"))))
        elif path.is_file():
            found[path] = None
        else:
            raise ConfigError(f"{path} is neither a file nor a folder")
        if len(found) > MAX_FILES:
            raise ConfigError(f"there are more than {MAX_FILES} files; backfill them in parts")
    if not found:
        raise ConfigError("no ledger snapshot file (.json) was found")
    return list(found)


def backfill(
    store: Store,
    settings: Settings,
    files: Sequence[Path],
    start: Started,
    *,
    at_once: int,
    on_file: Callable[[], None] = lambda: None,
) -> BackfillResult:
    """Take ledger snapshot files into the history of an output.

    A file that fails costs no other. A ledger that the history has is left as it is: its history is written once.

    Args:
        store: the output.
        settings: the network and markets, as for a run.
        files: the files.
        start: starts the executor that does the work.
        at_once: how many files are held and worked on at a time.
        on_file: is called as each file is done with.

    Raises:
        LostRaceError: a publisher was at work for longer than `WAIT_SECONDS`.
        StoreError: the output cannot be read or written; what was taken in before stays.
        CheckError: the history and a file contradict each other, for instance in the network.
    """
    result = BackfillResult()
    journal = _read_journal(store)
    in_history = ledgers_of(store)
    done = {digest for digest, ledger in journal.ledgers.items() if ledger == 0 or in_history(ledger)}

    def todo() -> Iterator[SnapshotFile]:
        for path in files:
            try:
                content = read_snapshot_bytes(path)
            except SnapshotFileError as error:
                result.failed[str(path)] = str(error)
                on_file()
                continue
            digest = hashlib.sha256(content).hexdigest()
            if digest in done:
                result.known += 1
                on_file()
            else:
                done.add(digest)
                yield SnapshotFile(str(path), content, digest)

    batch: list[tuple[SnapshotFile, Outcome]] = []
    for file, outcome in run_all(start, partial(_work, settings=settings), todo(), at_once):
        on_file()
        if outcome.unread:
            result.unread[file.name] = outcome.unread
        if outcome.state == FAILED:
            result.failed[file.name] = outcome.problem
            continue
        batch.append((SnapshotFile(file.name, b"", file.digest), outcome))
        if len(batch) >= BATCH:
            _take_in(store, settings.passphrase, journal, batch, result)
            batch = []
    _take_in(store, settings.passphrase, journal, batch, result)
    return result


def _work(file: SnapshotFile, settings: Settings) -> Outcome:
    return part_of_snapshot(file.content, Path(file.name).name, settings)


def _take_in(
    store: Store,
    network: str,
    journal: _Journal,
    batch: Sequence[tuple[SnapshotFile, Outcome]],
    result: BackfillResult,
) -> None:
    if not batch:
        return
    parts: dict[int, HistoryPart] = {}
    for _, outcome in batch:
        if outcome.part is not None:
            parts.setdefault(outcome.ledger, outcome.part)
    merged = merge_patiently(store, [parts[ledger] for ledger in sorted(parts)], network)
    result.added += len(merged.added)
    result.rows += merged.rows
    for file, outcome in batch:
        if outcome.ledger in merged.refused:
            result.failed[file.name] = merged.refused[outcome.ledger]
            continue
        result.empty += outcome.state != DONE
        result.known += outcome.state == DONE and outcome.ledger not in merged.added
        journal.ledgers[file.digest] = outcome.ledger if outcome.state == DONE else 0
    store.put(JOURNAL_KEY, msgspec.json.encode(journal, order="deterministic"))


def publish_transitions(store: Store, transitions: list[Transitions]) -> None:
    """Say in the history's manifest what replayed accruals prove, as soon as no publisher is at work."""

    def replace() -> None:
        with store.exclusive():
            manifest = read_history_manifest(store)
            if manifest is not None and manifest.transitions != transitions:
                changed = msgspec.structs.replace(manifest, transitions=transitions)
                store.put(HISTORY_MANIFEST_KEY, render_document(changed).data)

    _patiently(replace)


def merge_patiently(store: Store, parts: Sequence[HistoryPart], network: str) -> MergeResult:
    """Merge as soon as no publisher is at work; see `merge_into_history`."""
    return _patiently(lambda: merge_into_history(store, parts, network))


def _patiently(work: Callable[[], Result]) -> Result:
    deadline, pause = monotonic() + WAIT_SECONDS, 0.5
    while True:
        try:
            return work()
        except LostRaceError:
            if monotonic() + pause > deadline:
                raise
        sleep(pause)
        pause = min(2 * pause, 15.0)


def _read_journal(store: Store) -> _Journal:
    stored = store.get(JOURNAL_KEY)
    try:
        return _Journal() if stored is None else decode_json(stored.data, _Journal)
    except msgspec.DecodeError:
        return _Journal()  # everything is worked on again, and found to be there


def ledgers_of(store: Store) -> Callable[[int], bool]:
    """Whether the history may have a ledger; raises `StoreError`."""
    manifest = read_history_manifest(store)
    spans = [] if manifest is None else [(file.first_ledger, file.last_ledger) for file in manifest.files]
    return lambda ledger: any(first <= ledger <= last for first, last in spans)
