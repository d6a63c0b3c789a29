"""Takes the census of a proven checkpoint: counts its contracts, and names the lending ones that a run did not read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from exporter.audit.added_risk import add_risk
from exporter.audit.risk_tally import RiskTally
from exporter.audit.run_coverage import NO_RUN, RunCoverage, coverage_in
from exporter.config import Settings
from exporter.console import Console
from exporter.deployments import FACTORY
from exporter.deployments.networks import network_id, network_of
from exporter.discovery import completed_deployments
from exporter.discovery.contract_kinds import LENDING, CensusTaken, ContractKind, classify_all
from exporter.discovery.known_markets import KnownMarket, Memory
from exporter.errors import ConfigError, DecodeError
from exporter.job.known_markets_file import save_memory
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import decode_contract_data, instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.snapshot_file import SnapshotSource
from exporter.ledger.view import LedgerView
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven
from exporter.past.archive_source import FromArchive, open_archive_state
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Origin
from exporter.stores.held_store import hold
from exporter.stores.store import Store
from exporter.tree.documents import Census, CensusCode, CensusContract
from exporter.tree.families import CENSUS
from exporter.tree.read_back import render_document

MAX_LISTED = 10_000
"""Largest number of unread contracts that a census lists. It counts all of them."""

MAX_LEARNED = 1_000
"""Largest number of markets of a census that the next run tries."""


def classify_contracts(
    data: Iterable[bytes], instances: Iterable[tuple[str, ContractInstance]], passphrase: str
) -> CensusTaken:
    """Tell what each contract of a checkpoint is, and count the kinds."""
    return classify_all(PROTOCOLS, network_of(passphrase).deployments, data, instances)


def take_census(settings: Settings, archive: FromArchive, store: Store | None, console: Console) -> Census:
    """Take the census of a checkpoint. With a store, compare it with the run there, and add it to that tree.

    Raises `NothingPublishedError` if the store has no run, `ConfigError` if its run is of another network, and
    `StoreError` if its tree is damaged.
    """
    run = None if store is None else coverage_in(store)
    if run is not None and run.status.network != settings.passphrase:
        raise ConfigError(f"the run is of the network {run.status.network!r}, not of {settings.passphrase!r}")
    with console.step("census", "taking the census") as facts, open_archive_state(settings, archive) as state:
        tally = RiskTally(settings, state.index, state.source, state.instances, state.proven)
        data = tally.passing(state.index.contract_data())  # so that one pass over the state gives both
        taken = classify_contracts(data, state.instances, settings.passphrase)
        risk = tally.document()
        facts.update(checkpoint=state.proven.ledger, contracts=sum(taken.counts.values()))
        document = census_document(settings.passphrase, state.proven, taken, run)
        if store is not None:
            records = recorded_markets(state.source, state.index, settings.passphrase)
            save_memory(store, _memory(settings.passphrase, taken, *records, state.proven.ledger))
    if store is not None:
        with hold(store) as held:
            held.put(CENSUS.only_key, render_document(document).data)
            add_risk(held, risk, console)
    return document


def _memory(
    passphrase: str, taken: CensusTaken, recorded: Mapping[str, object], vouching: frozenset[str], ledger: int
) -> Memory:
    """The contracts that the next run tries as markets.

    If the factories of a protocol keep records, these are the contracts with a record. If not, these are the contracts
    with the code of a market.
    """
    memory = Memory(network_id(passphrase))
    for contract in taken.lending:
        has_record, has_code = contract.address in recorded, contract.kind == ContractKind.KNOWN_CODE
        is_market = has_record if contract.protocol in vouching else has_code
        if is_market:
            if len(memory.markets) == MAX_LEARNED:
                break
            memory.learn(
                KnownMarket(
                    protocol=str(contract.protocol),
                    address=contract.address,
                    origin=Origin.CENSUS,
                    first_seen_ledger=ledger,
                    confirmed=False,
                )
            )
    return memory


def recorded_markets(
    source: SnapshotSource, index: StateIndex, passphrase: str
) -> tuple[dict[str, tuple[str, int]], frozenset[str]]:
    """The markets that known factories have a record of, and the protocols whose every market has such a record.

    The first value has a market's protocol and the ledger of the record's last change, keyed by the market.
    """
    listed = network_of(passphrase).deployments
    deployments = asyncio.run(completed_deployments(LedgerView(source), PROTOCOLS, listed))
    factories = [(item.protocol, address) for item in deployments for address in item.addresses(FACTORY)]
    vouching = frozenset(
        protocol
        for protocol, factory in factories
        if PROTOCOLS[protocol].discovery.recorded_market is not None and instance_key(factory) in index
    )
    owners, recorded = {strkey.decode(address)[1]: protocol for protocol, address in factories}, {}
    for last_modified, data in index.contract_data():
        protocol = owners.get(data[12:44])
        recorded_market = None if protocol is None else PROTOCOLS[protocol].discovery.recorded_market
        if protocol is None or recorded_market is None:
            continue
        try:
            market = recorded_market(decode_contract_data(data))
        except DecodeError:  # a newer version of Stellar's protocol wrote the entry
            continue
        if market is not None:
            recorded[market] = protocol, last_modified
    return recorded, vouching


def census_document(passphrase: str, proven: Proven, taken: CensusTaken, run: RunCoverage | None) -> Census:
    """The census as a document. Without a run, every lending contract counts as unread."""
    codes = Counter((item.kind, item.protocol, item.wasm_hash) for item in taken.lending)
    unread = [
        CensusContract(item.address, str(item.kind), item.protocol, _hex(item.wasm_hash), *why)
        for item in taken.lending
        if (why := NO_RUN if run is None else run.why_unread(item, proven.ledger)) is not None
    ]
    return Census(
        network=passphrase,
        checkpoint=proven.ledger,
        header=proven.hash.hex(),
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
        unread=sorted(unread, key=lambda item: (LENDING.index(ContractKind(item.kind)), item.address))[:MAX_LISTED],
    )


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
