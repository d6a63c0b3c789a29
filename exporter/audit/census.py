"""Takes the census of a proven checkpoint: finds the lending contracts that a run did not read.

It also tells whether a run has every market that was on the ledger (`check_complete`).
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Struct, field

from exporter.audit.risk_tally import RiskTally
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.config import Settings
from exporter.console import Console
from exporter.deployments import FACTORY
from exporter.deployments.listing import MarketKey
from exporter.deployments.networks import network_id, network_of
from exporter.discovery import completed_deployments
from exporter.discovery.contract_kinds import LENDING, CensusTaken, ContractKind, CountedContract, classify_all
from exporter.discovery.known_markets import KnownMarket, Memory
from exporter.errors import (
    ArchiveError,
    ConfigError,
    DecodeError,
    NothingPublishedError,
    RefutedError,
    StoreError,
    pluralize,
)
from exporter.history.risk_table import checkpoints_in, with_checkpoints
from exporter.job.evidence import Evidence
from exporter.job.known_markets_file import save_memory
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import decode_contract_data, instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.observation import Entry
from exporter.ledger.snapshot_file import SnapshotSource
from exporter.ledger.view import LedgerView
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven
from exporter.past.archive_source import FromArchive, open_archive_state, open_state
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Origin
from exporter.protocols.protocol import PoolEntries
from exporter.publishing.published_state import read_published
from exporter.stores.held_store import hold
from exporter.stores.store import Store
from exporter.tables import PoolKey, pool_keys
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Census, CensusCode, CensusContract, MarketList, SystemStatus, encode
from exporter.tree.families import CENSUS, LATEST_PARQUET, RISK, RISK_TABLE, STATUS_KEY
from exporter.tree.read_back import parse_back, render_document
from exporter.tree.risk_documents import RiskDocument

MARKETS_KEY = "v1/markets.json"

KEYS_OF_READING = MARKETS_KEY, LATEST_PARQUET.only_key
"""The keys of the files that say what a run read, besides its status document and its evidence."""

MAX_LISTED = 10_000
"""Largest number of unread contracts that a census lists. It counts all of them."""

MAX_LEARNED = 1_000
"""Largest number of markets of a census that the next run tries."""


class WhyUnread(NamedTuple):
    """Why a run did not read a contract: a word for programs, and a text for people."""

    reason: str
    text: str


class Skipped(NamedTuple):
    """Why a run skipped a market, and whether that market is listed."""

    reason: str
    listed: bool


_UNKNOWN_CODE = WhyUnread(
    "unknown_code", "it has a market's storage and unknown code; name it in [[markets]] to have it read"
)
_NO_RUN = WhyUnread("no_run", "compared with no run")
_NO_READER = WhyUnread("no_reader", "no protocol that the exporter reads has such storage")
_NOT_FOUND = WhyUnread("not_found", "the run did not look there")
_NEWER = WhyUnread("not_found", "the run is of an earlier ledger, and did not look there")


class RunCoverage(Struct, frozen=True):
    """What a run read.

    Attributes:
        status: its status document.
        markets: the protocol of each market that it read, keyed by the market's address.
        pools: each pool that it has, or names as unread.
        touched: the address of every contract with an entry that it read.
        reasons: why other markets were not read.
        skipped: the markets that the run says it skipped.
    """

    status: SystemStatus
    markets: Mapping[str, str]
    pools: frozenset[PoolKey]
    touched: frozenset[str]
    reasons: dict[MarketKey, WhyUnread] = field(default_factory=dict)
    skipped: dict[MarketKey, Skipped] = field(default_factory=dict)

    def why_unread(self, contract: CountedContract, checkpoint: int) -> WhyUnread | None:
        """Why the run did not read a contract of a checkpoint; None if it did."""
        if contract.address in self.markets or (contract.protocol is None and contract.address in self.touched):
            return None
        if contract.protocol is None:
            return _NO_READER
        market = MarketKey(contract.protocol, contract.address)
        if market in self.reasons:
            return self.reasons[market]
        if market in self.skipped:
            return WhyUnread("skipped", self.skipped[market].reason)
        notice = next((text for text in self.status.notices if contract.address in text), None)
        if notice is not None:
            return WhyUnread("refused", notice)
        if contract.kind == ContractKind.KNOWN_STORAGE:
            return _UNKNOWN_CODE
        return _NEWER if checkpoint > self.status.observed_ledger else _NOT_FOUND


def coverage_in(store: Store) -> RunCoverage:
    """What the published run of a store read.

    Raises `NothingPublishedError` if there is none, and `StoreError` if it is damaged.
    """
    if read_published(store) is None:
        raise NothingPublishedError(f"{store.uri}: no run is published there; run `exporter run` first")
    files = {key: _get(store, key) for key in (STATUS_KEY, *KEYS_OF_READING)}
    try:
        status = decode_json(files[STATUS_KEY], SystemStatus)
    except msgspec.DecodeError as error:
        raise StoreError(f"{store.uri}: the run cannot be understood: {error}") from None
    return coverage_of(files | {status.evidence_key: _get(store, status.evidence_key)}, store.uri)


def coverage_of(files: Mapping[str, bytes], uri: str) -> RunCoverage:
    """What a run read. ``files`` has its status document, its evidence and the files of `KEYS_OF_READING`, by key.

    Raises `StoreError` if a file cannot be understood.
    """
    try:
        status = decode_json(files[STATUS_KEY], SystemStatus)
        markets = decode_json(files[MARKETS_KEY], MarketList)
    except msgspec.DecodeError as error:
        raise StoreError(f"{uri}: the run cannot be understood: {error}") from None
    evidence = Evidence.decode(files[status.evidence_key], status.evidence_key)
    # A LedgerKey of contract data or of an instance has its contract's type at byte 4, and its id at bytes 8 to 39.
    touched = {key[8:40] for key, entry in evidence.entries.items() if entry is not None and key[4:8] == b"\0\0\0\1"}
    reasons = {
        MarketKey(item.protocol, item.market): WhyUnread(item.reason, item.detail)
        for item in status.unread
        if item.pool is None
    }
    reasons |= {MarketKey(item.protocol, item.market): WhyUnread("absent", item.reason) for item in status.absent}
    read = {item.market: item.protocol for item in markets.data}
    latest = pl.read_parquet(io.BytesIO(files[LATEST_PARQUET.only_key]), columns=[*PoolKey._fields])
    unread = (PoolKey(item.market, item.pool) for item in status.unread if item.pool is not None)
    pools = frozenset((*pool_keys(latest), *unread))
    listings = evidence.listings(network_of(status.network).deployments)
    skipped = {
        MarketKey(item.protocol, item.market): Skipped(item.reason, listings.is_listed(item.protocol, item.market))
        for item in evidence.skipped
    }
    return RunCoverage(status, read, pools, frozenset(map(strkey.encode_contract, touched)), reasons, skipped)


def _take(data: Iterable[bytes], instances: Iterable[tuple[str, ContractInstance]], passphrase: str) -> CensusTaken:
    return classify_all(PROTOCOLS, network_of(passphrase).deployments, data, instances)


def census(settings: Settings, archive: FromArchive, store: Store | None, console: Console) -> Census:
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
        taken = _take(data, state.instances, settings.passphrase)
        risk = tally.document()
        facts.update(checkpoint=state.proven.ledger, contracts=sum(taken.counts.values()))
        document = _document(settings.passphrase, state.proven, taken, run)
        if store is not None:
            records = recorded_markets(state.source, state.index, settings.passphrase)
            save_memory(store, _memory(settings.passphrase, taken, *records, state.proven.ledger))
    if store is not None:
        with hold(store) as held:
            held.put(CENSUS.only_key, render_document(document).data)
            add_risk(store, risk, console)
    return document


def add_risk(store: Store, risk: RiskDocument, console: Console) -> None:
    """Add the risk document of a checkpoint and its rows in the table of risk, unless the checkpoint has a document.

    A document never changes once it is there, although other markets may be listed today. Raises `CheckError` if the
    document does not read back, and `StoreError` if it cannot be written.
    """
    key = RISK.key(checkpoint=risk.checkpoint)
    data = encode(risk)
    parse_back(key, data)
    if store.get(key) is None:
        stored = store.get(RISK_TABLE.only_key)
        table = None if stored is None else stored.data
        try:
            present = checkpoints_in(table)
        except DecodeError as error:
            console.warning(f"history/risk.parquet cannot be read: {error}")
            table, present = None, set()
        lacking = list(_risk_not_in(store, present))
        if lacking:
            counted = pluralize(len(lacking), "checkpoint")
            console.warning(f"history/risk.parquet lacked {counted}; their rows are made again from v1/risk/")
        store.put(RISK_TABLE.only_key, with_checkpoints(table, [*lacking, risk]))
        store.put(key, data)  # last, because a census that finds no document writes both


def _risk_not_in(store: Store, checkpoints: Collection[int]) -> Iterator[RiskDocument]:
    """The risk documents of other checkpoints that have rows for the table.

    So a table that was lost, or of which somebody put an older copy back, becomes whole. A document that cannot be
    understood is passed over, as a run does.
    """
    for key in sorted(info.key for info in store.list(RISK.prefix)):
        named = RISK.pattern.fullmatch(key)
        stored = None if named is None or int(named["checkpoint"]) in checkpoints else store.get(key)
        with suppress(msgspec.DecodeError):
            document = None if stored is None else decode_json(stored.data, RiskDocument)
            if document is not None and document.data:
                yield document


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


def _document(passphrase: str, proven: Proven, taken: CensusTaken, run: RunCoverage | None) -> Census:
    codes = Counter((item.kind, item.protocol, item.wasm_hash) for item in taken.lending)
    unread = [
        CensusContract(item.address, str(item.kind), item.protocol, _hex(item.wasm_hash), *why)
        for item in taken.lending
        if (why := _NO_RUN if run is None else run.why_unread(item, proven.ledger)) is not None
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


class Complete(Struct, frozen=True):
    """What comparing a run with all contracts of its checkpoint gave.

    Attributes:
        contracts: the number of contracts at the checkpoint.
        markets: the number of markets among them that the run read, or says why it could not.
        excluded: the addresses of contracts with the code or storage of a market, but without a factory's record.
        census: the document of the census.
    """

    contracts: int
    markets: int
    excluded: Sequence[str]
    census: Census

    def line(self) -> str:
        """The result in one line for people."""
        left_out = f": {', '.join(self.excluded[:5])}" if self.excluded else ""
        return (
            f"{self.contracts} contracts: {pluralize(self.markets, 'market')} of them in the run; excluded, with the "
            f"code or storage of a market and no factory's record: {len(self.excluded)}{left_out}"
        )


def check_complete(
    archives: Archives, proven: Proven, folder: Path, network: str, run: RunCoverage, unproven: Unproven
) -> Complete:
    """Compare a run with all contracts of its checkpoint.

    ``unproven`` gets the markets that are newer than the run, and the contracts that have the storage of a market but
    unknown code. Raises `RefutedError` if the run left out a market that it must have, and `ArchiveError` if the
    archives cannot be read or contradict the proof.
    """
    checkpoint = archives.first(lambda archive: archive.checkpoint(proven.ledger))
    if checkpoint.header.hash != proven.hash:
        raise ArchiveError(f"the archives have another header of ledger {proven.ledger} than the proven one")
    folder.mkdir()
    with open_state(archives, checkpoint, folder, network) as (index, source):
        recorded, vouching = recorded_markets(source, index, network)
        taken = _take((data for _, data in index.contract_data()), index.instances(), network)
        candidates = {item.address: item for item in taken.lending if item.protocol is not None}
        for address, (protocol, _) in recorded.items():
            if instance_key(address) in index:
                candidates.setdefault(address, CountedContract(address, ContractKind.KNOWN_CODE, protocol, None))
        markets, excluded = 0, list[str]()
        for contract in candidates.values():
            key = MarketKey(str(contract.protocol), contract.address)
            if key in run.skipped and contract.address not in run.markets:
                _judge_skipped(contract, *run.skipped[key], unproven)
            elif contract.address in run.markets or key in run.reasons:
                markets += 1
            elif contract.address not in recorded and contract.protocol in vouching:
                excluded.append(contract.address)
            else:
                _judge_left_out(contract, recorded, index, run, unproven)
        _check_pools(index, run, unproven)
        return Complete(sum(taken.counts.values()), markets, sorted(excluded), _document(network, proven, taken, run))


def _judge_skipped(contract: CountedContract, reason: str, listed: bool, unproven: Unproven) -> None:
    """Judge a market that the run skipped. Raises `RefutedError` if it is listed, because a run must not skip it."""
    what = f"{contract.address} of {contract.protocol}"
    if listed:
        raise RefutedError(f"the run left out {what}, which is listed: {reason}")
    unproven.add(UnprovenReason.MARKETS, [f"{what}: it is not listed, and the run skipped it: {reason}"])


def _judge_left_out(
    contract: CountedContract,
    recorded: Mapping[str, tuple[str, int]],
    index: StateIndex,
    run: RunCoverage,
    unproven: Unproven,
) -> None:
    """Judge a contract that the run does not speak of. Raises `RefutedError` if it was a market before the run."""
    ledger = run.status.observed_ledger
    what = f"{contract.address} of {contract.protocol}"
    if contract.address in recorded:
        why, changed = "a factory has a record of it", recorded[contract.address][1]
    elif contract.kind == ContractKind.KNOWN_CODE:
        why, changed = "it has the code of a market", index[instance_key(contract.address)].last_modified
    else:
        unproven.add(UnprovenReason.MARKETS, [f"{what}: its storage is that of a market, its code is unknown"])
        return
    if changed <= ledger:
        raise RefutedError(f"the run left out {what}: {why} since ledger {changed}, and the run is of {ledger}")
    unproven.add(UnprovenReason.MARKETS, [f"{what}: {why} since ledger {changed}, after the run"])


def _check_pools(index: StateIndex, run: RunCoverage, unproven: Unproven) -> None:
    """Compare the pools of a run with those of protocols whose markets do not list their pools.

    The pools of other protocols need no check here: their markets' own entries list them, and the repeated run reads
    these lists. Raises `RefutedError` if the run left out a pool.
    """
    markets_by_contract: dict[str, tuple[str, PoolEntries]] = {}
    for market, protocol in run.markets.items():
        raw = index.get(instance_key(market))
        if raw is None:
            continue  # the market is gone since
        discovery = PROTOCOLS[protocol].discovery
        if discovery.pool_list_key is not None and index.get(discovery.pool_list_key(market)) is None:
            text = f"{market} of {protocol}: it has no list of its pools, so others than the known ones may be missing"
            unproven.add(UnprovenReason.MARKETS, [text])
        if discovery.pool_entries is None:
            continue
        try:
            contract = discovery.pool_entries.contract(Entry(instance_key(market), raw))
        except DecodeError:
            unproven.add(UnprovenReason.MARKETS, [f"{market} of {protocol}: where its pools are cannot be read"])
            continue
        markets_by_contract[contract] = market, discovery.pool_entries
    for last_modified, data in index.contract_data() if markets_by_contract else ():
        contract = strkey.encode_contract(data[12:44])
        if contract not in markets_by_contract:
            continue
        market, pool_entries = markets_by_contract[contract]
        pool = pool_entries.pool(decode_contract_data(data))
        if pool is None or PoolKey(market, pool) in run.pools:
            continue
        what = f"pool {pool} of market {market}, whose state changed last at ledger {last_modified}"
        if last_modified <= run.status.observed_ledger:
            raise RefutedError(f"the run left out {what}")
        unproven.add(UnprovenReason.MARKETS, [f"{what}, after the run"])


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def _get(store: Store, key: str) -> bytes:
    stored = store.get(key)
    if stored is None:
        raise StoreError(f"{store.uri}: {key} is missing")
    return stored.data
