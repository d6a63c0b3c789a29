"""``getEvents`` of the embedded server: filters, ranges, cursors, limits and retention (facts/stellar-rpc.md 3)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, encode_scval, symbol, u32
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.made import DEFAULT_START_LEDGER, MadeNetwork
from exporter.localnet.rpc_methods import INVALID_PARAMS, INVALID_REQUEST
from tests.localnet.rpc_client import LocalRpc
from tests.protocols.made_ledger import contract

FIRST = DEFAULT_START_LEDGER
A, B = contract("a"), contract("b")


def text(value: ScVal) -> str:
    """Base64 of a value."""
    return base64.b64encode(encode_scval(value)).decode()


def network(**options: Any) -> MadeNetwork:
    """A network in which A and B publish something in the second and the fourth ledger."""
    made = MadeNetwork(pools=1, **options)
    made.publish((A, (symbol("deploy"),), address(B)), (B, (symbol("deploy"), u32(1)), u32(7)))
    made.advance()
    made.publish((A, (symbol("other"),), u32(8)), (A, (symbol("deploy"), u32(2), u32(3)), u32(9)))
    return made


@pytest.fixture
def rpc() -> LocalRpc:
    """A client of the network."""
    return LocalRpc(network())


def values(page: dict[str, Any]) -> list[str]:
    """The values of a page's events."""
    return [event["value"] for event in page["events"]]


def test_shape(rpc: LocalRpc) -> None:
    """An event has the fields of the real server, and the page the range that is kept."""
    page = rpc.result("getEvents", startLedger=FIRST)
    event = page["events"][0]

    assert 4 == len(page["events"])
    assert ("contract", FIRST + 1, A, [text(symbol("deploy"))], text(address(B))) == (
        event["type"], event["ledger"], event["contractId"], event["topic"], event["value"],
    )  # fmt: skip
    assert "2026-11-18T10:00:05Z" == event["ledgerClosedAt"]
    assert f"{FIRST + 1 << 32 | 1 << 12:019d}-0000000000" == event["id"]
    assert 64 == len(event["txHash"])
    assert (FIRST, FIRST + 3) == (page["oldestLedger"], page["latestLedger"])


def test_json(rpc: LocalRpc) -> None:
    """With ``xdrFormat`` json topics and value are XDR-JSON."""
    event = rpc.result("getEvents", startLedger=FIRST, xdrFormat="json")["events"][1]

    assert ([{"symbol": "deploy"}, {"u32": 1}], {"u32": 7}) == (event["topicJson"], event["valueJson"])


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, [address(B), u32(7), u32(8), u32(9)]),
        ({"contractIds": [B]}, [u32(7)]),
        ({"contractIds": [A, B], "topics": [[text(symbol("deploy"))]]}, [address(B)]),
        ({"topics": [[text(symbol("deploy")), "**"]]}, [address(B), u32(7), u32(9)]),
        ({"topics": [[text(symbol("deploy")), "*"]]}, [u32(7)]),
        ({"topics": [["*"]]}, [address(B), u32(8)]),
        ({"topics": [[text(symbol("other"))], ["*", text(u32(1))]]}, [u32(7), u32(8)]),
        ({"topics": [["**"]], "type": "contract"}, [address(B), u32(7), u32(8), u32(9)]),
        ({"type": "system"}, []),
    ],
)
def test_filters(rpc: LocalRpc, chosen: dict[str, Any], expected: list[ScVal]) -> None:
    """A filter lets pass what has any of its contracts and any of its topics; ``*`` is one topic, ``**`` the rest."""
    assert list(map(text, expected)) == values(rpc.result("getEvents", startLedger=FIRST, filters=[chosen]))


def test_any_filter(rpc: LocalRpc) -> None:
    """Of several filters one is enough."""
    filters = [{"contractIds": [B]}, {"topics": [[text(symbol("other"))]]}]

    assert [text(u32(7)), text(u32(8))] == values(rpc.result("getEvents", startLedger=FIRST, filters=filters))


def test_pages(rpc: LocalRpc) -> None:
    """A full page's cursor is that of its last event; one that is not full goes on after what was looked at."""
    first = rpc.result("getEvents", startLedger=FIRST, pagination={"limit": 3})
    second = rpc.result("getEvents", pagination={"cursor": first["cursor"], "limit": 3})

    assert first["events"][-1]["id"] == first["cursor"]
    assert [text(u32(9))] == values(second)
    assert f"{FIRST + 3 << 32 | 0xFFFFFFFF:019d}-4294967295" == second["cursor"]
    assert [] == rpc.result("getEvents", pagination={"cursor": second["cursor"]})["events"]


def test_scan_limit() -> None:
    """One call looks at 10,000 ledgers; an empty page has a cursor to go on from."""
    made = network()
    for _ in range(10_000):
        made.chain.close(close_time=made.chain.close_time(made.chain.latest) + 5)
    made.publish((A, (symbol("late"),), u32(1)))
    rpc = LocalRpc(made)
    page = rpc.result("getEvents", startLedger=FIRST + 4)
    following = rpc.result("getEvents", pagination={"cursor": page["cursor"]})

    assert ([], FIRST + 10_003) == (page["events"], int(page["cursor"].split("-")[0]) >> 32)
    assert [text(u32(1))] == values(following)


def test_retention() -> None:
    """Events that are older than the retention are gone, though the ledgers are not, and asking for them is refused."""
    made = network(event_window=2)
    rpc = LocalRpc(made)

    assert (INVALID_REQUEST, f"startLedger must be within the ledger range: {FIRST + 2} - {FIRST + 3}") == rpc.error(
        "getEvents", {"startLedger": FIRST}
    )
    assert [text(u32(8)), text(u32(9))] == values(rpc.result("getEvents", startLedger=FIRST + 2))
    assert FIRST == rpc.result("getHealth")["oldestLedger"]
    assert () == made.chain.events(FIRST + 1)


def test_lagging_node() -> None:
    """A node gives no event of a ledger that it does not have yet."""
    rpc = LocalRpc(network(), Behaviour(lags=(2,)))

    assert [FIRST + 1, FIRST + 1] == [event["ledger"] for event in rpc.result("getEvents", startLedger=FIRST)["events"]]
    assert INVALID_REQUEST == rpc.error("getEvents", {"startLedger": FIRST + 3})[0]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([{}] * 6, "maximum 5 filters per request"),
        ([{"contractIds": [A] * 6}], "filter 1 invalid: maximum 5 contract IDs per filter"),
        ([{}, {"topics": [["*"]] * 6}], "filter 2 invalid: maximum 5 topics per filter"),
        ([{"contractIds": ["GAB"]}], "filter 1 invalid: contract ID 1 invalid"),
        ([{"type": "diagnostic"}], "filter 1 invalid: filter type invalid"),
        ([{"topics": [["**", "*"]]}], "filter 1 invalid: topic 1 invalid"),
        ([{"topics": [["*"] * 5]}], "filter 1 invalid: topic 1 invalid"),
        ([{"topics": [["no base64"]]}], "filter 1 invalid: topic 1 invalid"),
        ([{"topics": [[]]}], "filter 1 invalid: topic 1 invalid"),
        ("all", "invalid parameters"),
    ],
)
def test_wrong_filters(rpc: LocalRpc, filters: Any, message: str) -> None:
    """More filters, contracts or topics than allowed, and such as are none, are -32602."""
    assert (INVALID_PARAMS, message) == rpc.error("getEvents", {"startLedger": FIRST, "filters": filters})


def test_unknown_value_kind_is_not_needed() -> None:
    """Any kind of value can be published, an empty map among them."""
    made = network()
    made.publish((A, (), (scval.MAP, ())))

    assert text((scval.MAP, ())) == values(LocalRpc(made).result("getEvents", startLedger=FIRST))[-1]
