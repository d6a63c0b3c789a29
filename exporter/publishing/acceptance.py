"""Decides whether a run may be published into a store: its network, its ledger, its close time, and foreign files."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from msgspec import Struct

from exporter.deployments.networks import network_of
from exporter.errors import ConfigError, NotNewerError, SourceError, StoreError, printable
from exporter.history.manifest import read_history_manifest
from exporter.publishing.published_state import Published, PublishedStatus, read_intent, read_published
from exporter.stores.held_store import HeldStore
from exporter.stores.store import Store
from exporter.tree.documents import Intent, timestamp
from exporter.tree.families import ROOT_FILES, family_of

MAX_LOOKED_AT = 1_000
"""Largest number of objects that are looked at to find out whether a store has a tree."""


MAX_LEDGERS_PER_SECOND = 10
"""Number of ledgers per second of its own clock that no network exceeds."""


SPARE_LEDGERS = 1_000
"""Number of ledgers allowed beyond `MAX_LEDGERS_PER_SECOND`: close times are rounded, and validators' clocks differ."""


class LedgerNotNewerError(NotNewerError):
    """A run's ledger is not above the published one, or is below the ledger of a run that was begun."""

    def __init__(self, message: str, *, already_published: bool = False) -> None:
        super().__init__(message)
        self.already_published = already_published


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
