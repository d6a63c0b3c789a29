"""Reading events through the RPC client: what is asked, what is refused, and endpoints of different retention."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from exporter.errors import AllEndpointsFailedError
from exporter.ledger.codec.scval_encode import address, encode_scval, symbol
from exporter.ledger.events import ContractEvent, EventFilter, EventSource, EventsPage, OutOfRange
from exporter.ledger.rpc.client import RpcSource
from tests.ledger.rpc.fake_rpc import PASSPHRASE, Call, FakeRpc, VirtualClock, b64, result, rpc_error
from tests.protocols.made_ledger import contract

FACTORY, POOL = contract("factory"), contract("pool")
DEPLOY = EventFilter((FACTORY,), ("deploy",))
LATEST = 1_000


def cursor(ledger: int, position: int = 0xFFFFFFFF, event: int = 2**32 - 1) -> str:
    return f"{ledger << 32 | position:019d}-{event:010d}"


def info(ledger: int = 900, **changes: Any) -> dict[str, Any]:
    event = {
        "type": "contract",
        "ledger": ledger,
        "contractId": FACTORY,
        "id": cursor(ledger, 4096, 0),
        "topic": [b64(encode_scval(symbol("deploy")))],
        "value": b64(encode_scval(address(POOL))),
    }
    return event | changes


class EventRpc(FakeRpc):
    """A fake with a page of events; ``oldest`` has the first ledger that each host keeps."""

    def __init__(self, events: list[dict[str, Any]] | None = None, **oldest: int) -> None:
        super().__init__()
        self.events, self.oldest = events or [], oldest
        self.page: dict[str, Any] = {}

    def answer(self, call: Call) -> dict[str, Any]:
        if call.method != "getEvents":
            return super().answer(call)
        start = call.params.get("startLedger")
        oldest = self.oldest.get(call.host.partition(".")[0], 1)
        if start is not None and not oldest <= start <= LATEST:
            message = f"startLedger must be within the ledger range: {oldest} - {LATEST}"
            return {"error": {"code": -32600, "message": message}}
        return result(**{"events": self.events, "latestLedger": LATEST, "cursor": cursor(LATEST)} | self.page)


def read(rpc: FakeRpc, start: int | str = 800, *hosts: str, filters: list[EventFilter] | None = None) -> Any:
    urls = [f"https://{host}.example" for host in hosts or ("one",)]

    async def go() -> EventsPage | OutOfRange:
        async with RpcSource(urls, PASSPHRASE, transport=rpc, timing=VirtualClock().timing()) as source:
            assert isinstance(source, EventSource)
            return await source.read_events(filters or [DEPLOY], start)

    return asyncio.run(go())


def test_a_page_at_the_newest_ledger_has_no_cursor() -> None:
    """Events are decoded; at the newest ledger there is no cursor to go on from."""
    page = read(EventRpc([info()]))

    event = ContractEvent(FACTORY, 900, (symbol("deploy"),), address(POOL))
    assert EventsPage((event,), LATEST, None, LATEST) == page
    assert event.starts_with(("deploy",))
    assert not event.starts_with(("deploy", "more"))


def test_what_is_asked() -> None:
    """Filters go as contracts and exact topics with any more behind; a cursor replaces the ledger."""
    rpc = EventRpc()
    read(rpc, 800)
    read(rpc, cursor(900))
    first, second = (call.params for call in rpc.calls if call.method == "getEvents")

    asked = [{"type": "contract", "contractIds": [FACTORY], "topics": [[b64(encode_scval(symbol("deploy"))), "**"]]}]
    assert {"startLedger": 800, "filters": asked, "pagination": {"limit": 1000}} == first
    assert {"filters": asked, "pagination": {"limit": 1000, "cursor": cursor(900)}} == second


@pytest.mark.parametrize(("count", "at", "through"), [(0, cursor(850), 850), (1_000, cursor(900, 4096, 0), 899)])
def test_a_page_to_go_on_from(count: int, at: str, through: int) -> None:
    """A page says how far it looked, and has the cursor; a full one may end inside of a ledger, which is then open."""
    rpc = EventRpc([info(ledger) for ledger in range(1, count + 1)])
    rpc.page = {"cursor": at}
    page = read(rpc, 1)

    assert (count, through, at) == (len(page.events), page.through, page.cursor)


@pytest.mark.parametrize(
    ("changes", "undecodable"),
    [
        ({"contractId": "garbage"}, 1),
        ({"contractId": "GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF"}, 1),
        ({"value": "no base64"}, 1),
        ({"value": b64(b"\xff\xff\xff\xff")}, 1),
        ({"inSuccessfulContractCall": False}, 0),  # of a call that failed, as older RPCs also give them
    ],
)
def test_an_event_that_is_left_out(changes: dict[str, Any], undecodable: int) -> None:
    """One that cannot be decoded is counted, and costs the other events of the page nothing."""
    page = read(EventRpc([info(**changes), info()]))

    assert (1, undecodable) == (len(page.events), page.undecodable)


@pytest.mark.parametrize(
    "page",
    [
        {"cursor": "x"},
        {"cursor": cursor(10)},
        {"events": [info(LATEST + 1)]},
        {"events": [info(topic="deploy")]},
        {"events": "none"},
        {"cursor": None},
    ],
)
def test_an_unusable_page_is_an_error_of_the_endpoint(page: dict[str, Any]) -> None:
    """A page that is not as documented, or whose cursor goes back, is an error of the endpoint."""
    rpc = EventRpc()
    rpc.page = page

    with pytest.raises(AllEndpointsFailedError, match="getEvents from 800"):
        read(rpc)


def test_out_of_range() -> None:
    """If no endpoint keeps the ledger, the widest range is given. It is not certain while one cannot be asked."""
    rpc = EventRpc([info()], short=700, long=300)

    assert OutOfRange(300, LATEST, certain=True) == read(rpc, 100, "short", "long")
    assert ["short.example", "long.example"] == rpc.asked("getEvents")
    assert LATEST == read(rpc, 300, "short", "long").through
    rpc.faults["long.example"].extend([rpc_error(-32601, "method not found")] * 20)
    assert OutOfRange(700, LATEST, certain=False) == read(rpc, 300, "short", "long")
