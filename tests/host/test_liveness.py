"""The ends of entries' lives: what the host and an RPC's simulation make of them, and what our reader says."""

from __future__ import annotations

import asyncio

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec.entries import (
    ARCHIVED,
    TEMPORARY,
    ContractData,
    data_key,
    encode_contract_data,
    instance_key,
    is_temporary,
    seen_at,
)
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.ledger.rpc.wire import footprint_parts
from exporter.ledger.snapshot_file import LedgerSnapshot, SnapshotSource
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.protocols import storage_answers
from exporter.protocols.blend.layout import reserve_data_key
from tests.host.blend_world import POOL
from tests.host.judge_file import simulated
from tests.host.machine import Machine
from tests.past.archive.archive_snapshot import CheckpointState, snapshot_of

PASSPHRASE = NETWORKS["testnet"].passphrase
ENDED = "Error(Storage, MissingValue)"
UNWRAPPED = "Error(WasmVm, InvalidAction)"
"""The error of the pool if an entry that it needs is missing."""


@pytest.fixture
def asset(untouched: Machine) -> str:
    first: str = untouched.call(POOL, "get_reserve_list").given()[1][0][1]
    return first


def read(snapshot: LedgerSnapshot, key: bytes) -> RawEntry | None:
    """What our reader says about a key."""
    return asyncio.run(SnapshotSource(snapshot, storage_answers).read_entries([key]))[0].entries.get(key)


def cut(untouched: Machine, state: CheckpointState, key: bytes, last: int) -> LedgerSnapshot:
    """Let an entry live until a ledger, in the host and in a snapshot of ours."""
    entry = state.entries[key]
    shortened = RawEntry(entry.data, entry.last_modified, last)
    untouched.put({key: shortened})
    snapshot = snapshot_of(state)
    return LedgerSnapshot(
        snapshot.protocol_version,
        snapshot.ledger,
        snapshot.close_time,
        snapshot.network_id,
        {**snapshot.entries, key: shortened},
    )


@pytest.mark.parametrize("left", [1, 0])
def test_an_entry_is_live_up_to_its_last_ledger(
    untouched: Machine, archive_state: CheckpointState, asset: str, left: int
) -> None:
    """An entry is there in the last ledger of its life, for the host and for us."""
    key = reserve_data_key(POOL, asset)
    ledger = untouched.info.ledger
    snapshot = cut(untouched, archive_state, key, ledger + left)
    outcome = untouched.call(POOL, "get_reserve", address(asset))
    entry = read(snapshot, key)

    assert (None, ()) == (outcome.error, outcome.archived)
    assert entry is not None
    assert ledger + left == entry.live_until


@pytest.mark.parametrize("what", ["data", "instance"])
def test_a_persistent_entry_is_archived_after_it(
    untouched: Machine, archive_state: CheckpointState, asset: str, what: str
) -> None:
    """A ledger later a transaction needs it restored, a simulation restores it, and we give its value as archived."""
    key = reserve_data_key(POOL, asset) if what == "data" else instance_key(POOL)
    snapshot = cut(untouched, archive_state, key, untouched.info.ledger - 1)
    call = ContractCall(POOL, "get_reserve", (address(asset),))
    strict = untouched.call(POOL, "get_reserve", address(asset))
    found = simulated(untouched, call)
    _, written = footprint_parts(found.transaction_data())
    entry = read(snapshot, key)

    assert (ENDED, (key,)) == (strict.error, strict.archived)
    assert (None, (key,)) == (found.error, found.restored)
    assert (key,) == written  # a call that restores writes
    assert entry is not None
    assert (ARCHIVED, snapshot.entries[key].data) == (entry.live_until, entry.data)


def test_the_embedded_network_restores_as_an_rpc_does(
    untouched: Machine, archive_state: CheckpointState, asset: str
) -> None:
    """A simulated call on an archived token has the result and the writes of the host's."""
    key = instance_key(asset)
    snapshot = cut(untouched, archive_state, key, untouched.info.ledger - 1)
    call = ContractCall(asset, "symbol", ())
    found = simulated(untouched, call)
    chain = Chain(snapshot.entries, start_ledger=snapshot.ledger, start_time=snapshot.close_time)
    network = LocalNetwork(chain, PASSPHRASE, snapshot.protocol_version)
    ours = network.contracts.simulate(chain, chain.latest, call)

    assert found.result == ours.result
    for real, made in zip(*map(footprint_parts, (found.transaction_data(), ours.transaction_data())), strict=True):
        assert set(real) == set(made)


def test_a_temporary_entry_is_gone_after_it(untouched: Machine, archive_state: CheckpointState) -> None:
    """An auction is a temporary entry: the contract does not find it any more, nor do we, and nothing restores it."""
    user = POOL
    auction = vec(symbol("Auction"), struct_map({"auct_type": u32(2), "user": address(user)}))
    value = struct_map(
        {"bid": (17, ((address(POOL), i128(5)),)), "lot": (17, ((address(POOL), i128(7)),)), "block": u32(1)}
    )
    key = data_key(POOL, auction, TEMPORARY)
    data = encode_contract_data(ContractData(POOL, auction, TEMPORARY, value))
    ledger = untouched.info.ledger
    snapshot = snapshot_of(archive_state)
    for last, lives in ((ledger, True), (ledger - 1, False)):
        entry = RawEntry(data, ledger - 100, last)
        untouched.put({key: entry})
        call = ContractCall(POOL, "get_auction", (u32(2), address(user)))
        found = simulated(untouched, call)

        assert is_temporary(key)
        assert (None if lives else UNWRAPPED) == untouched.call(POOL, "get_auction", *call.arguments).error
        assert (None if lives else UNWRAPPED, ()) == (host_error(found.error), found.restored)
        assert lives == (seen_at(key, entry, snapshot.ledger) is not None)


def host_error(message: str | None) -> str | None:
    return None if message is None else message.removeprefix("HostError: ").split("\n")[0]
