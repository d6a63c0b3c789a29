"""The bytes of requests to an RPC and of its answers: JSON-RPC 2.0 with strictly decoded results, and their XDR.

An answer that contradicts itself, or that is not exactly as Stellar RPC gives it (docs/rpc.md), is unusable: it raises
`AttemptError` and never becomes data. Fields that are not read here are skipped, because they differ between versions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Generic, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey, xdr_walk
from exporter.ledger.codec.entries import seen_at
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import encode_address, encode_opaque, encode_scval, symbol
from exporter.ledger.events import MAX_EVENTS_PER_PAGE, ContractEvent, EventFilter, EventsPage
from exporter.ledger.rpc.endpoints import TOO_MANY_REQUESTS, UNSTATED_WAIT_S, UNUSABLE, AttemptError, Failure
from exporter.ledger.source import LATEST_CLOSE_TIME, ContractCall, RawEntry

Ledger: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1)]
LiveUntil: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
T = TypeVar("T")

_CURSOR: Final = re.compile(r"([0-9]{1,19})-[0-9]{1,10}", re.ASCII)
_RANGE: Final = re.compile(r"ledger range: (\d{1,10}) - (\d{1,10})\b")
OUT_OF_RANGE: Final = -32600
"""The code by which getEvents and getLedgers say that a ledger is not kept. For other methods: an invalid request."""
_REFUSALS: Final = frozenset({OUT_OF_RANGE, -32601, -32602})
"""The codes that refuse the request, the method or its parameters, so that asking again does not help."""
_DIGITS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_KEYS: Final = re.compile(r"\bkeys?\b", re.IGNORECASE)
_TOO_MANY: Final = re.compile(r"exceed|maximum|\bmax\b|limit|at most|too many|more than", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?<![\w.-])[0-9]{1,4}(?![\w-]|\.[0-9])", re.ASCII)
_SEARCHED_LENGTH: Final = 1_000
"""The number of characters of an error's message in which a limit is searched."""


class RpcError(Struct):
    """The error member of a JSON-RPC answer."""

    code: Annotated[int, Meta(ge=-(2**53), le=2**53)]
    message: str


class Reply(Struct, Generic[T]):
    """A JSON-RPC answer. Exactly one of ``result`` and ``error`` is there."""

    id: int | str | None = None
    result: T | None = None
    error: RpcError | None = None


class NetworkResult(Struct, rename="camel"):
    """The result of getNetwork. ``protocol_version`` is ignored if it is not a number."""

    passphrase: Annotated[str, Meta(min_length=1)]
    protocol_version: Any = None


class LedgerInfo(Struct, rename="camel"):
    """One ledger of getLedgers. Its close time is a number or a string of digits, by the RPC's version."""

    sequence: Ledger
    ledger_close_time: int | str


class LedgersResult(Struct):
    """The result of getLedgers."""

    ledgers: Annotated[list[LedgerInfo], Meta(min_length=1)]


class EntryInfo(Struct, rename="camel"):
    """One entry of getLedgerEntries. Bytes are base64 in JSON."""

    key: bytes
    xdr: bytes
    last_modified_ledger_seq: Ledger
    live_until_ledger_seq: LiveUntil | None = None


class EntriesResult(Struct, rename="camel"):
    """The result of getLedgerEntries. ``entries`` is null for none, because Go writes a list without elements so."""

    latest_ledger: Ledger
    entries: list[EntryInfo] | None


class CallResult(Struct):
    """The returned value of a simulated call."""

    xdr: bytes


class SimulationResult(Struct, rename="camel"):
    """The result of simulateTransaction: an ``error``, or one element of ``results`` and the transaction data."""

    latest_ledger: Ledger
    error: str | None = None
    results: list[CallResult] | None = None
    transaction_data: bytes | None = None


class EventInfo(Struct, rename="camel"):
    """One event of getEvents, in the base64 format. Older RPCs also give events of calls that failed."""

    ledger: Ledger
    contract_id: str
    topic: list[str] | None
    value: str
    in_successful_contract_call: bool = True
    ledger_closed_at: Annotated[datetime, Meta(tz=True)] | None = None


class EventsResult(Struct, rename="camel"):
    """The result of getEvents. ``cursor`` is that of the last event, or the end of the searched ledgers."""

    latest_ledger: Ledger
    cursor: Annotated[str, Meta(max_length=40)]
    events: list[EventInfo] | None
    latest_ledger_close_time: Any = None


NETWORK: Final = msgspec.json.Decoder(Reply[NetworkResult])
LEDGERS: Final = msgspec.json.Decoder(Reply[LedgersResult])
ENTRIES: Final = msgspec.json.Decoder(Reply[EntriesResult])
SIMULATION: Final = msgspec.json.Decoder(Reply[SimulationResult])
SIMULATIONS: Final = msgspec.json.Decoder(list[Reply[SimulationResult]] | Reply[SimulationResult])
EVENTS: Final = msgspec.json.Decoder(Reply[EventsResult])


def encode_request(request_id: int, method: str, params: Mapping[str, object] | None) -> bytes:
    """The body of one JSON-RPC request."""
    return msgspec.json.encode(_request(request_id, method, params))


def _request(request_id: int | str, method: str, params: Mapping[str, object] | None) -> dict[str, object]:
    """A JSON-RPC request. Its parameters have names, because the RPC refuses them by position."""
    request: dict[str, object] = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return request if params is None else request | {"params": params}


def decode_reply(body: bytes, decoder: msgspec.json.Decoder[Reply[T]], request_id: int) -> T:
    """The result in an answer's body. Raises `AttemptError` for an RPC's error, and for an unusable answer."""
    reply = _decoded(body, decoder)
    # An endpoint that could not even read the request does not know its id.
    if reply.id != request_id and not (reply.id is None and reply.error is not None):
        unusable("the answer is to another request (its id is not ours)")
    return result_of(reply)


def result_of(reply: Reply[T]) -> T:
    """The result in a reply. Raises `AttemptError` for an RPC's error, and for a reply with neither or both."""
    if reply.result is not None and reply.error is None:
        return reply.result
    if reply.error is None or reply.result is not None:
        unusable("the answer must have a result or an error")
    code, lasting = reply.error.code, reply.error.code in _REFUSALS
    wait = UNSTATED_WAIT_S if code == TOO_MANY_REQUESTS else None
    text = f"error {code}: {reply.error.message}"
    most_keys = most_keys_in(reply.error.message)
    raise AttemptError(
        Failure(f"rpc {code}", text, code, lasting, blame=not lasting, retry_after_s=wait, most_keys=most_keys)
    )


def encode_batch(ids: Sequence[str], method: str, params: Sequence[Mapping[str, object]]) -> bytes:
    """The body of several requests of one method, as a JSON-RPC batch."""
    return msgspec.json.encode([_request(own_id, method, own) for own_id, own in zip(ids, params, strict=True)])


def decode_batch(
    body: bytes, decoder: msgspec.json.Decoder[list[Reply[T]] | Reply[T]], ids: Sequence[str]
) -> list[Reply[T]]:
    """The replies in the answer to a batch, in the order of ``ids``. The answer may have them in any order.

    Raises `AttemptError` for an error in place of the batch, and for an answer without exactly one reply to each id.
    """
    answer = _decoded(body, decoder)
    if isinstance(answer, Reply):
        result_of(answer)
        unusable("the answer to a batch is a single result")
    replies = {reply.id: reply for reply in answer}
    if len(answer) != len(ids) or replies.keys() != set(ids):
        unusable("the answer to a batch must have one reply to each of its requests")
    return [replies[request_id] for request_id in ids]


def _decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The content of an answer's body. Raises `AttemptError`."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, other fields or types
        problem = f"the answer is not as documented: {error}"
    return unusable(problem)  # outside of the except block, so that no foreign exception is the context of ours


def most_keys_in(message: str) -> int | None:
    """How many keys an endpoint takes in a request, by an error's message that there were too many: at least 1.

    stellar-rpc says "key count (200) exceeds maximum supported (100)". Gateways in front of it have their own words, so
    of a message about too many keys the smallest number counts. None for any other message.
    """
    text = message[:_SEARCHED_LENGTH]
    if not (_KEYS.search(text) and _TOO_MANY.search(text)):
        return None
    return min((number for number in map(int, _NUMBER.findall(text)) if number), default=None)


def unusable(problem: str) -> NoReturn:
    """Refuse an answer."""
    raise AttemptError(Failure(UNUSABLE, problem))


def close_time_of(result: LedgersResult, ledger: int) -> int:
    """The close time of ``ledger`` in unix seconds, from an answer that must begin with this ledger."""
    info = result.ledgers[0]
    if info.sequence != ledger:
        unusable(f"ledger {ledger} was asked for and ledger {info.sequence} was given")
    time = _unix_seconds(info.ledger_close_time)
    if time is None:
        unusable(f"the close time of ledger {ledger} is not in unix seconds from 1970 to the year 9998")
    return time


def stated_close_time(result: EventsResult, ledger: int) -> int:
    """The close time of ``ledger`` in unix seconds, if an answer also has it; otherwise 0."""
    if result.latest_ledger == ledger and (time := _unix_seconds(result.latest_ledger_close_time)) is not None:
        return time
    for event in result.events or ():
        if event.ledger == ledger and event.ledger_closed_at is not None:
            return _unix_seconds(int(event.ledger_closed_at.timestamp())) or 0
    return 0


def _unix_seconds(close_time: Any) -> int | None:
    """A close time that a server wrote as a number or as digits, in unix seconds.

    None for anything else, and for a time beyond the year 9998.
    """
    if isinstance(close_time, str):
        close_time = int(close_time) if _DIGITS.fullmatch(close_time) else 0
    return close_time if type(close_time) is int and 1 <= close_time <= LATEST_CLOSE_TIME else None


def entries_of(result: EntriesResult, asked: Collection[bytes]) -> dict[bytes, RawEntry]:
    """The entries in an answer, by LedgerKey XDR. An answer with entries that were not asked for is unusable."""
    entries: dict[bytes, RawEntry] = {}
    for info in result.entries or ():
        if info.key not in asked:
            unusable("an entry's key was not asked for")
        if info.key in entries:
            unusable("an entry is given twice")
        if info.last_modified_ledger_seq > result.latest_ledger:
            unusable("an entry was changed after the ledger that the answer is of")
        if not info.xdr or len(info.xdr) % 4:
            unusable("an entry is not XDR")
        entry = RawEntry(info.xdr, info.last_modified_ledger_seq, info.live_until_ledger_seq)
        # A server that knows when an archived entry expired may say so in place of 0.
        seen = seen_at(info.key, entry, result.latest_ledger)
        if seen is not None:
            entries[info.key] = seen
    return entries


def call_parts(result: SimulationResult) -> tuple[bytes, tuple[bytes, ...]]:
    """The ScVal XDR that a simulation without error returned, and the LedgerKey XDR of every entry that it read."""
    if result.results is None or len(result.results) != 1 or not result.transaction_data:
        unusable("a simulation must give one result and its transaction data, or an error")
    value = result.results[0].xdr
    if not value or len(value) % 4:
        unusable("the result of a call is not XDR")
    try:
        return value, sum(footprint_parts(result.transaction_data), ())
    except DecodeError as error:
        problem = f"the footprint of a call cannot be read: {error}"
    return unusable(problem)


def events_params(filters: Sequence[EventFilter], start: int | str) -> dict[str, object]:
    """The parameters of ``getEvents``. ``start`` is a ledger, or the cursor of the page before."""
    asked = [
        {
            "type": "contract",
            "contractIds": list(each.contracts),
            "topics": [[*map(encode_scval, map(symbol, each.topics)), "**"]],
        }
        for each in filters
    ]
    pagination: dict[str, object] = {"limit": MAX_EVENTS_PER_PAGE}
    if isinstance(start, str):
        return {"filters": asked, "pagination": pagination | {"cursor": start}}
    return {"startLedger": start, "filters": asked, "pagination": pagination}


def range_in(answer: str) -> tuple[int, int] | None:
    """The oldest and the latest ledger that the RPC keeps, by an error's message. None if it names no range."""
    match = _RANGE.search(answer)
    oldest, latest = (int(match[1]), int(match[2])) if match else (0, 0)
    return (oldest, latest) if 1 <= oldest <= latest < 2**32 else None


def events_page(result: EventsResult, start: int | str) -> EventsPage:
    """The page of a ``getEvents`` result that starts at ``start``, a ledger or a cursor.

    An event that cannot be decoded is counted. A bad cursor makes the answer unusable.
    """
    at = _CURSOR.fullmatch(result.cursor)
    if at is None:
        unusable("the cursor of a page of events is not one")
    ledger = int(at[1]) >> 32
    events: list[ContractEvent] = []
    infos = result.events or []
    undecodable = 0
    for info in infos:
        if info.ledger > result.latest_ledger:
            unusable("an event is of a ledger after the one that the answer is of")
        if info.in_successful_contract_call:
            try:
                strkey.decode_contract(info.contract_id)
                topics = info.topic or []
                values = [decode_scval(msgspec.convert(text, bytes)) for text in (*topics, info.value)]
                events.append(ContractEvent(info.contract_id, info.ledger, tuple(values[:-1]), values[-1]))
            except (DecodeError, msgspec.ValidationError):
                undecodable += 1
    full = len(infos) >= MAX_EVENTS_PER_PAGE  # there may be more of the last event's ledger
    through = min(ledger - 1 if full else ledger, result.latest_ledger)
    if full or through < result.latest_ledger:
        cursor = result.cursor
        if cursor == start or (isinstance(start, int) and ledger < start):
            unusable("the cursor of a page of events does not go on")
    else:
        cursor = None
    return EventsPage(tuple(events), max(through, 0), cursor, result.latest_ledger, undecodable)


# One InvokeHostFunction operation, no memo, no signature and any source account: the host checks neither that the
# account exists nor its sequence.
_BEFORE_CALL = struct.pack(
    ">II32sIqIIIIII",
    2,  # envelope type: transaction
    0,  # source account: ed25519 ...
    bytes(32),  # ... the all-zero key GAAAA...WHF, which nobody can hold
    100,  # fee in stroops; never charged
    0,  # sequence number
    0,  # preconditions: none
    0,  # memo: none
    1,  # one operation
    0,  # with the transaction's source
    24,  # invoke host function
    0,  # invoke contract
)
_AFTER_CALL = struct.pack(">III", 0, 0, 0)  # no authorization, no transaction extension, no signature


def invocation_envelope(call: ContractCall) -> bytes:
    """The TransactionEnvelope XDR that asks for one call of a contract function."""
    arguments = struct.pack(">I", len(call.arguments)) + b"".join(encode_scval(value) for value in call.arguments)
    return (
        _BEFORE_CALL
        + encode_address(call.contract)
        + encode_opaque(call.function.encode("ascii"))
        + arguments
        + _AFTER_CALL
    )


_data_extension = xdr_walk.union("extension of transaction data", {0: 0, 1: xdr_walk.array(4)})
"""A walk over the extension of transaction data: the indexes of archived entries that the call would restore."""


def footprint_parts(transaction_data: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The LedgerKey XDR of the entries that a SorobanTransactionData reads, and of those that it writes.

    Raises `DecodeError`.
    """
    parts: list[tuple[bytes, ...]] = []
    try:
        position = _data_extension(transaction_data, 0)
        for _ in ("read only", "read write"):
            (count,) = xdr_walk.word(transaction_data, position)
            position += 4
            keys = []
            for _ in range(count):
                end = xdr_walk.ledger_key(transaction_data, position)
                keys.append(transaction_data[position:end])
                position = end
            parts.append(tuple(keys))
    except struct.error:
        raise DecodeError("the bytes end inside the transaction data") from None
    if len(transaction_data) - position != 4 + 4 + 4 + 8:  # instructions, read bytes, write bytes, resource fee
        raise DecodeError("transaction data of an unknown layout")
    return parts[0], parts[1]
