"""The methods of Stellar RPC but two, as the embedded server answers them for one ledger of one node.

Fields, limits and the texts of errors are those of docs/rpc.md. Not served: methods about
transactions and fees, which give -32601. The ``headerXdr`` and ``metadataXdr`` of ledgers are placeholders (the base64
of a few words), as a made chain has neither; a ledger's hash is the SHA-256 of its number. ``getHealth`` is healthy
whatever the wall clock says; plan a `Failure` for another answer.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger.codec.entries import CONTRACT_CODE, CONTRACT_DATA, TTL, decode_data_key
from exporter.ledger.codec.xdr_json import entry_data_to_json, ledger_key_to_json
from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.localnet.behaviour import SNAPSHOT_NOT_FOUND
from exporter.localnet.network import LocalNetwork

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MAX_LEDGERS = 200
DEFAULT_LEDGERS = 50
_MAX_KEY_BYTES = 16 * 1024
_HEADER = base64.b64encode(b"made ledger header").decode()
_METADATA = base64.b64encode(b"made ledger metadata").decode()
_NO_EXTENSION = "AAAAAA=="

Params = dict[str, Any]


class RpcError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


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
        """When a ledger closed."""
        return self.network.chain.close_time(ledger)


def get_health(node: Node, _params: Params) -> Params:
    """``getHealth``; close times are strings."""
    return {
        "status": "healthy",
        "latestLedger": node.latest,
        "latestLedgerCloseTime": str(node.close_time(node.latest)),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTime": str(node.close_time(node.oldest)),
        "ledgerRetentionWindow": node.network.chain.window,
    }


def get_network(node: Node, _params: Params) -> Params:
    """``getNetwork``."""
    return {"passphrase": node.network.passphrase, "protocolVersion": node.network.protocol_version}


def get_version_info(node: Node, _params: Params) -> Params:
    """``getVersionInfo``."""
    return {
        "version": "localnet",
        "commitHash": "0" * 40,
        "buildTimestamp": "2026-11-18T10:00:00",
        "captiveCoreVersion": "localnet",
        "protocolVersion": node.network.protocol_version,
    }


def get_latest_ledger(node: Node, _params: Params) -> Params:
    """``getLatestLedger``."""
    return {
        "id": _ledger_hash(node.latest),
        "protocolVersion": node.network.protocol_version,
        "sequence": node.latest,
        "closeTime": str(node.close_time(node.latest)),
        "headerXdr": _HEADER,
        "metadataXdr": _METADATA,
    }


def get_ledgers(node: Node, params: Params) -> Params:
    """``getLedgers``: from ``startLedger``, or from after a cursor; the range's own close times are numbers."""
    start = unsigned(params, "startLedger")
    pagination = object_of(params, "pagination")
    cursor = pagination.get("cursor") or ""
    limit = unsigned(pagination, "limit") or DEFAULT_LEDGERS
    between = f"must be between the oldest ledger: {node.oldest} and the latest ledger: {node.latest}"
    if cursor and start:
        raise RpcError(INVALID_REQUEST, "startLedger and cursor cannot both be set")
    if limit > MAX_LEDGERS:
        raise RpcError(INVALID_REQUEST, f"limit must not exceed {MAX_LEDGERS}")
    as_json = is_json(params, INVALID_REQUEST)
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
        "ledgers": [_ledger(node, ledger, as_json) for ledger in range(start, end + 1)],
        "latestLedger": node.latest,
        "latestLedgerCloseTime": node.close_time(node.latest),
        "oldestLedger": node.oldest,
        "oldestLedgerCloseTime": node.close_time(node.oldest),
        "cursor": str(end),
    }


def get_ledger_entries(node: Node, params: Params) -> Params:
    """``getLedgerEntries``: what is absent is left out, the order is that of the request."""
    as_json = is_json(params, INVALID_PARAMS)
    texts = params.get("keys") or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RpcError(INVALID_PARAMS, "invalid parameters")
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
        answer: Params = {"lastModifiedLedgerSeq": entry.last_modified}
        if entry.live_until is not None:
            answer["liveUntilLedgerSeq"] = entry.live_until
        if as_json:
            answer |= {"keyJson": ledger_key_to_json(key), "dataJson": entry_data_to_json(entry.data), "extJson": "v0"}
        else:
            answer |= {"key": text, "xdr": base64.b64encode(entry.data).decode(), "extXdr": _NO_EXTENSION}
        entries.append(answer)
    return {"entries": entries, "latestLedger": node.latest}


def xdr_format(params: Params) -> bool:
    """Whether JSON is asked for. Raises ValueError with the server's text for an unknown format."""
    chosen = params.get("xdrFormat") or "base64"
    if chosen not in ("base64", "json"):
        raise ValueError(f"got '{str(chosen)[:40]}': expected base64, json for optional 'xdrFormat'")
    return bool(chosen == "json")


def is_json(params: Params, code: int) -> bool:
    """Whether JSON is asked for; an unknown format is an error of this code."""
    try:
        return xdr_format(params)
    except ValueError as error:
        raise RpcError(code, str(error)) from None


def unsigned(params: Params, name: str) -> int:
    """An optional whole number; 0 where it is left out, as in the server's own language."""
    value = params.get(name)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < 2**32:
        raise RpcError(INVALID_PARAMS, "invalid parameters")
    return value


def object_of(params: Params, name: str) -> Params:
    """An optional object; an empty one where it is left out."""
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, "invalid parameters")
    return value


def _ledger(node: Node, ledger: int, as_json: bool) -> Params:
    answer: Params = {
        "hash": _ledger_hash(ledger),
        "sequence": ledger,
        "ledgerCloseTime": str(node.close_time(ledger)),
    }
    if as_json:
        return answer | {"headerJson": {}, "metadataJson": {}}
    return answer | {"headerXdr": _HEADER, "metadataXdr": _METADATA}


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
    if kind == CONTRACT_DATA:
        decode_data_key(key)
    elif kind in (CONTRACT_CODE, TTL):
        if len(key) != 36:
            raise DecodeError("the key has not the length of its kind")
    else:
        from stellar_sdk import xdr

        try:
            xdr.LedgerKey.from_xdr_bytes(key)
        except Exception as error:  # the SDK lets many kinds of errors through
            raise DecodeError(str(error)) from None


Method = Callable[[Node, Params], Params]
