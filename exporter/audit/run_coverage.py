"""What a published run read: its markets and pools, and why it lacks others."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Struct, field

from exporter.deployments.listing import MarketKey
from exporter.deployments.networks import network_of
from exporter.discovery.contract_kinds import ContractKind, CountedContract
from exporter.errors import NothingPublishedError, StoreError
from exporter.job.evidence import Evidence
from exporter.ledger.codec import strkey
from exporter.publishing.published_state import read_published
from exporter.stores.store import Store
from exporter.tables import PoolKey, pool_keys
from exporter.tree.decoding import decode_json
from exporter.tree.documents import MarketList, SystemStatus
from exporter.tree.families import LATEST_PARQUET, STATUS_KEY

MARKETS_KEY = "v1/markets.json"


KEYS_OF_READING = MARKETS_KEY, LATEST_PARQUET.only_key
"""The keys of the files that say what a run read, besides its status document and its evidence."""


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


NO_RUN = WhyUnread("no_run", "compared with no run")


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


def _get(store: Store, key: str) -> bytes:
    stored = store.get(key)
    if stored is None:
        raise StoreError(f"{store.uri}: {key} is missing")
    return stored.data
