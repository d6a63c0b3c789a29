"""The methods of the embedded RPC server: fields, limits and errors as the facts have them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from stellar_sdk import Keypair, xdr

from exporter.deployments.local import made_address
from exporter.ledger.codec import entries
from exporter.ledger.codec.scval_encode import symbol
from exporter.localnet.behaviour import SNAPSHOT_NOT_FOUND, Behaviour
from exporter.localnet.made import DEFAULT_START_LEDGER, DEFAULT_START_TIME, MadeNetwork
from exporter.localnet.rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
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


def test_health_has_its_close_times_as_strings(rpc: LocalRpc, latest: int) -> None:
    """``getHealth`` gives both ends of the range, and close times as strings of unix seconds."""
    assert {
        "status": "healthy",
        "latestLedger": latest,
        "latestLedgerCloseTime": str(DEFAULT_START_TIME + 5 * (LEDGERS - 1)),
        "oldestLedger": DEFAULT_START_LEDGER,
        "oldestLedgerCloseTime": str(DEFAULT_START_TIME),
        "ledgerRetentionWindow": 120_960,
    } == rpc.result("getHealth")


def test_network_and_version(rpc: LocalRpc, latest: int) -> None:
    """``getNetwork`` has the local passphrase; ``getVersionInfo`` its five fields."""
    assert {"passphrase": "Standalone Network ; February 2017", "protocolVersion": 28} == rpc.result("getNetwork")
    assert {"version", "commitHash", "buildTimestamp", "captiveCoreVersion", "protocolVersion"} == set(
        rpc.result("getVersionInfo")
    )
    latest_ledger = rpc.result("getLatestLedger")
    assert {"id", "protocolVersion", "sequence", "closeTime", "headerXdr", "metadataXdr"} == set(latest_ledger)
    assert (latest, str(DEFAULT_START_TIME + 30)) == (latest_ledger["sequence"], latest_ledger["closeTime"])


def test_ledgers_from_a_start_and_by_cursor(rpc: LocalRpc, latest: int) -> None:
    """``getLedgers`` pages by cursor; a ledger's close time is a string, those of the range are numbers."""
    first = rpc.result("getLedgers", startLedger=DEFAULT_START_LEDGER, pagination={"limit": 4})
    second = rpc.result("getLedgers", pagination={"cursor": first["cursor"], "limit": 200})

    ledgers = first["ledgers"] + second["ledgers"]
    assert list(range(DEFAULT_START_LEDGER, latest + 1)) == [ledger["sequence"] for ledger in ledgers]
    assert [str(DEFAULT_START_TIME + 5 * index) for index in range(LEDGERS)] == [
        ledger["ledgerCloseTime"] for ledger in ledgers
    ]
    assert {"hash", "sequence", "ledgerCloseTime", "headerXdr", "metadataXdr"} == set(ledgers[0])
    assert LEDGERS == len({ledger["hash"] for ledger in ledgers})
    assert (str(DEFAULT_START_LEDGER + 3), str(latest)) == (first["cursor"], second["cursor"])
    assert (latest, DEFAULT_START_TIME + 30) == (first["latestLedger"], first["latestLedgerCloseTime"])
    assert (DEFAULT_START_LEDGER, DEFAULT_START_TIME) == (first["oldestLedger"], first["oldestLedgerCloseTime"])
    as_json = rpc.result("getLedgers", startLedger=latest, xdrFormat="json")["ledgers"]
    assert [{"hash", "sequence", "ledgerCloseTime", "headerJson", "metadataJson"}] == [set(item) for item in as_json]


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


def test_entries_have_their_fields_and_keep_the_order(rpc: LocalRpc, latest: int) -> None:
    """Present entries come in the order asked, with LedgerEntryData, last change, life and extension."""
    keys = known_keys(rpc, 200)[::-1]
    result = rpc.result("getLedgerEntries", keys=keys)

    assert latest == result["latestLedger"]
    assert keys == [entry["key"] for entry in result["entries"]]
    for entry in result["entries"]:
        stored = rpc.network.chain.entry(base64.b64decode(entry["key"]), latest)
        assert stored is not None
        assert {
            "key": entry["key"],
            "xdr": text(stored.data),
            "extXdr": "AAAAAA==",
            "lastModifiedLedgerSeq": stored.last_modified,
            "liveUntilLedgerSeq": stored.live_until,
        } == entry
        xdr.LedgerEntryData.from_xdr(entry["xdr"])


def test_absent_entries_are_left_out(rpc: LocalRpc) -> None:
    """Missing keys, of contract data or of classic entries, leave no trace in the answer."""
    account = xdr.LedgerKey(
        xdr.LedgerEntryType.ACCOUNT, account=xdr.LedgerKeyAccount(Keypair.random().xdr_account_id())
    )
    absent = [
        text(entries.data_key(made_address("nobody"), symbol("a"))),
        account.to_xdr(),
        text(entries.code_key(b"a" * 32)),
    ]
    present = known_keys(rpc, 2)

    result = rpc.result("getLedgerEntries", keys=[absent[0], present[0], *absent[1:], present[1]])
    assert present == [entry["key"] for entry in result["entries"]]


def test_archived_entries_come_with_their_data_and_a_life_of_zero(rpc: LocalRpc) -> None:
    """An archived persistent entry is given, with liveUntilLedgerSeq 0 (docs/rpc.md, "Ends of lives")."""
    market, reserve = rpc.network.archived[0]  # type: ignore[attr-defined]
    key = text(entries.variant_key(market.address, "ResData", (18, reserve.token)))

    (entry,) = rpc.result("getLedgerEntries", keys=[key])["entries"]
    assert 0 == entry["liveUntilLedgerSeq"]
    assert market.address == entries.decode_contract_data(base64.b64decode(entry["xdr"])).contract


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
    """Each row of the table of docs/rpc.md, "Failures", has its code and text."""
    actual = rpc.error("getLedgerEntries", params)

    assert code == actual[0]
    assert actual[1].startswith(message)


def test_exactly_the_most_keys_are_taken(rpc: LocalRpc) -> None:
    """200 keys are answered."""
    keys = [text(entries.data_key(made_address("nobody"), symbol(f"a{index}"))) for index in range(200)]

    assert [] == rpc.result("getLedgerEntries", keys=keys)["entries"]


def test_events_are_empty_pages_with_a_cursor(rpc: LocalRpc, latest: int) -> None:
    """``getEvents`` has no events to give, and its cursor goes on after the scanned range."""
    page = rpc.result("getEvents", startLedger=DEFAULT_START_LEDGER, endLedger=DEFAULT_START_LEDGER + 2)

    assert [] == page["events"]
    assert f"{(DEFAULT_START_LEDGER + 1) << 32 | 0xFFFFFFFF:019d}-4294967295" == page["cursor"]
    assert (latest, str(DEFAULT_START_TIME + 30)) == (page["latestLedger"], page["latestLedgerCloseTime"])
    following = rpc.result("getEvents", pagination={"cursor": page["cursor"], "limit": 10})
    assert f"{latest << 32 | 0xFFFFFFFF:019d}-4294967295" == following["cursor"]


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({}, INVALID_PARAMS, "startLedger must be positive"),
        ({"startLedger": 1}, INVALID_REQUEST, "startLedger must be within the ledger range: 65000000 - 65000006"),
        ({"startLedger": 65_000_007}, INVALID_REQUEST, "startLedger must be within the ledger range"),
        ({"startLedger": 65_000_001, "endLedger": 65_000_001}, INVALID_PARAMS, "startLedger must be less than"),
        ({"startLedger": 65_000_001, "pagination": {"limit": 10_001}}, INVALID_PARAMS, "limit must not exceed 10000"),
        ({"startLedger": 65_000_001, "pagination": {"cursor": "1-1"}}, INVALID_PARAMS, "ledger ranges and cursor"),
        ({"pagination": {"cursor": "x"}}, INVALID_PARAMS, "invalid event id x"),
    ],
)
def test_wrong_ranges_of_events(rpc: LocalRpc, params: Any, code: int, message: str) -> None:
    """Ranges out of the window are -32600, unusable parameters -32602."""
    actual = rpc.error("getEvents", params)

    assert code == actual[0]
    assert actual[1].startswith(message)


@pytest.mark.parametrize("method", ["sendTransaction", "getTransaction", "getFeeStats", "gethealth", "x" * 300])
def test_methods_that_are_not_served(rpc: LocalRpc, method: str) -> None:
    """Other methods, and other spellings, are -32601."""
    assert METHOD_NOT_FOUND == rpc.error(method)[0]


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
