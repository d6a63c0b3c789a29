"""Taking the census of a proven checkpoint, and comparing it with what a run into a tree read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from exporter.config import Settings
from exporter.console import Console
from exporter.deployments.networks import network_of
from exporter.discovery.census import LENDING, CensusTaken, Classifier, Found, Kind
from exporter.errors import CheckError, StoreError
from exporter.job.evidence import Evidence
from exporter.job.from_archive import FromArchive, ProvenState, open_archive_state
from exporter.ledger.codec import strkey
from exporter.protocols import PROTOCOLS
from exporter.publishing.published_state import read_published
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Census, CensusCode, CensusContract, MarketList, SystemStatus
from exporter.tree.families import CENSUS, POINTER_KEY
from exporter.tree.read_back import render_document

MARKETS_KEY = "v1/markets.json"

MAX_LISTED = 10_000
"""At most this many contracts that were not read are listed; all are counted."""

_NO_RUN = "no_run", "compared with no run"
_NO_READER = "no_reader", "no protocol that the exporter reads has such storage"
_NOT_FOUND = "not_found", "the run did not look there"
_NEWER = "not_found", "the run is of an earlier ledger, and did not look there"


@dataclass(frozen=True, slots=True)
class RunRead:
    """What a run read: its ``markets``, every contract of which it had an entry, and why others were not read."""

    status: SystemStatus
    markets: frozenset[str]
    touched: frozenset[str]
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)

    def why_unread(self, found: Found, checkpoint: int) -> tuple[str, str] | None:
        """The reason, as a word and in words, why the run did not read a contract; None if it did."""
        if found.address in self.markets or (found.protocol is None and found.address in self.touched):
            return None
        known = self.reasons.get(found.address)
        if known is not None:
            return known
        if found.protocol is None:
            return _NO_READER
        notice = next((text for text in self.status.notices if found.address in text), None)
        if notice is not None:
            return "refused", notice
        return _NEWER if checkpoint > self.status.observed_ledger else _NOT_FOUND


def run_read(store: Store) -> RunRead:
    """What the published run of a tree read. Raises `CheckError` if there is none, `StoreError` if it is damaged."""
    published = read_published(store)
    if published is None:
        raise CheckError(f"{store.uri}: no run is published there; run `exporter run` first")
    try:
        status = decode_json(_get(store, POINTER_KEY), SystemStatus)
        markets = decode_json(_get(store, MARKETS_KEY), MarketList)
    except msgspec.DecodeError as error:
        raise StoreError(f"{store.uri}: the run cannot be understood: {error}") from None
    evidence = Evidence.decode(_get(store, status.evidence_key), status.evidence_key)
    return run_read_of(status, markets, evidence)


def run_read_of(status: SystemStatus, markets: MarketList, evidence: Evidence) -> RunRead:
    """What a run read, by its documents and its evidence."""
    touched = {key[8:40] for key, entry in evidence.entries.items() if entry is not None and key[4:8] == b"\0\0\0\1"}
    reasons = {item.market: (item.reason, item.detail) for item in status.unread if item.pool is None}
    reasons |= {item.market: ("absent", item.reason) for item in status.absent}
    read = frozenset(item.market for item in markets.data)
    return RunRead(status, read, frozenset(map(strkey.encode_contract, touched)), reasons)


def take_census(state: ProvenState, passphrase: str) -> CensusTaken:
    """The census of a proven state."""
    classifier = Classifier(PROTOCOLS, network_of(passphrase).deployments)
    return classifier.take((data for _, data in state.index.contract_data()), state.instances)


def census(settings: Settings, given: FromArchive, store: Store | None, console: Console) -> Census:
    """Take the census of a checkpoint; with a store it is compared with the run there, and added to its tree.

    Raises:
        ArchiveError, NetworkMismatchError, ConfigError: as `exporter.job.from_archive.open_archive_state`.
        CheckError, StoreError: there is no run in the store, or it is of another network or damaged.
    """
    run = None if store is None else run_read(store)
    if run is not None and run.status.network != settings.passphrase:
        raise CheckError(f"the run is of the network {run.status.network!r}, not of {settings.passphrase!r}")
    with console.step("census", "taking the census") as facts, open_archive_state(settings, given) as state:
        taken = take_census(state, settings.passphrase)
        facts.update(checkpoint=state.proven.ledger, contracts=sum(taken.counts.values()))
        document = _document(settings.passphrase, state, taken, run)
    if store is not None:
        with store.exclusive():
            store.put(CENSUS.template, render_document(document).data)
    return document


def _document(passphrase: str, state: ProvenState, taken: CensusTaken, run: RunRead | None) -> Census:
    codes = Counter((item.kind, item.protocol, item.wasm_hash) for item in taken.lending)
    unread = list(_unread(taken.lending, run, state.proven.ledger))
    return Census(
        network=passphrase,
        checkpoint=state.proven.ledger,
        header=state.proven.hash.hex(),
        run_id=None if run is None else run.status.run_id,
        contract_count=sum(taken.counts.values()),
        code_count=taken.codes,
        counts={str(kind): count for kind, count in taken.counts.items()},
        codes=[
            CensusCode(str(kind), protocol, _hex(wasm_hash), count)
            for (kind, protocol, wasm_hash), count in sorted(
                codes.items(), key=lambda item: (LENDING.index(item[0][0]), -item[1], item[0][2] or b"")
            )
        ],
        unread_count=len(unread),
        unread=sorted(unread, key=lambda item: (LENDING.index(Kind(item.kind)), item.address))[:MAX_LISTED],
    )


def _unread(lending: Iterable[Found], run: RunRead | None, checkpoint: int) -> Iterator[CensusContract]:
    for found in lending:
        why = _NO_RUN if run is None else run.why_unread(found, checkpoint)
        if why is not None:
            yield CensusContract(found.address, str(found.kind), found.protocol, _hex(found.wasm_hash), *why)


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def _get(store: Store, key: str) -> bytes:
    stored = store.get(key)
    if stored is None:
        raise StoreError(f"{store.uri}: {key} is missing")
    return stored.data
