"""Contracts whose code another contract holds (CAP-85): which code they run is what the owner's entry says."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    ContractData,
    code_holder_key,
    data_key,
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
)
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.player import RecordedNetwork
from tests.job_runs import direct, read_tables, run, settings_for
from tests.localnet.recorded import only

pytestmark = pytest.mark.usefixtures("without_pages")

OWNER, TAG = derived_address("the factory"), (scval.EXECUTABLE_TAG, b"pool")
NEW_CODE = bytes(range(32))


def moved(network: RecordedNetwork, *markets: str) -> dict[bytes, bytes | None]:
    """Each market's instance if the owner holds its code, which stays the same."""
    written: dict[bytes, bytes | None] = {}
    for market in markets:
        key = instance_key(market)
        stored = network.chain.stored(key)
        assert stored is not None
        entry = decode_contract_data(stored.data)
        instance = instance_of(entry)
        outside = ContractInstance(scval.EXTERNAL_REF, None, (OWNER, TAG[1] + market.encode()), instance.storage)
        written[key] = encode_contract_data(entry._replace(value=(scval.CONTRACT_INSTANCE, outside)))
        assert instance.wasm_hash is not None
        written |= holder(market, (scval.BYTES, instance.wasm_hash))
    return written


def holder(market: str, value: ScVal) -> dict[bytes, bytes | None]:
    """The owner's entry for a market's code."""
    tag = (scval.EXECUTABLE_TAG, TAG[1] + market.encode())
    return {data_key(OWNER, tag): encode_contract_data(ContractData(OWNER, tag, 1, value))}


def test_markets_of_every_protocol_are_read_with_the_code_that_is_held_for_them() -> None:
    """A market whose code another contract holds is read as before; with an odd entry there, it alone is unread."""
    network = RecordedNetwork()
    before = read_tables(direct(network))
    markets = before.markets["market"].to_list()
    network.close(moved(network, *markets))
    after = read_tables(direct(network))

    assert before.markets.select("market", "wasm_hash").equals(after.markets.select("market", "wasm_hash"))
    assert before.pools["pool"].equals(after.pools["pool"])
    for odd in (None, (scval.U32, 7), (scval.BYTES, b"short")):
        key, data = next(iter(holder(markets[0], odd or (scval.VOID, None)).items()))
        network.close({key: data if odd else None})
        left = read_tables(direct(network))
        assert set(markets[1:]) == set(left.markets["market"])
        assert OWNER in str(left.unread)


def test_an_upgrade_of_held_code_is_a_change(tmp_path: Path) -> None:
    """If the owner's entry gets another hash, the market has other code; a repeated run gives the same."""
    network = RecordedNetwork()
    market = read_tables(direct(network)).markets["market"][0]
    network.close(moved(network, market))
    settings = settings_for(tmp_path, **only(market))
    run(settings, network=network)
    network.close(holder(market, (scval.BYTES, NEW_CODE)))
    _, report = run(settings, network=network)
    changes = (tmp_path / "v1/changes.json").read_text()

    assert report
    assert NEW_CODE.hex() in changes


def test_a_snapshot_gives_the_code_that_is_held() -> None:
    """The instances of a snapshot file, by which a census knows markets, have the hash that the owner's entry has."""
    network = RecordedNetwork()
    market = read_tables(direct(network)).markets["market"][0]
    network.close(moved(network, market) | holder(market, (scval.BYTES, NEW_CODE)))
    entries = {key: entry for key in network.chain.known_keys() if (entry := network.chain.stored(key)) is not None}
    snapshot = LedgerSnapshot(28, network.chain.latest, 1, "0" * 64, entries)

    assert NEW_CODE == dict(snapshot.contract_instances())[market].wasm_hash


@pytest.mark.parametrize("cut", [0, 4, 59, 60, 70])
def test_what_is_no_such_instance_has_no_holder(cut: int) -> None:
    """Entries that end too early, are of another kind, or name an account as the owner have no holder."""
    outside = ContractInstance(scval.EXTERNAL_REF, None, (OWNER, b"tag"), None)
    data = encode_contract_data(ContractData(OWNER, INSTANCE_KEY, 1, (scval.CONTRACT_INSTANCE, outside)))

    assert data_key(OWNER, (scval.EXECUTABLE_TAG, b"tag")) == code_holder_key(data)
    assert None is code_holder_key(data[:cut])
    assert None is code_holder_key(struct.pack(">I", 7) + data[4:])
