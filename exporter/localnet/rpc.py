"""The answers of the embedded server: the methods of Stellar RPC for one ledger of one node, but for HTTP.

Fields, limits and the texts of errors are those of an unmodified Stellar RPC. A simulated chain has neither headers nor
transactions: ``headerXdr`` and ``metadataXdr`` of ledgers are placeholders (the base64 of a few words), a ledger's hash
is the SHA-256 of its number, and no transaction is found. ``getHealth`` is healthy whatever the wall clock says.

The envelope of ``simulateTransaction`` is decoded with stellar-sdk, and not with the exporter's own codec, so that what
the exporter encodes is read by somebody else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import CONTRACT_CODE, CONTRACT_DATA, TTL, ledger_key_end
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.events import ContractEvent
from exporter.ledger.source import MAX_KEYS_PER_REQUEST, ContractCall
from exporter.localnet.network import MIN_RESOURCE_FEE, LocalNetwork

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

SNAPSHOT_NOT_FOUND: Final = "could not query captive core: http request failed with non-200 status code (404)"
"""The one text for duplicate keys and for a snapshot that is gone or not there yet."""

MAX_LEDGERS = 200
DEFAULT_LEDGERS = 50
_MAX_KEY_BYTES = 16 * 1024
_HEADER = base64.b64encode(b"made ledger header").decode()
_METADATA = base64.b64encode(b"made ledger metadata").decode()
_NO_EXTENSION = "AAAAAA=="

Params = dict[str, Any]


class RpcError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def _invalid(found: object, wanted: str) -> RpcError:
    """The error of the server's JSON decoder for a value of another type."""
    return RpcError(
        INVALID_PARAMS, "invalid parameters", f"json: cannot unmarshal {type(found).__name__} into {wanted}"
    )


@dataclass(frozen=True, slots=True)
class Node:
    """One node's view while it answers a call: the network, and the node's latest ledger."""

    network: LocalNetwork
    latest: int

    @property
    def oldest(self) -> int:
        """The oldest ledger it answers for."""
        return self.network.chain.oldest

    def close_time(self, ledger: int) -> int:
        return self.network.chain.close_time(ledger)


def _get_health(node: Node, _params: Params) -> Params:
    """``getHealth``; close times are strings."""
    return {
        "status": "healthy",
        "latestLedger": node.latest,
        "latestLedgerCloseTime": str(node.close_time(node.latest)),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTime": str(node.close_time(node.oldest)),
        "ledgerRetentionWindow": node.network.chain.window,
    }


def _get_network(node: Node, _params: Params) -> Params:
    return {"passphrase": node.network.passphrase, "protocolVersion": node.network.protocol_version}


def _get_version_info(node: Node, _params: Params) -> Params:
    return {
        "version": "localnet",
        "commitHash": "0" * 40,
        "buildTimestamp": "2026-11-18T10:00:00",
        "captiveCoreVersion": "localnet",
        "protocolVersion": node.network.protocol_version,
    }


def _get_latest_ledger(node: Node, _params: Params) -> Params:
    return {
        "id": _ledger_hash(node.latest),
        "protocolVersion": node.network.protocol_version,
        "sequence": node.latest,
        "closeTime": str(node.close_time(node.latest)),
        "headerXdr": _HEADER,
        "metadataXdr": _METADATA,
    }


def _get_ledgers(node: Node, params: Params) -> Params:
    """``getLedgers``: from ``startLedger``, or from after a cursor; the range's own close times are numbers."""
    start = _unsigned(params, "startLedger")
    pagination = _object_of(params, "pagination")
    cursor = pagination.get("cursor") or ""
    limit = _unsigned(pagination, "limit") or DEFAULT_LEDGERS
    between = f"must be between the oldest ledger: {node.oldest} and the latest ledger: {node.latest}"
    if cursor and start:
        raise RpcError(INVALID_REQUEST, "startLedger and cursor cannot both be set")
    if limit > MAX_LEDGERS:
        raise RpcError(INVALID_REQUEST, f"limit must not exceed {MAX_LEDGERS}")
    if not cursor and not node.oldest <= start <= node.latest:
        raise RpcError(INVALID_REQUEST, f"start ledger ({start}) {between} for this rpc instance")
    if cursor:
        if not isinstance(cursor, str) or not (cursor.isascii() and cursor.isdigit()) or len(cursor) > 10:
            raise RpcError(INVALID_PARAMS, f'strconv.ParseUint: parsing "{str(cursor)[:40]}": invalid syntax')
        start = int(cursor) + 1
        if not node.oldest <= start <= node.latest:
            raise RpcError(INVALID_PARAMS, f"cursor ('{cursor}') {between} for this rpc instance")
    end = min(start + limit - 1, node.latest)
    return {
        "ledgers": [_ledger(node, ledger) for ledger in range(start, end + 1)],
        "latestLedger": node.latest,
        "latestLedgerCloseTime": node.close_time(node.latest),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTime": node.close_time(node.oldest),
        "cursor": str(end),
    }


def _get_ledger_entries(node: Node, params: Params) -> Params:
    """``getLedgerEntries``: what is absent is left out, the order is that of the request."""
    texts = params.get("keys") or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _invalid(texts, "keys of type []string")
    form = params.get("xdrFormat") or "base64"
    if form not in ("base64", "json"):
        raise RpcError(INVALID_PARAMS, f"got '{form}': expected base64, json for optional 'xdrFormat'")
    if len(texts) > MAX_KEYS_PER_REQUEST:
        raise RpcError(INVALID_PARAMS, f"key count ({len(texts)}) exceeds maximum supported ({MAX_KEYS_PER_REQUEST})")
    keys = [_ledger_key(node, text, index) for index, text in enumerate(texts)]
    if not keys:
        raise RpcError(INTERNAL_ERROR, "could not query captive core: no keys specified in request")
    if len(set(keys)) != len(keys):
        raise RpcError(INTERNAL_ERROR, SNAPSHOT_NOT_FOUND)
    entries = []
    for key, text in zip(keys, texts, strict=True):
        entry = node.network.chain.entry(key, node.latest)
        if entry is None:
            continue
        answer: Params = {"key": text, "xdr": base64.b64encode(entry.data).decode(), "extXdr": _NO_EXTENSION}
        if form == "json":
            answer = {"keyJson": _as_json("LedgerKey", key), "dataJson": _as_json("LedgerEntryData", entry.data)}
            answer["extJson"] = "v0"
        answer["lastModifiedLedgerSeq"] = entry.last_modified
        if entry.live_until is not None:
            answer["liveUntilLedgerSeq"] = entry.live_until
        entries.append(answer)
    return {"entries": entries, "latestLedger": node.latest}


def _as_json(kind: str, content: bytes) -> Any:
    from stellar_sdk import xdr

    return getattr(xdr, kind).from_xdr_bytes(content).to_json_dict()


def _unsigned(params: Params, name: str) -> int:
    """An optional whole number; 0 where it is left out, as in the server's own language."""
    value = params.get(name)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < 2**32:
        raise _invalid(value, f"{name} of type uint32")
    return value


def _object_of(params: Params, name: str) -> Params:
    """An optional object; an empty one where it is left out."""
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid(value, f"{name}, an object")
    return value


def _ledger(node: Node, ledger: int) -> Params:
    return {
        "hash": _ledger_hash(ledger),
        "sequence": ledger,
        "ledgerCloseTime": str(node.close_time(ledger)),
        "headerXdr": _HEADER,
        "metadataXdr": _METADATA,
    }


def _ledger_hash(ledger: int) -> str:
    return hashlib.sha256(f"made ledger {ledger}".encode()).hexdigest()


def _ledger_key(node: Node, text: str, index: int) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
        if not node.network.chain.knows(key):
            _check_key(key)
    except (binascii.Error, ValueError, DecodeError):
        raise RpcError(INVALID_PARAMS, f"cannot unmarshal key value {text} at index {index}") from None
    if key[:4] == bytes((0, 0, 0, TTL)):
        raise RpcError(INVALID_PARAMS, "ledger ttl entries cannot be queried directly")
    return key


def _check_key(key: bytes) -> None:
    """Raise unless the bytes are a LedgerKey; keys of classic entries are left to the SDK, which knows them all."""
    kind = int.from_bytes(key[:4], "big")
    if len(key) > _MAX_KEY_BYTES:
        raise DecodeError("the key is too long")
    if kind in (CONTRACT_DATA, CONTRACT_CODE, TTL):
        if ledger_key_end(key, 0) != len(key):
            raise DecodeError("the key has not the length of its kind")
    else:
        from stellar_sdk import xdr

        try:
            xdr.LedgerKey.from_xdr_bytes(key)
        except Exception as error:  # the SDK lets many kinds of errors through
            raise DecodeError(str(error)) from None


MAX_EVENTS: Final = 10_000
DEFAULT_EVENTS: Final = 100
MAX_LEDGERS_SCANNED: Final = 10_000
MAX_FILTERS: Final = 5
MAX_TOPICS: Final = 4

_CURSOR: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,10})", re.ASCII)
_TRANSACTION: Final = 1  # each event of a made ledger has one of its own, counted from here
_LAST_POSITION: Final = 0xFFFFFFFF, 2**32 - 1  # transaction and operation, and event: after everything of a ledger

Position = tuple[int, int, int]
"""Where an event is: its ledger, the transaction and operation in it, and its place among theirs."""


def _get_events(node: Node, params: Params) -> Params:
    """``getEvents``: the events that pass any filter, and a cursor to go on from, on an empty page, too."""
    start, end = _unsigned(params, "startLedger"), _unsigned(params, "endLedger")
    pagination = _object_of(params, "pagination")
    cursor = pagination.get("cursor") or ""
    limit = _unsigned(pagination, "limit")
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
        "events": [_event(node, position, event) for position, event in page],
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
        raise RpcError(INVALID_PARAMS, "invalid parameters", f"invalid event id {str(cursor)[:40]}")
    return int(found[1]) >> 32, int(found[1]) & 0xFFFFFFFF, int(found[2])


def _event(node: Node, position: Position, event: ContractEvent) -> Params:
    closed = datetime.fromtimestamp(node.close_time(event.ledger), UTC)
    return {
        "type": "contract",
        "ledger": event.ledger,
        "ledgerClosedAt": closed.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "contractId": event.contract,
        "id": _cursor(position),
        "operationIndex": 0,
        "transactionIndex": position[1] >> 12,
        "txHash": hashlib.sha256(f"made transaction {position}".encode()).hexdigest(),
        "topic": [_base64(topic) for topic in event.topics],
        "value": _base64(event.value),
    }


def _base64(value: ScVal) -> str:
    return base64.b64encode(encode_scval(value)).decode()


def _filter(filters: Any) -> Callable[[ContractEvent], bool]:
    """Which events pass: those that match any of the filters; no filter lets all pass."""
    if not isinstance(filters, list) or not all(isinstance(each, dict) for each in filters):
        raise _invalid(filters, "filters, a list of objects")
    if len(filters) > MAX_FILTERS:
        raise RpcError(INVALID_PARAMS, f"maximum {MAX_FILTERS} filters per request")
    tests = [_one_filter(each, index) for index, each in enumerate(filters, start=1)]
    return lambda event: not tests or any(test(event) for test in tests)


def _one_filter(given: Params, index: int) -> Callable[[ContractEvent], bool]:
    contracts, topics = given.get("contractIds") or [], given.get("topics") or []
    if not isinstance(contracts, list) or not isinstance(topics, list):
        raise _invalid(given, "lists of contracts and topics")
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


def _simulate_transaction(node: Node, params: Params) -> Params:
    """Answer with the result, its footprint in ``transactionData``, or an ``error``."""
    call = _call_of(params.get("transaction"))
    if call is None:  # refused before a ledger is looked at
        return {"error": "Could not unmarshal transaction", "latestLedger": 0}
    simulation = node.network.contracts.simulate(node.network.chain, node.latest, call)
    if simulation.result is None:
        return {"error": simulation.error, "events": [], "latestLedger": node.latest}
    return {
        "minResourceFee": str(MIN_RESOURCE_FEE),
        "latestLedger": node.latest,
        "transactionData": base64.b64encode(simulation.transaction_data()).decode(),
        "results": [{"auth": [], "xdr": base64.b64encode(simulation.result).decode()}],
        "events": [],
    }


def _call_of(text: Any) -> ContractCall | None:
    """The one invocation of a contract that a transaction is made of."""
    from stellar_sdk import xdr

    try:
        envelope: Any = xdr.TransactionEnvelope.from_xdr(text)
        (operation,) = envelope.v1.tx.operations
        called = operation.body.invoke_host_function_op.host_function.invoke_contract
        return ContractCall(
            contract=strkey.encode_contract(called.contract_address.to_xdr_bytes()[4:]),
            function=called.function_name.sc_symbol.decode("ascii"),
            arguments=tuple(decode_scval(argument.to_xdr_bytes()) for argument in called.args),
        )
    except Exception:  # the SDK lets many kinds of errors through
        return None


def _get_fee_stats(node: Node, _params: Params) -> Params:
    """``getFeeStats``: nobody paid a fee."""
    amounts = ("max", "min", "mode", *(f"p{percent}" for percent in (10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)))
    none = dict.fromkeys((*amounts, "transactionCount"), "0") | {"ledgerCount": 0}
    return {"sorobanInclusionFee": none, "inclusionFee": none, "latestLedger": node.latest}


def _get_transaction(node: Node, params: Params) -> Params:
    return {
        "latestLedger": node.latest,
        "latestLedgerCloseTime": str(node.close_time(node.latest)),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTime": str(node.close_time(node.oldest)),
        "status": "NOT_FOUND",
        "txHash": params.get("hash", ""),
        "applicationOrder": 0,
        "feeBump": False,
        "events": {},
        "ledger": 0,
        "createdAt": "0",
    }


def _get_transactions(node: Node, _params: Params) -> Params:
    return {
        "transactions": [],
        "latestLedger": node.latest,
        "latestLedgerCloseTimestamp": node.close_time(node.latest),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTimestamp": node.close_time(node.oldest),
        "cursor": str(node.latest << 32 | 1),
    }


_WITHOUT_PARAMETERS: Final = {
    "getHealth": _get_health,
    "getNetwork": _get_network,
    "getVersionInfo": _get_version_info,
    "getLatestLedger": _get_latest_ledger,
    "getFeeStats": _get_fee_stats,
}
_WITH_PARAMETERS: Final[dict[str, Callable[[Node, Params], Params]]] = {
    "getLedgers": _get_ledgers,
    "getLedgerEntries": _get_ledger_entries,
    "getEvents": _get_events,
    "getTransaction": _get_transaction,
    "getTransactions": _get_transactions,
    "simulateTransaction": _simulate_transaction,
}


def answer_of(node: Node, method: str, params: Any) -> Params:
    """The result of a method. Raises `RpcError`."""
    if method in _WITHOUT_PARAMETERS:
        if params is not None:
            raise RpcError(INVALID_PARAMS, "no parameters accepted")
        return _WITHOUT_PARAMETERS[method](node, {})
    if method not in _WITH_PARAMETERS:
        raise RpcError(METHOD_NOT_FOUND, "method not found", method)
    if params is not None and not isinstance(params, dict):
        raise _invalid(params, "an object")
    return _WITH_PARAMETERS[method](node, params or {})
