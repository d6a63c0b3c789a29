"""Tells whether a run has every market and pool that was on the ledger of a proven checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from exporter.audit.census import census_document, classify_contracts, recorded_markets
from exporter.audit.run_coverage import RunCoverage
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.deployments.listing import MarketKey
from exporter.discovery.contract_kinds import ContractKind, CountedContract
from exporter.errors import ArchiveError, DecodeError, RefutedError, pluralize
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import decode_contract_data, instance_key
from exporter.ledger.observation import Entry
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.state_index import StateIndex
from exporter.past.archive.stellar_proof import Proven
from exporter.past.archive_source import open_state
from exporter.protocols import PROTOCOLS
from exporter.protocols.protocol import PoolEntries
from exporter.tables import PoolKey
from exporter.tree.documents import Census


class Complete(Struct, frozen=True):
    """What comparing a run with all contracts of its checkpoint gave.

    Attributes:
        markets: the number of markets at the checkpoint that the run read, or says why it could not.
        excluded: the addresses of contracts with the code or storage of a market, but without a factory's record.
        census: the document of the census.
    """

    markets: int
    excluded: Sequence[str]
    census: Census

    def line(self) -> str:
        """The result in one line for people."""
        contracts, markets = self.census.contract_count, pluralize(self.markets, "market")
        left_out = f": {', '.join(self.excluded[:5])}" if self.excluded else ""
        return (
            f"{contracts} contracts: {markets} of them in the run; excluded, with the code or storage of a market and "
            f"no factory's record: {len(self.excluded)}{left_out}"
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
        taken = classify_contracts((data for _, data in index.contract_data()), index.instances(), network)
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
        return Complete(markets, sorted(excluded), census_document(network, proven, taken, run))


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
