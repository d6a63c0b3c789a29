"""The methods of the embedded RPC server: fields, limits and errors as the facts have them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from stellar_sdk import xdr

from exporter.deployments.local import made_address
from exporter.ledger.codec import entries
from exporter.ledger.codec.scval_encode import symbol
from exporter.localnet.behaviour import SNAPSHOT_NOT_FOUND, Behaviour
from exporter.localnet.made import DEFAULT_START_TIME, MadeNetwork
from exporter.localnet.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
)
from tests.localnet.rpc_client import LocalRpc, text

LEDGERS = 7


@pytest.fixture(scope="module")
def rpc() -> LocalRpc:
    """A server over a network that has moved on by six ledgers and has archived and missing entries."""
    network = MadeNetwork(pools=40, archived=2, missing=1)
    for _ in range(LEDGERS - 1):
        network.advance()
    return LocalRpc(network)


@pytest.fixture(scope="module")
def latest(rpc: LocalRpc) -> int:
    """The newest ledger."""
    return rpc.network.chain.latest


def known_keys(rpc: LocalRpc, count: int) -> list[str]:
    """Some keys that are present, as they travel."""
    state = rpc.network.chain.state(rpc.network.chain.latest)
    return [text(key) for key in list(state)[:count]]


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({}, INVALID_REQUEST, "start ledger (0) must be between the oldest ledger: 65000000 and the latest ledger: "),
        ({"startLedger": 64_999_999}, INVALID_REQUEST, "start ledger (64999999) must be between"),
        ({"startLedger": 65_000_007}, INVALID_REQUEST, "start ledger (65000007) must be between"),
        ({"startLedger": 65_000_000, "pagination": {"limit": 201}}, INVALID_REQUEST, "limit must not exceed 200"),
        ({"startLedger": 65_000_000, "pagination": {"cursor": "65000000"}}, INVALID_REQUEST, "startLedger and cursor"),
        ({"pagination": {"cursor": "65000006"}}, INVALID_PARAMS, "cursor ('65000006') must be between"),
        ({"pagination": {"cursor": "tip"}}, INVALID_PARAMS, 'strconv.ParseUint: parsing "tip": invalid syntax'),
        ({"startLedger": "65000000"}, INVALID_PARAMS, "invalid parameters"),
        ({"startLedger": -1}, INVALID_PARAMS, "invalid parameters"),
        ({"startLedger": 2**70}, INVALID_PARAMS, "invalid parameters"),
        ({"pagination": 5}, INVALID_PARAMS, "invalid parameters"),
        ({"startLedger": 65_000_000, "xdrFormat": "xml"}, INVALID_REQUEST, "got 'xml': expected base64, json"),
    ],
)
def test_wrong_ranges_of_ledgers(rpc: LocalRpc, params: Any, code: int, message: str) -> None:
    """Starts out of range are -32600, cursors out of range -32602, each with the server's text."""
    actual = rpc.error("getLedgers", params)

    assert code == actual[0]
    assert actual[1].startswith(message)


def test_an_entry_without_a_life_has_no_such_field() -> None:
    """LiveUntilLedgerSeq is left out where an entry does not expire."""
    network = MadeNetwork(pools=1)
    from exporter.localnet.chain import Change

    network.chain.close([Change(entries.code_key(b"c" * 32), b"code", None)], close_time=DEFAULT_START_TIME + 5)
    (entry,) = LocalRpc(network).result("getLedgerEntries", keys=[text(entries.code_key(b"c" * 32))])["entries"]

    assert {"key", "xdr", "extXdr", "lastModifiedLedgerSeq"} == set(entry)


def test_entries_as_json_are_what_the_sdk_reads(rpc: LocalRpc) -> None:
    """With xdrFormat json, keys and entries are XDR-JSON that stellar-sdk turns into the same bytes."""
    keys = known_keys(rpc, 200)
    result = rpc.result("getLedgerEntries", keys=keys, xdrFormat="json")["entries"]
    plain = rpc.result("getLedgerEntries", keys=keys, xdrFormat="base64")["entries"]

    assert len(keys) == len(result)
    for entry, other in zip(result, plain, strict=True):
        assert {"keyJson", "dataJson", "extJson", "lastModifiedLedgerSeq", "liveUntilLedgerSeq"} == set(entry)
        assert other["key"] == xdr.LedgerKey.from_json(json.dumps(entry["keyJson"])).to_xdr()
        assert other["xdr"] == xdr.LedgerEntryData.from_json(json.dumps(entry["dataJson"])).to_xdr()
        assert "v0" == entry["extJson"]


TTL_KEY = text(b"\0\0\0\x09" + bytes(32))
GOOD_KEY = text(entries.data_key(made_address("nobody"), symbol("a")))


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"keys": [GOOD_KEY] * 201}, INVALID_PARAMS, "key count (201) exceeds maximum supported (200)"),
        ({"keys": [GOOD_KEY, "@@@"]}, INVALID_PARAMS, "cannot unmarshal key value @@@ at index 1"),
        ({"keys": [GOOD_KEY[:-4]]}, INVALID_PARAMS, f"cannot unmarshal key value {GOOD_KEY[:-4]} at index 0"),
        ({"keys": [text(b"")]}, INVALID_PARAMS, "cannot unmarshal key value  at index 0"),
        ({"keys": [text(b"\0\0\0\x63" + bytes(32))]}, INVALID_PARAMS, "cannot unmarshal key value AAAAY"),
        ({"keys": [text(b"\0\0\0\x07" + bytes(31))]}, INVALID_PARAMS, "cannot unmarshal key value"),
        ({"keys": [TTL_KEY]}, INVALID_PARAMS, "ledger ttl entries cannot be queried directly"),
        ({"keys": [GOOD_KEY], "xdrFormat": "xml"}, INVALID_PARAMS, "got 'xml': expected base64, json for optional"),
        ({"keys": []}, INTERNAL_ERROR, "could not query captive core: no keys specified in request"),
        ({}, INTERNAL_ERROR, "could not query captive core: no keys specified in request"),
        ({"keys": [GOOD_KEY, GOOD_KEY]}, INTERNAL_ERROR, SNAPSHOT_NOT_FOUND),
        ({"keys": GOOD_KEY}, INVALID_PARAMS, "invalid parameters"),
        ({"keys": [5]}, INVALID_PARAMS, "invalid parameters"),
    ],
)
def test_wrong_keys(rpc: LocalRpc, params: Any, code: int, message: str) -> None:
    """Each row of the table of facts/stellar-rpc.md 1.5 has its code and text."""
    actual = rpc.error("getLedgerEntries", params)

    assert code == actual[0]
    assert actual[1].startswith(message)


def test_the_window_of_ledgers_moves_on() -> None:
    """With a small window the oldest ledger follows the latest, and what is before it is out of range."""
    network = MadeNetwork(pools=3, window=3)
    for _ in range(10):
        network.advance()
    rpc = LocalRpc(network, Behaviour(lags=(5,)))

    health = rpc.result("getHealth")
    assert (65_000_008, 65_000_008, 3) == (
        health["oldestLedger"],
        health["latestLedger"],  # a node cannot lag behind what is kept
        health["ledgerRetentionWindow"],
    )
    assert INVALID_REQUEST == rpc.error("getLedgers", {"startLedger": 65_000_007})[0]
