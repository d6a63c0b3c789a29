"""The methods of the embedded Stellar RPC server, as one node answers them at one ledger. HTTP is handled elsewhere.

Fields, limits and error texts are those of an unmodified Stellar RPC. Headers, hashes and transactions are
placeholders. The envelope of ``simulateTransaction`` is decoded with stellar-sdk, so that another program reads what
the exporter encodes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

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
"""The error text for duplicate keys, and for a snapshot that is gone or not there yet. A real server has only one."""

MAX_LEDGERS: Final = 200
DEFAULT_LEDGERS: Final = 50
MAX_EVENTS: Final = 10_000
DEFAULT_EVENTS: Final = 100
MAX_LEDGERS_SCANNED: Final = 10_000
MAX_FILTERS: Final = 5
MAX_TOPICS: Final = 4
_MAX_KEY_BYTES: Final = 16 * 1024
_PLACEHOLDERS: Final = {
    "headerXdr": base64.b64encode(b"made ledger header").decode(),
    "metadataXdr": base64.b64encode(b"made ledger metadata").decode(),
}
_CURSOR: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,10})", re.ASCII)

Result = dict[str, Any]


class RpcError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Node(Struct, frozen=True):
    """A node while it answers a call: the network, and the latest ledger that the node has."""

    network: LocalNetwork
    latest: int

    @property
    def oldest(self) -> int:
        return self.network.chain.oldest

    def close_time(self, ledger: int) -> int:
        return self.network.chain.close_time(ledger)


_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _Pagination(msgspec.Struct):
    cursor: str | None = None
    limit: _Number | None = None


class _Filter(msgspec.Struct, rename="camel"):
    type: str | None = None
    contract_ids: list[str] | None = None
    topics: list[list[str]] | None = None


class _Params(msgspec.Struct, rename="camel"):
    """The parameters of all methods. Each method looks only at its own."""

    keys: list[str] | None = None
    xdr_format: str | None = None
    start_ledger: _Number | None = None
    end_ledger: _Number | None = None
    filters: list[_Filter] | None = None
    pagination: _Pagination | None = None
    hash: str = ""
    transaction: str | None = None


def _range_of(node: Node, oldest: int, form: type[str | int] = str) -> Result:
    return {
        "latestLedger": node.latest,
        "latestLedgerCloseTime": form(node.close_time(node.latest)),
        "oldestLedger": oldest,
        "oldestLedgerCloseTime": form(node.close_time(oldest)),
    }


def _get_health(node: Node, _: _Params) -> Result:
    window = node.network.chain.window
    return {"status": "healthy", **_range_of(node, node.oldest), "ledgerRetentionWindow": window}


def _get_network(node: Node, _: _Params) -> Result:
    return {"passphrase": node.network.passphrase, "protocolVersion": node.network.protocol_version}


def _get_version_info(node: Node, _: _Params) -> Result:
    return {
        "version": "localnet",
        "commitHash": "0" * 40,
        "buildTimestamp": "2026-11-18T10:00:00",
        "captiveCoreVersion": "localnet",
        "protocolVersion": node.network.protocol_version,
    }


def _get_latest_ledger(node: Node, _: _Params) -> Result:
    return {
        "id": _ledger_hash(node.latest),
        "protocolVersion": node.network.protocol_version,
        "sequence": node.latest,
        "closeTime": str(node.close_time(node.latest)),
        **_PLACEHOLDERS,
    }


def _get_ledgers(node: Node, params: _Params) -> Result:
    """The ledgers from ``startLedger`` on, or after a cursor. The close times of the range are numbers here."""
    start, page = params.start_ledger or 0, params.pagination or _Pagination()
    limit = page.limit or DEFAULT_LEDGERS
    if limit > MAX_LEDGERS:
        raise RpcError(INVALID_REQUEST, f"limit must not exceed {MAX_LEDGERS}")
    if page.cursor:
        if re.fullmatch(r"[0-9]{1,10}", page.cursor, re.ASCII) is None:
            raise RpcError(INVALID_PARAMS, f'strconv.ParseUint: parsing "{page.cursor[:40]}": invalid syntax')
        start = int(page.cursor) + 1
    if not node.oldest <= start <= node.latest:
        between = f"between the oldest ledger: {node.oldest} and the latest ledger: {node.latest}"
        raise RpcError(INVALID_REQUEST, f"start ledger ({start}) must be {between} for this rpc instance")
    end = min(start + limit - 1, node.latest)
    ledgers = [
        {
            "hash": _ledger_hash(ledger),
            "sequence": ledger,
            "ledgerCloseTime": str(node.close_time(ledger)),
            **_PLACEHOLDERS,
        }
        for ledger in range(start, end + 1)
    ]
    return {"ledgers": ledgers, **_range_of(node, node.oldest, int), "cursor": str(end)}


def _ledger_hash(ledger: int) -> str:
    return hashlib.sha256(f"made ledger {ledger}".encode()).hexdigest()


def _get_ledger_entries(node: Node, params: _Params) -> Result:
    """The entries of the keys, in the order of the request. Absent entries are left out."""
    texts = params.keys or []
    form = params.xdr_format or "base64"
    if form not in ("base64", "json"):
        raise RpcError(INVALID_PARAMS, f"got '{form}': expected base64, json for optional 'xdrFormat'")
    if len(texts) > MAX_KEYS_PER_REQUEST:
        raise RpcError(INVALID_PARAMS, f"key count ({len(texts)}) exceeds maximum supported ({MAX_KEYS_PER_REQUEST})")
    keys = [_ledger_key(text, index) for index, text in enumerate(texts)]
    if not keys:
        raise RpcError(INTERNAL_ERROR, "could not query captive core: no keys specified in request")
    if len(set(keys)) != len(keys):
        raise RpcError(INTERNAL_ERROR, SNAPSHOT_NOT_FOUND)
    entries = []
    for key, text in zip(keys, texts, strict=True):
        entry = node.network.chain.entry(key, node.latest)
        if entry is None:
            continue
        answer: Result = {"key": text, "xdr": base64.b64encode(entry.data).decode(), "extXdr": "AAAAAA=="}
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


def _ledger_key(text: str, index: int) -> bytes:
    """Decode a LedgerKey. The SDK checks keys of classic entries, because it knows all of them."""
    from stellar_sdk import xdr

    try:
        key = base64.b64decode(text, validate=True)
        if int.from_bytes(key[:4], "big") not in (CONTRACT_DATA, CONTRACT_CODE, TTL):
            xdr.LedgerKey.from_xdr_bytes(key)
        elif len(key) > _MAX_KEY_BYTES or ledger_key_end(key, 0) != len(key):
            raise ValueError
    except Exception:  # the SDK lets many kinds of errors through
        raise RpcError(INVALID_PARAMS, f"cannot unmarshal key value {text} at index {index}") from None
    if key[:4] == bytes((0, 0, 0, TTL)):
        raise RpcError(INVALID_PARAMS, "ledger ttl entries cannot be queried directly")
    return key


def _get_events(node: Node, params: _Params) -> Result:
    """The events that pass any of the filters, and a cursor to continue from. An empty page has a cursor, too."""
    start, end, page = params.start_ledger or 0, params.end_ledger or 0, params.pagination or _Pagination()
    filters = params.filters or []
    if len(filters) > MAX_FILTERS:
        raise RpcError(INVALID_PARAMS, f"maximum {MAX_FILTERS} filters per request")
    tests = [_test_of(each, index) for index, each in enumerate(filters, start=1)]
    if page.cursor and (start or end):
        raise RpcError(INVALID_PARAMS, "ledger ranges and cursor cannot both be set")
    most = page.limit or DEFAULT_EVENTS
    if most > MAX_EVENTS:
        raise RpcError(INVALID_PARAMS, f"limit must not exceed {MAX_EVENTS}")
    after = ""
    if page.cursor:
        match = _CURSOR.fullmatch(page.cursor)
        if match is None:
            raise RpcError(INVALID_PARAMS, "invalid parameters", f"invalid event id {page.cursor[:40]}")
        start, after = int(match[1]) >> 32, _event_id(int(match[1]), int(match[2]))
    elif not start:
        raise RpcError(INVALID_PARAMS, "startLedger must be positive")
    if not node.oldest <= start <= node.latest:
        raise RpcError(INVALID_REQUEST, f"startLedger must be within the ledger range: {node.oldest} - {node.latest}")
    last = min(node.latest, start + MAX_LEDGERS_SCANNED - 1, *([end - 1] if end else []))
    events = [
        _event(node, index, event)
        for ledger in range(start, last + 1)
        for index, event in enumerate(node.network.chain.events(ledger), start=1)
        if not tests or any(test(event) for test in tests)
    ]
    events = [event for event in events if event["id"] > after][:most]
    return {
        "events": events,
        "cursor": events[-1]["id"] if len(events) == most else _event_id(last << 32 | 0xFFFFFFFF, 0xFFFFFFFF),
        **_range_of(node, node.oldest),
    }


def _event_id(operation: int, event: int) -> str:
    """The id of an event. The operation's number has its ledger, transaction and index, so that ids sort as texts."""
    return f"{operation:019d}-{event:010d}"


def _event(node: Node, transaction: int, event: ContractEvent) -> Result:
    identity = _event_id(event.ledger << 32 | transaction << 12, 0)
    return {
        "type": "contract",
        "ledger": event.ledger,
        "ledgerClosedAt": f"{datetime.fromtimestamp(node.close_time(event.ledger), UTC):%Y-%m-%dT%H:%M:%SZ}",
        "contractId": event.contract,
        "id": identity,
        "operationIndex": 0,
        "transactionIndex": transaction,
        "txHash": hashlib.sha256(f"made transaction {identity}".encode()).hexdigest(),
        "topic": [base64.b64encode(encode_scval(topic)).decode() for topic in event.topics],
        "value": base64.b64encode(encode_scval(event.value)).decode(),
    }


def _test_of(event_filter: _Filter, index: int) -> Callable[[ContractEvent], bool]:
    """A function that tells whether an event passes a filter. Raises `RpcError` for an invalid filter."""
    contracts, topics = event_filter.contract_ids or [], event_filter.topics or []
    for what, count in (("contract IDs", len(contracts)), ("topics", len(topics))):
        if count > MAX_FILTERS:
            raise RpcError(INVALID_PARAMS, f"filter {index} invalid: maximum {MAX_FILTERS} {what} per filter")
    patterns = [_pattern(topic, index, number) for number, topic in enumerate(topics, start=1)]

    def passes(event: ContractEvent) -> bool:
        return (
            event_filter.type != "system"
            and (not contracts or event.contract in contracts)
            and (not patterns or any(_matches(pattern, event.topics) for pattern in patterns))
        )

    return passes


def _pattern(topic: list[str], index: int, number: int) -> list[ScVal | str]:
    try:
        if not topic or "**" in topic[:-1] or len([segment for segment in topic if segment != "**"]) > MAX_TOPICS:
            raise ValueError
        return [
            segment if segment in ("*", "**") else decode_scval(base64.b64decode(segment, validate=True))
            for segment in topic
        ]
    except (binascii.Error, DecodeError, ValueError):
        raise RpcError(INVALID_PARAMS, f"filter {index} invalid: topic {number} invalid") from None


def _matches(pattern: list[ScVal | str], topics: tuple[ScVal, ...]) -> bool:
    if pattern[-1] == "**":
        pattern = pattern[:-1]
        topics = topics[: len(pattern)]
    return len(pattern) == len(topics) and all(
        segment in ("*", topic) for segment, topic in zip(pattern, topics, strict=True)
    )


def _simulate_transaction(node: Node, params: _Params) -> Result:
    call = _call_of(params.transaction)
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


def _call_of(text: str | None) -> ContractCall | None:
    from stellar_sdk import xdr

    try:
        envelope: Any = xdr.TransactionEnvelope.from_xdr(text or "")
        (operation,) = envelope.v1.tx.operations
        called = operation.body.invoke_host_function_op.host_function.invoke_contract
        return ContractCall(
            contract=strkey.encode_contract(called.contract_address.to_xdr_bytes()[4:]),
            function=called.function_name.sc_symbol.decode("ascii"),
            arguments=tuple(decode_scval(argument.to_xdr_bytes()) for argument in called.args),
        )
    except Exception:  # the SDK lets many kinds of errors through
        return None


def _get_fee_stats(node: Node, _: _Params) -> Result:
    amounts = ("max", "min", "mode", *(f"p{percent}" for percent in (10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)))
    none = dict.fromkeys((*amounts, "transactionCount"), "0") | {"ledgerCount": 0}
    return {"sorobanInclusionFee": none, "inclusionFee": none, "latestLedger": node.latest}


def _get_transaction(node: Node, params: _Params) -> Result:
    return {
        **_range_of(node, node.oldest),
        "status": "NOT_FOUND",
        "txHash": params.hash,
        "applicationOrder": 0,
        "feeBump": False,
        "events": {},
        "ledger": 0,
        "createdAt": "0",
    }


def _get_transactions(node: Node, _: _Params) -> Result:
    return {
        "transactions": [],
        "latestLedger": node.latest,
        "latestLedgerCloseTimestamp": node.close_time(node.latest),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTimestamp": node.close_time(node.oldest),
        "cursor": str(node.latest << 32 | 1),
    }


_METHODS: Final[dict[str, Callable[[Node, _Params], Result]]] = {
    "getHealth": _get_health,
    "getNetwork": _get_network,
    "getVersionInfo": _get_version_info,
    "getLatestLedger": _get_latest_ledger,
    "getFeeStats": _get_fee_stats,
    "getLedgers": _get_ledgers,
    "getLedgerEntries": _get_ledger_entries,
    "getEvents": _get_events,
    "getTransaction": _get_transaction,
    "getTransactions": _get_transactions,
    "simulateTransaction": _simulate_transaction,
}
_WITHOUT_PARAMETERS: Final = {"getHealth", "getNetwork", "getVersionInfo", "getLatestLedger", "getFeeStats"}


def answer_of(node: Node, method: str, params: Any) -> Result:
    """The result of a method. Raises `RpcError` for anything that a real server refuses."""
    if method not in _METHODS:
        raise RpcError(METHOD_NOT_FOUND, "method not found", method)
    if method in _WITHOUT_PARAMETERS and params is not None:
        raise RpcError(INVALID_PARAMS, "no parameters accepted")
    try:
        converted = msgspec.convert({} if params is None else params, _Params)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, "invalid parameters", f"json: cannot unmarshal: {error}") from None
    return _METHODS[method](node, converted)
