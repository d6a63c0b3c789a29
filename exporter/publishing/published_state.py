"""Reads the state of a store: which run is published, which run was begun, and which files they listed.

It also decides whether a run may be published over that state (`accept_run`). Documents are read with the few fields
that are needed, and other fields are ignored. So a run can publish over a tree of an earlier format.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Annotated, TypedDict, TypeVar

import msgspec
from msgspec import Meta, Struct

from exporter.deployments.networks import network_of
from exporter.errors import CheckError, ConfigError, NotNewerError, SourceError, StoreError, printable
from exporter.history.manifest import file_ledgers, read_history_manifest
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Store, StoredObject, etag_of
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import HistoryManifest, Intent, RunInput, timestamp
from exporter.tree.families import HISTORY_MANIFEST_KEY, INTENT_KEY, ROOT_FILES, RUN, STATUS_KEY, family_of
from exporter.tree.files import check_key, is_key
from exporter.tree.run_listing import RunListing, listing_of
from exporter.tree.values import RunId, Timestamp

RUNS_PREFIX = RUN.prefix

MAX_LOOKED_AT = 1_000
"""Largest number of objects that are looked at to find out whether a store has a tree."""

MAX_LEDGERS_PER_SECOND = 10
"""Number of ledgers per second of its own clock that no network exceeds."""

SPARE_LEDGERS = 1_000
"""Number of ledgers allowed beyond `MAX_LEDGERS_PER_SECOND`: close times are rounded, and validators' clocks differ."""

_RESTORE = "Restore it from a copy; only if nothing in this tree is worth keeping, remove the tree and run again"
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


class LedgerNotNewerError(NotNewerError):
    """A run's ledger is not above the published one, or is below the ledger of a run that was begun."""

    def __init__(self, message: str, *, already_published: bool = False) -> None:
        super().__init__(message)
        self.already_published = already_published


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


def read_intent(store: Store) -> Intent | None:
    """Read the intent of the run that last began to replace documents. Raises `StoreError` if it is no intent."""
    stored = store.get(INTENT_KEY)
    return None if stored is None else _decode(INTENT_KEY, stored, Intent)


def refuse_files_of_others(store: Store) -> None:
    """Raise `StoreError` if the store has no tree, but a file that a tree would overwrite, such as an ``index.html``.

    Every tree has a file below ``v1/`` or ``history/`` from its first write on. So what a first run left behind when it
    died is not mistaken for somebody else's files.
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
    """The run above the published ledger that began to replace documents and did not finish; None if there is none.

    A run with ``--replace-ledger`` may be below that ledger, and is not found here: see `died_run`.
    """
    if intent is None or (published is not None and intent.observed_ledger <= published.status.observed_ledger):
        return None
    return intent


def died_run(published: Published | None, intent: Intent | None) -> Intent | None:
    """The run that began to replace documents and was not published, at any ledger; None if there is none.

    Below the published ledger, that can only be a run with ``--replace-ledger``.
    """
    if intent is None or (published is not None and intent.run_id == published.status.run_id):
        return None
    return intent if intent.replaced_ledger is not None else unfinished_run(published, intent)


def read_whole_history(
    store: Store, *, older: bool = False, replaced_ledger: int | None = None
) -> HistoryManifest | None:
    """The history's manifest; None if there is none.

    Raises `StoreError` also if the manifest is older than the published run: if it ends before that run's ledger, or
    lacks the ledger of that run or of a file that the run went on from and that is still there. To continue an old copy
    would lose the rows of these runs. With ``replaced_ledger``, ledgers from that one on may be missing.
    """
    manifest = read_history_manifest(store, older=older)
    if manifest is None:
        return None
    published, intent = read_published(store, older=True), read_intent(store)
    died = died_run(published, intent)
    replaced_ledgers = replaced_ledger, None if died is None else died.replaced_ledger
    taken_back = min((each for each in replaced_ledgers if each is not None), default=None)
    required_ledger = 0 if died is None else died.history_ledger
    if published is not None and (died is None or died.replaced_ledger is None):
        required_ledger = max(required_ledger, published.status.observed_ledger)
    newest = max((file.last_ledger for file in manifest.files), default=0)
    fault = None
    if newest < required_ledger and replaced_ledger is None:
        fault = f"ends at ledger {newest}, but ledger {required_ledger} was published"
    elif published is not None:
        lacking = _lacking(store, published, manifest, taken_back)
        if lacking is not None:
            fault = f"lacks {lacking}, which run {published.status.run_id} went on from or wrote"
    if fault is not None:
        raise StoreError(
            f"{HISTORY_MANIFEST_KEY} {fault}: it is older than the tree, as after a copy was put back in part. Nothing "
            "was published or removed. Restore the newest copy, or make it of the files that are there: exporter "
            f"history rebuild {store.uri}"
        )
    return manifest


class _HistoryInputs(Struct, frozen=True):
    """The inputs of a run, as its manifest names them."""

    inputs: list[RunInput] = []


def lost_inputs(store: Store, published: Published, manifest: HistoryManifest) -> list[RunInput]:
    """The history files that the published run went on from and whose ledgers the history's manifest lacks.

    A file that was joined with others, or replaced by one of a backfill, is not among them. There are none if the run's
    manifest is missing or damaged, or has an earlier format.
    """
    stored = None if published.has_earlier_format else store.get(published.status.manifest_key)
    if stored is None or etag_of(stored.data) != published.status.manifest_sha256:
        return []
    inputs = _decode(published.status.manifest_key, stored, _HistoryInputs).inputs
    ledgers = {item.key: file_ledgers(item.key) or () for item in inputs if item.name == "history"}
    lost = _not_in(manifest, [ledger for both in ledgers.values() for ledger in both])
    return [item for item in inputs if not lost.isdisjoint(ledgers.get(item.key, ()))]


def _not_in(manifest: HistoryManifest, ledgers: Iterable[int]) -> set[int]:
    """Those of the ledgers that no file of the history spans."""
    spans = sorted((file.first_ledger, file.last_ledger) for file in manifest.files)
    starts = [first for first, _ in spans]
    places = {ledger: bisect_right(starts, ledger) for ledger in ledgers}
    return {ledger for ledger, at in places.items() if not at or spans[at - 1][1] < ledger}


def _lacking(store: Store, published: Published, manifest: HistoryManifest, taken_back: int | None) -> str | None:
    """What of the published run's history the manifest lacks although it is there; None if it lacks nothing.

    Ledgers from ``taken_back`` on may be missing. A file that is gone or damaged cannot be named again.
    """
    ledger = published.status.observed_ledger
    if taken_back is None and _not_in(manifest, [ledger]):
        return f"ledger {ledger}"
    for item in lost_inputs(store, published, manifest):
        _, last = file_ledgers(item.key) or (0, 0)
        if taken_back is None or last < taken_back:
            stored = store.get(item.key)
            if stored is not None and etag_of(stored.data) == item.sha256:
                return item.key
    return None


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
        raise StoreError(f"{key} cannot be understood (there is no listing {manifest.files_key!r}). {_RESTORE}")
    try:
        return listing_of(manifest.files_key, manifest.files_sha256, listed.data)
    except CheckError as error:
        raise StoreError(f"{key} cannot be understood ({error}). {_RESTORE}") from error


def check_replaced(store: Store, replaced_ledger: int) -> None:
    """Raise `ConfigError` if no run was published at this ledger, so that ``--replace-ledger`` makes no sense.

    A flag that somebody left in a script is found in this way.
    """
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


class AcceptedRun(Struct, frozen=True):
    """A run that may be published into the store that is held. Only `accept_run` makes one.

    Attributes:
        published: the published run that it follows; None in an empty store.
        replaced_ledger: the ledger of a published run that is wrong. The history loses that run and every later one.
    """

    published: Published | None
    observed_ledger: int
    replaced_ledger: int | None = None


def accept_run(
    held: HeldStore, observed_ledger: int, close_time: int | None = None, *, replaced_ledger: int | None = None
) -> AcceptedRun:
    """Accept a run whose ledger is newer than the published one, or that replaces runs that are wrong.

    The ledger must be above the published one, and not below that of a run that was begun. It may be the ledger of a
    run that was begun, because that takes no reader back. Numbers follow from the ledger's state, so they are the same
    again. Which unlisted markets had room, notices, and times of publishing may differ: the new run replaces every
    document that the begun one wrote, and then the status document. ``close_time`` (unix seconds) is compared with the
    close time of the published ledger.

    Raises `LedgerNotNewerError` if the ledger is not newer, `SourceError` if the close time cannot be right, and
    `ConfigError` if ``replaced_ledger`` is not that of a published run.
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
    """Raise `LedgerNotNewerError` for a ledger that would take readers back in time."""
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
    """Raise `SourceError` for a ledger that closed before the published one, or too soon after it."""
    if status.ledger_close_time is None:
        return
    ledgers = observed_ledger - status.observed_ledger
    seconds = close_time - int(datetime.fromisoformat(status.ledger_close_time).timestamp())
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
    """The error for a run whose ledger is later than one of the history, but closed before it (unix seconds)."""
    return SourceError(
        f"the run's ledger {ledger} closed at {timestamp(close_time)}, but ledger {earlier_ledger} of an earlier run "
        f"closed at {timestamp(earlier_time)}, and no ledger closes before an earlier one. Where the endpoints are "
        "wrong, use another rpc_url. Should the earlier run be the wrong one, run once with "
        f"--replace-ledger {earlier_ledger}, which undoes it and every run after it"
    )


def check_network(store: Store, published: Published | None, network: str) -> None:
    """Raise `ConfigError` if the store has a tree of another network: one history would mix the numbers of both.

    ``network`` is the passphrase of the network that the run reads.
    """
    published_network = None if published is None else published.status.network
    if published_network is not None and published_network != network:
        theirs, ours = (f"{network_of(each).name} ({printable(each)[:200]})" for each in (published_network, network))
        raise ConfigError(
            f"output.uri: {store.uri} holds the network {theirs}, and this run reads {ours}; name another output, or "
            "remove that one if nothing in it is worth keeping"
        )


def _decode(key: str, stored: StoredObject, model: type[_Decoded]) -> _Decoded:
    with _understood(key):
        return decode_json(stored.data, model)


@contextmanager
def _understood(key: str) -> Iterator[None]:
    """Turn a decoding error into a `StoreError` that names the document and says what to do."""
    try:
        yield
    except msgspec.DecodeError as error:
        advice = _REMOVE if key == STATUS_KEY else _RESTORE
        raise StoreError(f"{key} cannot be understood ({error}). {advice}") from error
