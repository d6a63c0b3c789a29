"""Which runs readers may still be paging through, and which nobody can be any more.

Readers of a run can go on for the retention time after it was superseded. When that was cannot be told from the
runs' own times: a run that died half-way may have been followed a day later. So a record is kept: a run that is
found not to be the published one, and is not recorded yet, is superseded from now on. Runs that died count as
well, because some of their documents may have been read. Where the record is lost, every run counts as superseded
from now on: kept too long, never too short.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

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
    """Since when (unix seconds) each earlier run is superseded, by the key of its manifest."""

    superseded: dict[str, int]


def sort_runs(store: Store, current: str, moment: datetime, retention: timedelta) -> Runs:
    """Find every run of a store, and bring the record up to date.

    Args:
        store: where runs are published to.
        current: the key of the manifest of the published run.
        moment: the present time.
        retention: how long the pages of a superseded run stay.

    Raises:
        StoreError: the runs cannot be listed, or the record cannot be written.
    """
    present = int(moment.timestamp())
    known = _read_record(store).superseded
    superseded: dict[str, int] = {}
    for key in sorted(info.key for info in store.list(RUNS_PREFIX)):
        if key != current:
            superseded[key] = min(known.get(key, present), present)  # a later time was recorded under a wrong clock
    store.put(SUPERSEDED_KEY, msgspec.json.encode(_Record(superseded)))
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
    superseded = _read_record(store).superseded
    if key in superseded:
        del superseded[key]
        store.put(SUPERSEDED_KEY, msgspec.json.encode(_Record(superseded)))


def _read_record(store: Store) -> _Record:
    stored = store.get(SUPERSEDED_KEY)
    if stored is None:
        return _Record({})
    try:
        return msgspec.json.decode(stored.data, type=_Record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Record({})
