"""Which runs readers may still be paging through, and which nobody can be any more; likewise files of the history.

Readers of a run can go on for the retention time after it was superseded. When that was cannot be told from the
runs' own times: a run that died half-way may have been followed a day later. So a record is kept: a run that is
found not to be the published one, and is not recorded yet, is superseded from now on. Runs that died count as
well, because some of their documents may have been read. Where the record is lost, every run counts as superseded
from now on: kept too long, never too short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from exporter.decoding import decode_json
from exporter.publishing.published import RUNS_PREFIX
from exporter.stores.store import Store

SUPERSEDED_KEY = "v1/system/superseded.json"
"""Since when each earlier run is superseded. The sweep's own record, no part of the API."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The keys of the manifests of all runs in a store, by what is due to their readers.

    Attributes:
        current: the published run.
        retained: superseded for less than the retention time; their pages stay. Ascending.
        expired: superseded for longer. Ascending.
    """

    current: str
    retained: tuple[str, ...]
    expired: tuple[str, ...]


class _Record(msgspec.Struct, frozen=True):
    """Since when (unix seconds) earlier runs are superseded, by the key of their manifest; and history files."""

    superseded: dict[str, int]
    history: dict[str, int] = {}


def sort_runs(store: Store, current: str, moment: datetime | None, retention: timedelta) -> Runs:
    """Find every run of a store, and bring the record up to date; without a present time all are retained.

    Args:
        store: where runs are published to.
        current: the key of the manifest of the published run.
        moment: the present time, where it is known.
        retention: how long the pages of a superseded run stay.

    Raises:
        StoreError: the runs cannot be listed, or the record cannot be written.
    """
    earlier = sorted(info.key for info in store.list(RUNS_PREFIX) if info.key != current)
    if moment is None:
        return Runs(current, tuple(earlier), ())
    present = int(moment.timestamp())
    record = _read_record(store)
    known = record.superseded
    # A later time was recorded under a wrong clock.
    superseded = {key: min(known.get(key, present), present) for key in earlier}
    _write_record(store, _Record(superseded, record.history))
    last = int((moment - retention).timestamp())
    return Runs(
        current,
        tuple(key for key, since in superseded.items() if since >= last),
        tuple(key for key, since in superseded.items() if since < last),
    )


def forget_superseded(store: Store, key: str) -> None:
    """Take a run out of the record, because it is being published after all.

    Call it before the first document of the run is replaced. It concerns a run that died, was recorded, and is now
    begun again at the same ledger.

    Raises:
        StoreError: the record cannot be read or written.
    """
    record = _read_record(store)
    if key in record.superseded:
        del record.superseded[key]
        _write_record(store, record)


def record_superseded_history(store: Store, keys: Iterable[str], moment: datetime) -> None:
    """Note that files of the history are superseded from now on, whatever was noted of them before.

    Call it before the manifest ceases to name them.

    Raises:
        StoreError: the record cannot be read or written.
    """
    record = _read_record(store)
    _write_record(store, _Record(record.superseded, record.history | dict.fromkeys(keys, int(moment.timestamp()))))


def superseded_history(store: Store) -> Mapping[str, int]:
    """Since when (unix seconds) files of the history are superseded, by key; those that were removed are forgotten."""
    return _read_record(store).history


def forget_history(store: Store, keys: Iterable[str]) -> None:
    """Take files out of the record after they were removed. Raises `StoreError`."""
    record, gone = _read_record(store), set(keys)
    if gone & record.history.keys():
        kept = {key: since for key, since in record.history.items() if key not in gone}
        _write_record(store, _Record(record.superseded, kept))


def _write_record(store: Store, record: _Record) -> None:
    store.put(SUPERSEDED_KEY, msgspec.json.encode(record))


def _read_record(store: Store) -> _Record:
    stored = store.get(SUPERSEDED_KEY)
    if stored is None:
        return _Record({})
    try:
        return decode_json(stored.data, _Record)
    except msgspec.DecodeError:
        return _Record({})
