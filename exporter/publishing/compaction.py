"""Compaction: the files of a closed day become one sorted file, and those of a month long past one a month.

A run writes one small file, so an unkempt history has hundreds a day. A compacted file has the very rows of the files
that it stands for, sorted by market, pool and ledger, so that what is asked of one pool lies together. Nothing is lost
and no reader is broken in between:

1. the compacted file is written under a key of its own, named by its ledgers and its content;
2. it is recorded since when the files that it stands for are superseded, so that they outlive the retention time;
3. the history's manifest is replaced in one step.

A crash leaves the manifest as it was, and whatever nobody names is removed by a later sweep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

from exporter.api.documents import HistoryFile, HistoryManifest
from exporter.api.render import HISTORY_MANIFEST_KEY, render_history_manifest
from exporter.errors import StoreError
from exporter.history.compacted_file import CompactedFile, compact_files
from exporter.history.manifest import HISTORY_PREFIX, read_history_manifest
from exporter.publishing.retention import record_superseded_history
from exporter.stores.store import Clock, Store, utc_now

DEFAULT_MONTHS = 2
"""So many whole months stay in a file a day; months before them are compacted to one file each."""

MAX_MONTH_BYTES = 256 * 2**20
"""The files of a month that are larger together stay a file a day: nobody wants to download more at once."""

_PLACE = re.compile(rf"{HISTORY_PREFIX}(?:date=(?P<day>\d{{4}}-\d{{2}}-\d{{2}})|month=(?P<month>\d{{4}}-\d{{2}}))/")


@dataclass(frozen=True, slots=True)
class Piece:
    """Files of the manifest, ascending by ledger, that are to become one in ``folder``."""

    folder: str
    files: tuple[HistoryFile, ...]

    @property
    def rows(self) -> int:
        """The rows of all files together."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: the pieces, the files that came of them, and bytes before and after."""

    pieces: tuple[Piece, ...]
    files: tuple[HistoryFile, ...]

    @property
    def files_before(self) -> int:
        """How many files the new ones stand for."""
        return sum(len(piece.files) for piece in self.pieces)

    @property
    def bytes_before(self) -> int:
        """The bytes of the files that the new ones stand for."""
        return sum(file.bytes for piece in self.pieces for file in piece.files)

    @property
    def bytes_after(self) -> int:
        """The bytes of the new files."""
        return sum(file.bytes for file in self.files)


def plan_compaction(manifest: HistoryManifest, months: int = DEFAULT_MONTHS) -> list[Piece]:
    """Find what can be compacted, oldest first.

    A day is closed when the history has a later one; the newest day never is. A month is compacted when at least
    ``months`` whole months lie between it and the newest day. Files of different schema versions stay apart.

    Args:
        manifest: the history as it stands.
        months: how many whole months before the newest one stay in a file a day.
    """
    placed = [(file, *_place(file.key)) for file in sorted(manifest.files, key=lambda file: file.first_ledger)]
    days = [day for _, day, _ in placed if day is not None]
    if not days:
        return []
    newest = max(days)
    before = _month_before(newest[:7], months)
    pieces: list[Piece] = []
    by_month = groupby(placed, key=lambda item: (item[2], item[0].schema_version))
    for (month, _), of_month in by_month:
        group = list(of_month)
        if month < before and sum(file.bytes for file, _, _ in group) <= MAX_MONTH_BYTES:
            if len(group) > 1 or group[0][1] is not None:
                pieces.append(Piece(f"{HISTORY_PREFIX}month={month}/", tuple(file for file, _, _ in group)))
            continue
        for day, of_day in groupby(group, key=lambda item: item[1]):
            files = tuple(file for file, _, _ in of_day)
            if day is not None and day != newest and len(files) > 1:
                pieces.append(Piece(f"{HISTORY_PREFIX}date={day}/", files))
    return pieces


def compact_history(
    store: Store, *, months: int = DEFAULT_MONTHS, most: int | None = None, now: Clock = utc_now
) -> Compacted:
    """Compact what can be, as `plan_compaction` finds it; each piece is done and published before the next.

    Args:
        store: where the history lives; it is held as by a publisher.
        months: see `plan_compaction`.
        most: how many pieces at the most; None does all.
        now: the wall clock, for the retention of the files that are superseded.

    Raises:
        LostRaceError: a publisher is at work.
        StoreError: a file is missing or not the one that the manifest names; what was compacted before stays.
        CheckError: a compacted file does not have the rows of its parts; nothing was replaced by it.
    """
    done: list[Piece] = []
    files: list[HistoryFile] = []
    with store.exclusive():
        manifest = read_history_manifest(store)
        if manifest is None:
            return Compacted((), ())
        for piece in plan_compaction(manifest, months)[:most]:
            compacted = compact_files(store, piece.folder, piece.files)
            manifest = _replace(store, manifest, piece, compacted, now)
            done.append(piece)
            files.append(compacted.entry)
    return Compacted(tuple(done), tuple(files))


def _replace(
    store: Store, manifest: HistoryManifest, piece: Piece, compacted: CompactedFile, now: Clock
) -> HistoryManifest:
    store.put_new(compacted.entry.key, compacted.data)
    record_superseded_history(store, (file.key for file in piece.files if file.key != compacted.entry.key), now())
    gone = {file.key for file in piece.files}
    files = [file for file in manifest.files if file.key not in gone]
    files = sorted([*files, compacted.entry], key=lambda file: file.first_ledger)
    replaced = HistoryManifest(manifest.schema_version, manifest.observed_ledger, files)
    rendered = render_history_manifest(replaced)
    store.put(HISTORY_MANIFEST_KEY, rendered.data)
    return replaced


def _place(key: str) -> tuple[str | None, str]:
    """The day (None for a month's file) and the month that a file's folder names."""
    match = _PLACE.match(key)
    if match is None:
        raise StoreError(f"{HISTORY_MANIFEST_KEY} names {key}, which is under no day and no month")
    return match["day"], match["month"] or match["day"][:7]


def _month_before(month: str, count: int) -> str:
    """The month so many before another; both as YYYY-MM."""
    whole = int(month[:4]) * 12 + int(month[5:]) - 1 - count
    return f"{whole // 12:04d}-{whole % 12 + 1:02d}"
