"""The embedded server's answers, method by method: fields, limits and errors are those of the real one."""

from __future__ import annotations

from typing import Any

import pytest
from stellar_sdk import xdr

from exporter.ledger.codec import entries
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, symbol, u32
from exporter.localnet.chain import Change
from exporter.localnet.network import Simulation
from exporter.localnet.player import DEFAULT_START_LEDGER, DEFAULT_START_TIME, RecordedNetwork
from exporter.localnet.rpc import INVALID_PARAMS
from tests.localnet.rpc_client import LocalRpc, text
from tests.protocols.made_ledger import contract


def test_an_entry_without_a_life_has_no_such_field() -> None:
    """LiveUntilLedgerSeq is left out if an entry does not expire."""
    network = RecordedNetwork()
    network.chain.close([Change(entries.code_key(b"c" * 32), b"code", None)], close_time=DEFAULT_START_TIME + 5)
    (entry,) = LocalRpc(network).result("getLedgerEntries", keys=[text(entries.code_key(b"c" * 32))])["entries"]

    assert {"key", "xdr", "extXdr", "lastModifiedLedgerSeq"} == set(entry)


FIRST = DEFAULT_START_LEDGER
A, B = contract("a"), contract("b")


def encoded(value: ScVal) -> str:
    return text(encode_scval(value))


@pytest.fixture
def events_rpc() -> LocalRpc:
    """A network in which A and B publish something in the second and the fourth ledger."""
    network = RecordedNetwork()
    network.close(events=[(A, (symbol("deploy"),), address(B)), (B, (symbol("deploy"), u32(1)), u32(7))])
    network.advance()
    network.close(events=[(A, (symbol("other"),), u32(8)), (A, (symbol("deploy"), u32(2), u32(3)), u32(9))])
    return LocalRpc(network)


def values(page: dict[str, Any]) -> list[str]:
    return [event["value"] for event in page["events"]]


def test_an_event_has_the_fields_of_the_real_server(events_rpc: LocalRpc) -> None:
    """An event has the fields of the real server, and the page the range that is kept."""
    page = events_rpc.result("getEvents", startLedger=FIRST)
    event = page["events"][0]

    assert 4 == len(page["events"])
    assert ("contract", FIRST + 1, A, [encoded(symbol("deploy"))], encoded(address(B))) == (
        event["type"],
        event["ledger"],
        event["contractId"],
        event["topic"],
        event["value"],
    )
    assert "2026-11-18T10:00:05Z" == event["ledgerClosedAt"]
    assert f"{FIRST + 1 << 32 | 1 << 12:019d}-0000000000" == event["id"]
    assert 64 == len(event["txHash"])
    assert (FIRST, FIRST + 3) == (page["oldestLedger"], page["latestLedger"])


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, [address(B), u32(7), u32(8), u32(9)]),
        ({"contractIds": [B]}, [u32(7)]),
        ({"contractIds": [A, B], "topics": [[encoded(symbol("deploy"))]]}, [address(B)]),
        ({"topics": [[encoded(symbol("deploy")), "**"]]}, [address(B), u32(7), u32(9)]),
        ({"topics": [[encoded(symbol("deploy")), "*"]]}, [u32(7)]),
        ({"topics": [["*"]]}, [address(B), u32(8)]),
        ({"topics": [[encoded(symbol("other"))], ["*", encoded(u32(1))]]}, [u32(7), u32(8)]),
        ({"topics": [["**"]], "type": "contract"}, [address(B), u32(7), u32(8), u32(9)]),
        ({"type": "system"}, []),
    ],
)
def test_a_filter_passes_any_of_its_contracts_and_topics(
    events_rpc: LocalRpc, chosen: dict[str, Any], expected: list[ScVal]
) -> None:
    """A filter passes events of any of its contracts with any of its topics; ``*`` is one topic, ``**`` the rest."""
    assert list(map(encoded, expected)) == values(events_rpc.result("getEvents", startLedger=FIRST, filters=[chosen]))


def test_a_full_page_goes_on_after_its_last_event(events_rpc: LocalRpc) -> None:
    """A full page's cursor is that of its last event; one that is not full goes on after what was looked at."""
    first = events_rpc.result("getEvents", startLedger=FIRST, pagination={"limit": 3})
    second = events_rpc.result("getEvents", pagination={"cursor": first["cursor"], "limit": 3})

    assert first["events"][-1]["id"] == first["cursor"]
    assert [encoded(u32(9))] == values(second)
    assert f"{FIRST + 3 << 32 | 0xFFFFFFFF:019d}-4294967295" == second["cursor"]
    assert [] == events_rpc.result("getEvents", pagination={"cursor": second["cursor"]})["events"]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([{"topics": [["**", "*"]]}], "filter 1 invalid: topic 1 invalid"),
        ([{"topics": [["*"] * 5]}], "filter 1 invalid: topic 1 invalid"),
        ([{"topics": [["no base64"]]}], "filter 1 invalid: topic 1 invalid"),
        ([{}, {"topics": [["*"], []]}], "filter 2 invalid: topic 2 invalid"),
    ],
)
def test_a_topic_of_a_wrong_form_is_refused(events_rpc: LocalRpc, filters: Any, message: str) -> None:
    """A topic of a wrong form is -32602."""
    assert (INVALID_PARAMS, message) == events_rpc.error("getEvents", {"startLedger": FIRST, "filters": filters})


def test_archived_entries_are_in_the_write_footprint() -> None:
    """A call that reads an archived entry works, and its transaction data says what would be restored."""
    priced = RecordedNetwork()
    token = priced.prices.tokens[4]
    key = entries.instance_key(token)
    stored = priced.chain.entry(key, priced.chain.latest)
    assert stored is not None
    priced.chain.close([Change(key, stored.data, priced.chain.latest + 1)], close_time=1_794_996_005)
    priced.advance()
    result = LocalRpc(priced).simulate(token, "decimals")

    assert ([key], [0]) == written_and_restored(result["transactionData"])
    archived = priced.chain.entry(key, priced.chain.latest)
    read, other = (entries.code_key(name * 32) for name in (b"r", b"o"))
    simulated = Simulation(b"", None, {key: archived, read: None, other: archived})
    assert ([key, other], [0, 1]) == written_and_restored(text(simulated.transaction_data()))


def written_and_restored(transaction_data: str) -> tuple[list[bytes], list[int]]:
    """The keys of the write footprint, and which of them are to be restored."""
    data = xdr.SorobanTransactionData.from_xdr(transaction_data)
    assert data.ext.resource_ext is not None
    restored = [index.uint32 for index in data.ext.resource_ext.archived_soroban_entries]
    return [key.to_xdr_bytes() for key in data.resources.footprint.read_write], restored
