"""The state of a store: the published run, the run that was begun, and the listings of their files.

Unknown fields are ignored, so that a run can publish over a tree of an earlier format.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from exporter.deployments.networks import network_of
from exporter.errors import CheckError, ConfigError, NotNewerError, SourceError, StoreError, printable
from exporter.history.manifest import read_history_manifest
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Store, StoredObject, etag_of
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import HistoryManifest, Intent, timestamp
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, ROOT_FILES, RUN, STATUS_KEY, family_of
from exporter.tree.files import check_key, is_key
from exporter.tree.run_listing import RunListing, listing_of

RUNS_PREFIX = RUN.prefix

MAX_LOOKED_AT = 1_000
"""How many objects are looked at to find one of a tree; most trees have nothing else there."""

MAX_LEDGERS_PER_SECOND = 10
"""No network closes ledgers faster than this, by its own clock."""

SPARE_LEDGERS = 1_000
"""Allowed beyond that, because close times are rounded and clocks of validators differ."""

_RESTORE = "Restore it from a copy; only if nothing in this tree is worth keeping, remove the tree and run again"
_REMOVE = "Remove this one file and run again: the next run writes it, and nothing else is lost"

_Ledger = Annotated[int, Meta(ge=1)]
_Decoded = TypeVar("_Decoded", bound=Struct)


class PublishedStatus(Struct, frozen=True):
    """The fields of the status document that the publisher needs."""

    run_id: str
    observed_ledger: _Ledger
    manifest_key: str
    manifest_sha256: str
    ledger_close_time: datetime | None = None
    network: str | None = None
    generated_at: datetime | None = None
    next_expected_at: datetime | None = None

    @property
    def times(self) -> dict[str, int]:
        """When the run was published and, if it promised that, when the next is expected, in unix seconds."""
        named = {"published_at": self.generated_at, "next_expected_at": self.next_expected_at}
        return {name: int(at.timestamp()) for name, at in named.items() if at is not None}


@dataclass(frozen=True, slots=True)
class Published:
    """The status document as it is, with the etag to swap it by, and whether it is of an earlier format."""

    status: PublishedStatus
    etag: str
    earlier: bool = False


class ListedRun(Struct, frozen=True):
    """The fields of a run's manifest by which its files are found, which earlier formats have too."""

    files_key: str
    files_sha256: str


class LedgerNotNewerError(NotNewerError):
    """A run's ledger is not above the published one, or is below that of a run that was begun."""

    def __init__(self, message: str, *, already_published: bool = False) -> None:
        super().__init__(message)
        self.already_published = already_published


def read_published(store: Store, *, older: bool = False) -> Published | None:
    """Read the status document, with ``older`` also that of an earlier format. Raises `StoreError`, `FormatError`."""
    stored = store.get(STATUS_KEY)
    if stored is None:
        return None
    with _understood(STATUS_KEY):
        earlier = refuse_other_format(f"{store.uri}: {STATUS_KEY}", stored.data, older=older)
    status = _decode(STATUS_KEY, stored, PublishedStatus)
    try:
        check_key(status.manifest_key)
    except StoreError as error:
        raise StoreError(f"{STATUS_KEY} cannot be understood: manifest_key: {error}. {_REMOVE}") from error
    return Published(status, stored.etag, earlier)


def read_intent(store: Store) -> Intent | None:
    """Raises `StoreError` where it is not an intent."""
    stored = store.get(INTENT_KEY)
    return None if stored is None else _decode(INTENT_KEY, stored, Intent)


def refuse_files_of_others(store: Store) -> None:
    """Refuse an output that has no tree, and has files where a tree has its own. Raises `StoreError`, naming one.

    Somebody's ``index.html`` is not replaced. Every tree has something below ``v1/`` or ``history/`` from its first
    write on, so a tree whose first run died is none of somebody else.
    """
    for prefix in ("v1/", "history/"):
        if any(family_of(info.key) for info in islice(store.list(prefix), MAX_LOOKED_AT)):
            return
    for name in ROOT_FILES:
        if store.has(name):
            raise StoreError(
                f"{store.uri} has a file {name}, and no tree that it could belong to; it is not overwritten: choose an "
                "empty output, or move that file away"
            )


def unfinished_run(published: Published | None, intent: Intent | None) -> Intent | None:
    """Give the run that began to replace documents and did not finish; None when the last one did."""
    if intent is None or (published is not None and intent.observed_ledger <= published.status.observed_ledger):
        return None
    return intent


def died_run(published: Published | None, intent: Intent | None) -> Intent | None:
    """Give the run that began to replace documents and is not the published one, also one that replaces later runs."""
    if intent is None or (published is not None and intent.run_id == published.status.run_id):
        return None
    return intent if intent.replaced_ledger is not None else unfinished_run(published, intent)


def read_whole_history(store: Store, *, older: bool = False) -> HistoryManifest | None:
    """The history's manifest, if it has all that was published; None when there is none.

    Raises `StoreError` also for one that is older than the tree: what came since would be lost for good.
    """
    manifest = read_history_manifest(store, older=older)
    if manifest is None:
        return None
    published, intent = read_published(store, older=True), read_intent(store)
    died, wanted = died_run(published, intent), 0
    if died is not None:
        wanted = died.history_ledger
    if published is not None and (died is None or died.replaced_ledger is None):
        wanted = max(wanted, published.status.observed_ledger)
    newest = max((file.last_ledger for file in manifest.files), default=0)
    if newest < wanted:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} ends at ledger {newest}, but ledger {wanted} was published: it is older than the "
            "tree, as after a copy was put back in part. Nothing was published or removed. Restore the newest copy, or "
            f"make it of the files that are there: exporter history rebuild {store.uri}"
        )
    return manifest


def manifest_keys(store: Store) -> list[str]:
    """The keys of the manifests of all runs in the store, ascending."""
    return sorted(info.key for info in store.list(RUNS_PREFIX) if RUN.pattern.fullmatch(info.key))


def read_listing(store: Store, key: str) -> RunListing | None:
    """Read the listing of a run by the key of its manifest. Raises `StoreError`."""
    stored = store.get(key)
    return None if stored is None else _listing_of(store, key, _decode(key, stored, ListedRun))


def read_current_listing(store: Store, status: PublishedStatus) -> RunListing:
    """Read the listing of the run that the status document names. Raises as `read_current_manifest` does."""
    return _listing_of(store, status.manifest_key, read_current_manifest(store, status))


def read_current_manifest(store: Store, status: PublishedStatus) -> ListedRun:
    """Read the manifest that the status document names. Raises `StoreError` if it is missing, or is another one."""
    stored = store.get(status.manifest_key)
    if stored is None:
        raise StoreError(f"{status.manifest_key} is missing, though {STATUS_KEY} names it")
    if etag_of(stored.data) != status.manifest_sha256:
        raise StoreError(f"{status.manifest_key} does not have the digest that {STATUS_KEY} gives for it")
    return _decode(status.manifest_key, stored, ListedRun)


def _listing_of(store: Store, key: str, manifest: ListedRun) -> RunListing:
    listed = store.get(manifest.files_key) if is_key(manifest.files_key) else None
    if listed is None:
        raise StoreError(f"{key} cannot be understood (there is no listing {manifest.files_key!r}). {_RESTORE}")
    try:
        return listing_of(manifest.files_key, manifest.files_sha256, listed.data)
    except CheckError as error:
        raise StoreError(f"{key} cannot be understood ({error}). {_RESTORE}") from error


def check_replaced(store: Store, replaced_ledger: int) -> None:
    """Raise `ConfigError` where no run at this ledger can be replaced, as when the flag is left in a script."""
    published, intent = read_published(store, older=True), read_intent(store)
    history = read_history_manifest(store, older=True)
    ledgers = {each.observed_ledger for each in (intent, None if published is None else published.status) if each}
    newest = max(ledgers, default=None)
    ledgers |= {file.first_ledger for file in ([] if history is None else history.files)}
    if newest is None or replaced_ledger > newest or replaced_ledger not in ledgers:
        newest_text = (
            "nothing is published" if newest is None else f"the newest that was published or begun is {newest}"
        )
        raise ConfigError(f"--replace-ledger: {replaced_ledger} is not the ledger of a published run; {newest_text}")


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run that may be published into the store that is held. `accept_run` alone makes it.

    Attributes:
        published: what the run follows; None in an empty store.
        replaced_ledger: the ledger of a published run that is wrong: the history loses it and every later one.
    """

    published: Published | None
    observed_ledger: int
    replaced_ledger: int | None = None


def accept_run(
    held: HeldStore, observed_ledger: int, close_time: int | None = None, *, replaced_ledger: int | None = None
) -> AcceptedRun:
    """Accept a run whose ledger is newer than what is published, or that replaces what is wrong (`check_replaced`).

    A run must be above the published ledger, and not below that of a run that was begun; at the very same one it gives
    the same documents. ``close_time`` (unix seconds) is compared with that of the published ledger.

    Raises `LedgerNotNewerError`, `ConfigError`, and `SourceError` where the close time cannot be right.
    """
    published = read_published(held, older=True)
    accepted = AcceptedRun(published, observed_ledger, replaced_ledger)
    if replaced_ledger is not None:
        check_replaced(held, replaced_ledger)
        return accepted
    _refuse_not_newer(published, read_intent(held), observed_ledger)
    if published is not None and close_time is not None:
        _refuse_wrong_time(published.status, observed_ledger, close_time)
    return accepted


def _refuse_not_newer(published: Published | None, intent: Intent | None, observed_ledger: int) -> None:
    """Refuse a ledger that would take readers back. Raises `LedgerNotNewerError`."""
    if published is not None and observed_ledger <= published.status.observed_ledger:
        current = published.status.observed_ledger
        raise LedgerNotNewerError(
            f"the run's ledger {observed_ledger} is "
            + ("published already" if observed_ledger == current else f"below the published ledger {current}")
            + ". If this lasts, the endpoints lag: use another rpc_url",
            already_published=observed_ledger == current,
        )
    if intent is not None and observed_ledger < intent.observed_ledger:
        raise LedgerNotNewerError(
            f"the run's ledger {observed_ledger} is below {intent.observed_ledger}, at which a run began to replace "
            "documents and did not finish; publishing it would take readers back. Run again when the endpoints have "
            "reached that ledger"
        )


def _refuse_wrong_time(status: PublishedStatus, observed_ledger: int, close_time: int) -> None:
    """Refuse a ledger that closed before the published one, or too soon after it. Raises `SourceError`."""
    before = status.ledger_close_time
    if before is None:
        return
    ledgers = observed_ledger - status.observed_ledger
    seconds = close_time - int((before if before.tzinfo else before.replace(tzinfo=UTC)).timestamp())
    if seconds < 0:
        raise closed_earlier(observed_ledger, close_time, status.observed_ledger, close_time - seconds)
    if ledgers > SPARE_LEDGERS + MAX_LEDGERS_PER_SECOND * seconds:
        current = status.observed_ledger
        raise SourceError(
            f"the run's ledger {observed_ledger} is {ledgers} above the published one, {current}, and closed "
            f"{seconds} s after it; no network is that fast, so the endpoints are wrong: use another rpc_url. Should "
            f"the published run be the wrong one, run once with --replace-ledger {current}"
        )


def closed_earlier(ledger: int, close_time: int, earlier_ledger: int, earlier_time: int) -> SourceError:
    """The error of a run whose ledger closed before an earlier one of the history."""
    return SourceError(
        f"the run's ledger {ledger} closed at {timestamp(close_time)}, but ledger {earlier_ledger} of an earlier run "
        f"closed at {timestamp(earlier_time)}, and no ledger closes before an earlier one. Where the endpoints are "
        "wrong, use another rpc_url. Should the earlier run be the wrong one, run once with "
        f"--replace-ledger {earlier_ledger}, which undoes it and every run after it"
    )


def check_network(store: Store, published: Published | None, network: str) -> None:
    """Refuse a tree of another network (a passphrase): one history would hold the numbers of both."""
    published_network = None if published is None else published.status.network
    if published_network is not None and published_network != network:
        held, read = (f"{network_of(each).name} ({printable(each)[:200]})" for each in (published_network, network))
        raise ConfigError(
            f"output.uri: {store.uri} holds the network {held}, and this run reads {read}; name another output, or "
            "remove that one if nothing in it is worth keeping"
        )


def _decode(key: str, stored: StoredObject, model: type[_Decoded]) -> _Decoded:
    with _understood(key):
        return decode_json(stored.data, model)


@contextmanager
def _understood(key: str) -> Iterator[None]:
    try:
        yield
    except msgspec.DecodeError as error:
        advice = _REMOVE if key == STATUS_KEY else _RESTORE
        raise StoreError(f"{key} cannot be understood ({error}). {advice}") from error
