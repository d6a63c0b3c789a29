"""``getEvents`` of the embedded server, by the rules of docs/rpc.md, "Events": ranges, filters, cursors and limits."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.codec.xdr_json import scval_to_json
from exporter.ledger.events import ContractEvent
from exporter.localnet.rpc_methods import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Node,
    Params,
    RpcError,
    is_json,
    object_of,
    unsigned,
)

MAX_EVENTS: Final = 10_000
DEFAULT_EVENTS: Final = 100
MAX_LEDGERS_SCANNED: Final = 10_000
MAX_FILTERS: Final = 5
MAX_TOPICS: Final = 4

_CURSOR: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,10})", re.ASCII)
_TRANSACTION: Final = 1  # each event of a made ledger has one of its own, counted from here
_LAST_POSITION: Final = 0xFFFFFFFF, 2**32 - 1  # transaction and operation, and event: after everything of a ledger

Position = tuple[int, int, int]
"""Where an event stands: its ledger, the transaction and operation in it, and its place among theirs."""


def get_events(node: Node, params: Params) -> Params:
    """``getEvents``: the events that pass any filter, and a cursor to go on from, on an empty page, too."""
    start, end = unsigned(params, "startLedger"), unsigned(params, "endLedger")
    pagination = object_of(params, "pagination")
    cursor = pagination.get("cursor") or ""
    limit = unsigned(pagination, "limit")
    as_json = is_json(params, INVALID_PARAMS)
    passes = _filter(params.get("filters") or [])
    if cursor and (start or end):
        raise RpcError(INVALID_PARAMS, "ledger ranges and cursor cannot both be set")
    if limit > MAX_EVENTS:
        raise RpcError(INVALID_PARAMS, f"limit must not exceed {MAX_EVENTS}")
    after: Position | None = None
    if cursor:
        after = _position(cursor)
        start = after[0]
    elif not start:
        raise RpcError(INVALID_PARAMS, "startLedger must be positive")
    if end and end <= start:
        raise RpcError(INVALID_PARAMS, "startLedger must be less than endLedger")
    oldest = min(node.network.chain.oldest_events, node.latest)
    if not oldest <= start <= node.latest:
        raise RpcError(INVALID_REQUEST, f"startLedger must be within the ledger range: {oldest} - {node.latest}")
    last = min(node.latest, start + MAX_LEDGERS_SCANNED - 1, *([end - 1] if end else []))
    found = [
        (position, event)
        for position, event in _events(node, start, last)
        if (after is None or position > after) and passes(event)
    ]
    most = limit or DEFAULT_EVENTS
    full = len(found) >= most
    page = found[:most]
    return {
        "events": [_event(node, position, event, as_json) for position, event in page],
        "cursor": _cursor(page[-1][0] if full else (last, *_LAST_POSITION)),
        "latestLedger": node.latest,
        "latestLedgerCloseTime": str(node.close_time(node.latest)),
        "oldestLedger": oldest,
        "oldestLedgerCloseTime": str(node.close_time(oldest)),
    }


def _events(node: Node, first: int, last: int) -> Iterator[tuple[Position, ContractEvent]]:
    for ledger in range(first, last + 1):
        for index, event in enumerate(node.network.chain.events(ledger), start=_TRANSACTION):
            yield (ledger, index << 12, 0), event


def _cursor(position: Position) -> str:
    ledger, inner, event = position
    return f"{ledger << 32 | inner:019d}-{event:010d}"


def _position(cursor: Any) -> Position:
    found = _CURSOR.fullmatch(str(cursor))
    if found is None:
        raise RpcError(INVALID_PARAMS, f"invalid event id {str(cursor)[:40]}")
    return int(found[1]) >> 32, int(found[1]) & 0xFFFFFFFF, int(found[2])


def _event(node: Node, position: Position, event: ContractEvent, as_json: bool) -> Params:
    closed = datetime.fromtimestamp(node.close_time(event.ledger), UTC)
    answer: Params = {
        "type": "contract",
        "ledger": event.ledger,
        "ledgerClosedAt": closed.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "contractId": event.contract,
        "id": _cursor(position),
        "operationIndex": 0,
        "transactionIndex": position[1] >> 12,
        "txHash": hashlib.sha256(f"made transaction {position}".encode()).hexdigest(),
    }
    if as_json:
        shown = [scval_to_json(topic) for topic in event.topics]
        return answer | {"topicJson": shown, "valueJson": scval_to_json(event.value)}
    return answer | {"topic": [_base64(topic) for topic in event.topics], "value": _base64(event.value)}


def _base64(value: ScVal) -> str:
    return base64.b64encode(encode_scval(value)).decode()


def _filter(filters: Any) -> Callable[[ContractEvent], bool]:
    """What an event must be to pass: any of the filters; no filter lets all pass."""
    if not isinstance(filters, list) or not all(isinstance(each, dict) for each in filters):
        raise RpcError(INVALID_PARAMS, "invalid parameters")
    if len(filters) > MAX_FILTERS:
        raise RpcError(INVALID_PARAMS, f"maximum {MAX_FILTERS} filters per request")
    tests = [_one_filter(each, index) for index, each in enumerate(filters, start=1)]
    return lambda event: not tests or any(test(event) for test in tests)


def _one_filter(given: Params, index: int) -> Callable[[ContractEvent], bool]:
    contracts, topics = given.get("contractIds") or [], given.get("topics") or []
    if not isinstance(contracts, list) or not isinstance(topics, list):
        raise RpcError(INVALID_PARAMS, "invalid parameters")
    if given.get("type") not in (None, "", "contract", "system"):
        raise RpcError(INVALID_PARAMS, f"filter {index} invalid: filter type invalid")
    for what, items in (("contract IDs", contracts), ("topics", topics)):
        if len(items) > MAX_FILTERS:
            raise RpcError(INVALID_PARAMS, f"filter {index} invalid: maximum {MAX_FILTERS} {what} per filter")
    for place, contract in enumerate(contracts, start=1):
        if not isinstance(contract, str) or not strkey.is_contract(contract):
            raise RpcError(INVALID_PARAMS, f"filter {index} invalid: contract ID {place} invalid")
    patterns = [_pattern(topic, index, place) for place, topic in enumerate(topics, start=1)]

    def passes(event: ContractEvent) -> bool:
        return (
            given.get("type") != "system"
            and (not contracts or event.contract in contracts)
            and (not patterns or any(_matches(pattern, event.topics) for pattern in patterns))
        )

    return passes


def _pattern(topic: Any, index: int, place: int) -> list[ScVal | str]:
    wrong = RpcError(INVALID_PARAMS, f"filter {index} invalid: topic {place} invalid")
    if not isinstance(topic, list) or not all(isinstance(segment, str) for segment in topic):
        raise wrong
    named = [segment for segment in topic if segment != "**"]
    if "**" in topic[:-1] or len(named) > MAX_TOPICS or not topic:
        raise wrong
    try:
        return [
            segment if segment in ("*", "**") else decode_scval(base64.b64decode(segment, validate=True))
            for segment in topic
        ]
    except (binascii.Error, DecodeError, ValueError):
        raise wrong from None


def _matches(pattern: list[ScVal | str], topics: tuple[ScVal, ...]) -> bool:
    if pattern[-1] == "**":
        pattern = pattern[:-1]
        topics = topics[: len(pattern)]
    return len(pattern) == len(topics) and all(
        segment in ("*", topic) for segment, topic in zip(pattern, topics, strict=True)
    )
