"""The history as a Delta table follows the manifest: what comes into it, and what of its log expires.

The manifest says what belongs to the history. The log is brought to it in one step, after the manifest was replaced;
whatever a crash left undone, the next step does. A log that is damaged is begun anew above its newest version.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from exporter.errors import ImmutableKeyError, LostRaceError
from exporter.history import delta_log
from exporter.stores.store import Store
from exporter.tree.documents import HistoryManifest

CHECKPOINT_EVERY = 10
"""So many versions a reader reads at the most beside a checkpoint."""


def newest_version(store: Store) -> delta_log.TableVersion:
    """The table as it stands. A log that does not tell it is begun anew after its last version, with every file.

    Raises:
        StoreError: the store cannot be read.
    """
    log = delta_log.Log.standing(store)
    try:
        return log.version(log.newest)
    except delta_log.DamagedLogError:
        return delta_log.TableVersion(log.newest)


def follow(store: Store, table: delta_log.TableVersion, manifest: HistoryManifest, moment: datetime) -> None:
    """Bring the table to the manifest that stands.

    Args:
        store: the store, held as by a publisher.
        table: the newest version, as it stands there.
        manifest: the history.
        moment: the wall clock.

    Raises:
        LostRaceError: another publisher has made the next version.
        StoreError: the store refused an operation; the table stays at the version that it had.
    """
    commit = delta_log.next_commit(table, manifest, moment)
    if commit is None:
        return
    version = commit.after.number
    anew = table.meta is None and version > 0  # a reader must not take in what the damaged versions say
    if anew:
        store.put_new(delta_log.checkpoint_key(version), delta_log.checkpoint(commit.after))
    try:
        store.put_new(commit.key, commit.data)
    except ImmutableKeyError as error:  # it was not there when the log was read
        raise LostRaceError(f"another publisher wrote {commit.key} meanwhile; let it finish and run again") from error
    if version % CHECKPOINT_EVERY == 0 and version and not anew:
        store.put_new(delta_log.checkpoint_key(version), delta_log.checkpoint(commit.after))


def trim(store: Store, before: datetime) -> int:
    """Remove the versions that were not the newest one any more at a time; gives how many files that were.

    Every version that stays names only files that a sweep of the same time leaves, too. The first of them gets a
    checkpoint, because nothing before it is there to build on.

    Raises:
        StoreError: the store refused an operation; what was removed before stays removed.
    """
    log, limit = delta_log.Log.standing(store), int(before.timestamp() * 1000)
    first: int | None = None
    for version in log.commits:
        with suppress(delta_log.DamagedLogError):
            if log.made_at(version) >= limit:
                break
            first = version
    if first is None:
        return 0
    expired = [
        *(delta_log.checkpoint_key(version) for version in log.checkpoints if version < first),
        *(delta_log.commit_key(version) for version in log.commits if version < first),
    ]
    if expired and first not in log.checkpoints:
        try:
            whole = log.version(first)
        except delta_log.DamagedLogError:
            return 0  # until the log that was begun anew is old enough
        store.put_new(delta_log.checkpoint_key(first), delta_log.checkpoint(whole))
    return store.delete(expired)
