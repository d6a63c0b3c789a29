"""``getEvents``: what it is asked with, and what its answers say (facts/stellar-rpc.md 3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger import rpc_wire, strkey
from exporter.ledger.events import MAX_EVENTS_PER_PAGE, MAX_FILTERS, ContractEvent, EventFilter, EventsPage
from exporter.ledger.rpc_errors import AttemptError, Failure, FailureKind
from exporter.ledger.rpc_wire import EventInfo, EventsResult
from exporter.ledger.scval import decode_scval
from exporter.ledger.scval_encode import encode_scval, symbol

MAX_EVENT_BYTES: Final = 64 * 1024
"""Base64 of a topic or value; a longer one names no market."""

_MAX_TOPICS: Final = 4
_CURSOR: Final = re.compile(r"([0-9]{1,19})-[0-9]{1,10}", re.ASCII)
_RANGE: Final = re.compile(r"ledger range: (\d{1,10}) - (\d{1,10})\b")


def events_params(filters: Sequence[EventFilter], start: int | str) -> dict[str, Any]:
    """The parameters of one request. A cursor stands for the ledger to start at."""
    if not 1 <= len(filters) <= MAX_FILTERS or any(len(each.contracts) > MAX_FILTERS for each in filters):
        raise ValueError(f"a request has 1 to {MAX_FILTERS} filters, of at most {MAX_FILTERS} contracts each")
    asked = [
        {
            "type": "contract",
            "contractIds": list(each.contracts),
            "topics": [[*(rpc_wire.encode_base64(encode_scval(symbol(topic))) for topic in each.topics), "**"]],
        }
        for each in filters
    ]
    pagination: dict[str, Any] = {"limit": MAX_EVENTS_PER_PAGE}
    if isinstance(start, str):
        return {"filters": asked, "pagination": pagination | {"cursor": start}}
    return {"startLedger": start, "filters": asked, "pagination": pagination}


def range_of(failure: Failure) -> tuple[int, int] | None:
    """The oldest and the latest ledger with events, where a failure says that another one was asked for."""
    if failure.kind is not FailureKind.RPC or failure.code != -32600:
        return None
    found = _RANGE.search(failure.text)
    oldest, latest = (int(found[1]), int(found[2])) if found else (0, 0)
    return (oldest, latest) if 1 <= oldest <= latest < 2**32 else None


def events_page(result: EventsResult, start: int | str) -> EventsPage:
    """The page of a result. An event that cannot be decoded is counted; a cursor that cannot makes it unusable."""
    at = _CURSOR.fullmatch(result.cursor)
    if at is None:
        rpc_wire.unusable("the cursor of a page of events is not one")
    ledger = int(at[1]) >> 32
    events: list[ContractEvent] = []
    given = result.events or []
    if len(given) > MAX_EVENTS_PER_PAGE:
        rpc_wire.unusable("a page of events has more of them than were asked for")
    undecodable = 0
    for info in given:
        if info.ledger > result.latest_ledger:
            rpc_wire.unusable("an event is of a ledger after the one that the answer is of")
        if info.in_successful_contract_call:
            try:
                events.append(_event(info))
            except (DecodeError, AttemptError):
                undecodable += 1
    full = len(given) == MAX_EVENTS_PER_PAGE  # there may be more of the last event's ledger
    through = min(ledger - 1 if full else ledger, result.latest_ledger)
    if full or through < result.latest_ledger:
        cursor = result.cursor
        if cursor == start or (isinstance(start, int) and ledger < start):
            rpc_wire.unusable("the cursor of a page of events does not go on")
    else:
        cursor = None
    return EventsPage(tuple(events), max(through, 0), cursor, result.latest_ledger, undecodable)


def _event(info: EventInfo) -> ContractEvent:
    strkey.decode_contract(info.contract_id)
    topics = info.topic or []
    if len(topics) > _MAX_TOPICS or any(len(text) > MAX_EVENT_BYTES for text in (*topics, info.value)):
        raise DecodeError("an event is larger than any that names a market")
    values = [decode_scval(rpc_wire.decode_base64(text, "an event")) for text in (*topics, info.value)]
    return ContractEvent(info.contract_id, info.ledger, tuple(values[:-1]), values[-1])
