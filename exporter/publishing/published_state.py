"""Reads the state of a store: which run is published, which run was begun, and which files they listed.

Documents are read with the few fields that are needed, and other fields are ignored. So a run can publish over a tree
of an earlier format.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Annotated, TypedDict, TypeVar

import msgspec
from msgspec import Meta, Struct

from exporter.errors import CheckError, StoreError
from exporter.stores.store import Store, StoredObject, etag_of
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import Intent, RunInput, SystemStatus, Unread
from exporter.tree.families import INTENT_KEY, RUN, STATUS_KEY
from exporter.tree.files import check_key, is_key
from exporter.tree.run_listing import RunListing, listing_of
from exporter.tree.values import RunId, Timestamp

RUNS_PREFIX = RUN.prefix


_LEAVE = "Restore it from a copy, or leave it: runs go on without it, and a sweep removes it after the retention time"
_REMOVE_INTENT = (
    "Remove this one file and run again; if a run with --replace-ledger did not finish, give that option, too"
)
_REMOVE = "Remove this one file and run again: the next run writes it, and nothing else is lost"

_Ledger = Annotated[int, Meta(ge=1)]
_Decoded = TypeVar("_Decoded", bound=Struct)


class PublishedTimes(TypedDict, total=False):
    """When the published run was published, and when the next one is expected, in unix seconds."""

    published_at: int
    next_expected_at: int | None


class PublishedStatus(Struct, frozen=True):
    """The fields of the status document that the publisher needs."""

    run_id: RunId
    observed_ledger: _Ledger
    manifest_key: str
    manifest_sha256: str
    ledger_close_time: Timestamp | None = None
    network: str | None = None
    generated_at: Timestamp | None = None
    next_expected_at: Timestamp | None = None

    @property
    def times(self) -> PublishedTimes:
        """The times that the document has."""
        times = PublishedTimes()
        if self.generated_at is not None:
            times["published_at"] = _seconds(self.generated_at)
        if self.next_expected_at is not None:
            times["next_expected_at"] = _seconds(self.next_expected_at)
        return times


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())


class Published(Struct, frozen=True):
    """The status document that is in a store.

    Attributes:
        etag: identifies this content of the document; the next run swaps the document only if it is unchanged.
        has_earlier_format: whether the tree has an earlier format than this exporter writes.
    """

    status: PublishedStatus
    etag: str
    has_earlier_format: bool = False


class ListedRun(Struct, frozen=True):
    """The fields of a run's manifest that lead to the listing of its files. Earlier formats have them too."""

    files_key: str
    files_sha256: str


def read_published(store: Store, *, older: bool = False) -> Published | None:
    """Read the status document; None if nothing is published.

    Raises `FormatError` if its format is another one; with ``older``, an earlier format is accepted. Raises
    `StoreError` if it cannot be understood.
    """
    stored = store.get(STATUS_KEY)
    if stored is None:
        return None
    with _understood(STATUS_KEY):
        has_earlier_format = refuse_other_format(f"{store.uri}: {STATUS_KEY}", stored.data, older=older)
    status = _decode(STATUS_KEY, stored, PublishedStatus)
    try:
        check_key(status.manifest_key)
    except StoreError as error:
        raise StoreError(f"{STATUS_KEY} cannot be understood: manifest_key: {error}. {_REMOVE}") from error
    return Published(status, stored.etag, has_earlier_format)


class _UnreadOfRun(Struct, frozen=True):
    """What the published run could not read."""

    unread: list[Unread]


def published_unread(store: Store) -> list[Unread]:
    """What the published run could not read, by its status document. Raises `StoreError` if that does not say it."""
    stored = store.get(STATUS_KEY)
    return [] if stored is None else _decode(STATUS_KEY, stored, _UnreadOfRun).unread


def read_intent(store: Store) -> Intent | None:
    """Read the intent of the run that last began to replace documents. Raises `StoreError` if it is no intent."""
    stored = store.get(INTENT_KEY)
    return None if stored is None else _decode(INTENT_KEY, stored, Intent)


def unfinished_run(published: PublishedStatus | SystemStatus | None, intent: Intent | None) -> Intent | None:
    """The run that began to replace documents and was not published; None if there is none.

    Below the published ledger, that can only be a run with ``--replace-ledger``.
    """
    if intent is None or published is None:
        return intent
    undoes_runs = intent.replaced_ledger is not None and intent.run_id != published.run_id
    return intent if undoes_runs or intent.observed_ledger > published.observed_ledger else None


class _NamedInputs(Struct, frozen=True):
    """The field of a run's manifest that names its inputs."""

    inputs: list[RunInput] = []


def inputs_in(key: str, manifest: StoredObject) -> list[RunInput]:
    """The inputs that the manifest of a run names. Raises `StoreError` if it cannot be understood."""
    return _decode(key, manifest, _NamedInputs).inputs


def manifest_keys(store: Store) -> list[str]:
    """The keys of the manifests of all runs in the store, ascending."""
    return sorted(info.key for info in store.list(RUNS_PREFIX) if RUN.pattern.fullmatch(info.key))


def read_listing(store: Store, key: str) -> RunListing | None:
    """Read the listing of a run, given the key of its manifest; None if there is no such manifest.

    Raises `StoreError` if the manifest or its listing cannot be understood, or the listing is missing.
    """
    stored = store.get(key)
    return None if stored is None else _listing_of(store, key, _decode(key, stored, ListedRun))


def listings_since(store: Store, run_id: str) -> Iterator[RunListing]:
    """The listings of runs that died after the published run ``run_id``, in no certain order.

    Such a run may have replaced documents. Listings that cannot be read are passed over.
    """
    intent, published = read_intent(store), _published_at(store, RUN.key(run_id=run_id))
    begun = None if intent is None else RUN.key(run_id=intent.run_id)
    for key in manifest_keys(store):
        sealed = _published_at(store, key)
        if key == begun or (published is not None and sealed is not None and sealed > published):
            with suppress(StoreError):
                listing = read_listing(store, key)
                if listing is not None:
                    yield listing


class _SealedRun(Struct, frozen=True):
    """When the manifest of a run was made."""

    published_at: Timestamp


def _published_at(store: Store, key: str) -> datetime | None:
    """When the manifest of a run was made; None if it is missing or cannot be understood."""
    stored = store.get(key)
    try:
        return None if stored is None else datetime.fromisoformat(decode_json(stored.data, _SealedRun).published_at)
    except msgspec.DecodeError:
        return None


def read_current_listing(store: Store, status: PublishedStatus) -> RunListing:
    """Read the listing of the published run. Raises `StoreError` if it or the run's manifest is missing or damaged."""
    return _listing_of(store, status.manifest_key, read_current_manifest(store, status))


def read_current_manifest(store: Store, status: PublishedStatus) -> ListedRun:
    """Read the manifest of the published run. Raises `StoreError` if it is missing, or is not what was published."""
    stored = store.get(status.manifest_key)
    if stored is None:
        raise StoreError(f"{status.manifest_key} is missing, though {STATUS_KEY} names it")
    if etag_of(stored.data) != status.manifest_sha256:
        raise StoreError(f"{status.manifest_key} does not have the digest that {STATUS_KEY} gives for it")
    return _decode(status.manifest_key, stored, ListedRun)


def _listing_of(store: Store, key: str, manifest: ListedRun) -> RunListing:
    listed = store.get(manifest.files_key) if is_key(manifest.files_key) else None
    if listed is None:
        raise StoreError(f"{key} cannot be understood (there is no listing {manifest.files_key!r}). {_LEAVE}")
    try:
        return listing_of(manifest.files_key, manifest.files_sha256, listed.data)
    except CheckError as error:
        raise StoreError(f"{key} cannot be understood ({error}). {_LEAVE}") from error


def _decode(key: str, stored: StoredObject, model: type[_Decoded]) -> _Decoded:
    with _understood(key):
        return decode_json(stored.data, model)


@contextmanager
def _understood(key: str) -> Iterator[None]:
    """Turn a decoding error into a `StoreError` that names the document and says what to do."""
    try:
        yield
    except msgspec.DecodeError as error:
        advice = {STATUS_KEY: _REMOVE, INTENT_KEY: _REMOVE_INTENT}.get(key, _LEAVE)
        raise StoreError(f"{key} cannot be understood ({error}). {advice}") from error
