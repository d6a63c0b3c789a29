"""ScVal, the value type of Soroban contracts, as plain Python values, and its XDR form in both directions.

An ScVal is a pair ``(kind, payload)``: lossless, hashable, and it encodes back to the same bytes, so that a
hash over it is a hash over what the ledger holds. The kinds and their payloads:

| kind | payload |
|---|---|
| BOOL | bool |
| VOID, LEDGER_KEY_CONTRACT_INSTANCE | None |
| ERROR | (type, code), two integers |
| U32, I32, U64, I64, TIMEPOINT, DURATION, U128, I128, U256, I256, LEDGER_KEY_NONCE | int |
| BYTES, STRING, EXECUTABLE_TAG | bytes (a contract's string may hold any bytes) |
| SYMBOL | str of at most 32 characters of ``a-zA-Z0-9_`` |
| VEC | tuple of ScVals, or None (an absent vector is not an empty one) |
| MAP | tuple of (key, value) pairs of ScVals in the order of the ledger, or None |
| ADDRESS | strkey (G, C, M, B, L, W) |
| CONTRACT_INSTANCE | `ContractInstance` |

Decoding is strict (truncated, trailing or non-canonical bytes are errors) and bounded in depth. An unknown
union arm raises `DecodeError`, so it costs the one entry it is in and no other.
Source of the layout: Stellar-contract.x of stellar-xdr, protocol 30.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey

ScVal: TypeAlias = tuple[int, Any]

BOOL, VOID, ERROR = range(3)
U32, I32, U64, I64, TIMEPOINT, DURATION = range(3, 9)
U128, I128, U256, I256 = range(9, 13)
BYTES, STRING, SYMBOL = range(13, 16)
VEC, MAP = range(16, 18)
ADDRESS, CONTRACT_INSTANCE, LEDGER_KEY_CONTRACT_INSTANCE, LEDGER_KEY_NONCE, EXECUTABLE_TAG = range(18, 23)

KIND_NAMES: Final = (
    *("bool", "void", "error", "u32", "i32", "u64", "i64", "timepoint", "duration", "u128", "i128", "u256", "i256"),
    *("bytes", "string", "symbol", "vec", "map", "address", "contract instance"),
    *("ledger key contract instance", "ledger key nonce", "executable tag"),
)

MAX_DEPTH = 100
"""Nesting beyond this is refused; the contract host itself allows no more."""

_SYMBOL = re.compile(r"[a-zA-Z0-9_]{0,32}", re.ASCII)
_ERROR_TYPES = 10
_ERROR_CODES = 10

WASM: Final = 0
STELLAR_ASSET: Final = 1
EXTERNAL_REF: Final = 2


class ContractInstance(NamedTuple):
    """The instance of a contract.

    ``executable`` is WASM, STELLAR_ASSET or EXTERNAL_REF. ``external`` is (owner strkey, tag bytes) for EXTERNAL_REF
    only, where another contract's entry decides which code runs. ``wasm_hash`` is in the entry itself for WASM only.
    ``storage`` holds the (key, value) pairs of the instance storage, or None.
    """

    executable: int
    wasm_hash: bytes | None
    external: tuple[str, bytes] | None
    storage: tuple[tuple[ScVal, ScVal], ...] | None


_UNSIGNED: Final = {U32: 4, U64: 8, TIMEPOINT: 8, DURATION: 8, U128: 16, U256: 32}
_SIGNED: Final = {I32: 4, I64: 8, LEDGER_KEY_NONCE: 8, I128: 16, I256: 32}
NUMBERS: Final = {
    **{kind: (size, False) for kind, size in _UNSIGNED.items()},
    **{kind: (size, True) for kind, size in _SIGNED.items()},
}
"""For each kind of number: its size in bytes, and whether it has a sign."""
OPAQUES: Final = (BYTES, STRING, EXECUTABLE_TAG)

_u32 = struct.Struct(">I").unpack_from

_MUXED: Final = 40
_ADDRESSES: Final = {
    0: (strkey.ACCOUNT, 4, 32),
    1: (strkey.CONTRACT, 0, 32),
    2: (strkey.MUXED_ACCOUNT, 0, _MUXED),
    3: (strkey.CLAIMABLE_BALANCE, 4, 32),
    4: (strkey.LIQUIDITY_POOL, 0, 32),
    5: (strkey.MUXED_CONTRACT, 0, _MUXED),
}
"""For each arm of the union: the strkey's version, the bytes of an inner kind (always 0), and the bytes of the rest."""


def is_symbol(text: str) -> bool:
    """Whether a text can be a symbol: at most 32 characters of ``a-zA-Z0-9_``."""
    return _SYMBOL.fullmatch(text) is not None


def decode_scval(data: bytes) -> ScVal:
    """Decode the XDR of exactly one ScVal. Raises `DecodeError` on anything else."""
    try:
        value, end = read_value(data, 0)
    except struct.error:
        raise DecodeError("the bytes end inside a value") from None
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow the value")
    return value


def read_value(data: bytes, position: int, depth: int = 0) -> tuple[ScVal, int]:
    """The ScVal at ``position``, and the position after it. Raises `struct.error` if the bytes end too early."""
    kind: int
    (kind,) = _u32(data, position)
    position += 4
    payload: Any = None
    if kind in NUMBERS:
        size, signed = NUMBERS[kind]
        payload = int.from_bytes(_fixed(data, position, size), "big", signed=signed)
        position += size
    elif kind == SYMBOL:
        content, position = read_opaque(data, position)
        payload = _symbol(content)
    elif kind in OPAQUES:
        payload, position = read_opaque(data, position)
    elif kind == ADDRESS:
        payload, position = read_address(data, position)
    elif kind == VEC:
        payload, position = _read_items(data, position, depth)
    elif kind == MAP:
        payload, position = _read_pairs(data, position, depth)
    elif kind == CONTRACT_INSTANCE:
        payload, position = _read_instance(data, position, depth)
    elif kind == BOOL:
        (flag,) = _u32(data, position)
        if flag > 1:
            raise DecodeError(f"{flag} is not a bool")
        payload = bool(flag)
        position += 4
    elif kind == ERROR:
        error_type, code = struct.unpack_from(">II", data, position)
        if error_type >= _ERROR_TYPES:
            raise DecodeError(f"unknown type of error: {error_type}")
        if error_type != 0 and code >= _ERROR_CODES:  # a contract's own errors (type 0) may have any code
            raise DecodeError(f"unknown code of error: {code}")
        payload = (error_type, code)
        position += 8
    elif kind not in (VOID, LEDGER_KEY_CONTRACT_INSTANCE):
        raise DecodeError(f"unknown kind of value: {kind}")
    return (kind, payload), position


def _fixed(data: bytes, position: int, size: int) -> bytes:
    content = data[position : position + size]
    if len(content) != size:
        raise DecodeError("the bytes end inside a value")
    return content


def read_opaque(data: bytes, position: int) -> tuple[bytes, int]:
    """Variable-length opaque bytes: a length, the bytes, and zeros up to a multiple of four."""
    (length,) = _u32(data, position)
    start = position + 4
    end = start + length
    padded = start + ((length + 3) & ~3)
    if padded > len(data):
        raise DecodeError("the bytes end inside a value")
    if padded != end and any(data[end:padded]):
        raise DecodeError("the padding of a value is not zero")
    return data[start:end], padded


@lru_cache(maxsize=1 << 14)
def _symbol(content: bytes) -> str:
    """A symbol. Contracts use few different ones, so each is checked once and remembered."""
    text = content.decode("ascii", "replace")
    if not is_symbol(text):
        raise DecodeError(f"{content[:40]!r} is not a symbol")
    return text


def _read_items(data: bytes, position: int, depth: int, size: int = 1) -> tuple[tuple[ScVal, ...] | None, int]:
    """The values of an optional vector, or of a map with a ``size`` of 2: keys and values in turn."""
    (present,) = _u32(data, position)
    if present > 1:
        raise DecodeError(f"{present} is not the flag of an optional value")
    if not present:
        return None, position + 4
    count: int
    (count,) = _u32(data, position + 4)
    position += 8
    if count * size * 4 > len(data) - position:
        raise DecodeError(f"the bytes cannot hold the {count} values they announce")
    if depth >= MAX_DEPTH:
        raise DecodeError(f"values nest deeper than {MAX_DEPTH}")
    items = []
    for _ in range(count * size):
        item, position = read_value(data, position, depth + 1)
        items.append(item)
    return tuple(items), position


def _read_pairs(data: bytes, position: int, depth: int) -> tuple[tuple[tuple[ScVal, ScVal], ...] | None, int]:
    items, position = _read_items(data, position, depth, 2)
    return None if items is None else tuple(zip(items[::2], items[1::2], strict=True)), position


def read_address(data: bytes, position: int) -> tuple[str, int]:
    """An SCAddress, as its strkey."""
    (arm,) = _u32(data, position)
    if arm not in _ADDRESSES:
        raise DecodeError(f"unknown kind of address: {arm}")
    version, kind_size, size = _ADDRESSES[arm]
    if kind_size and _u32(data, position + 4)[0] != 0:
        raise DecodeError(f"an address of arm {arm} is of an unknown kind")
    start = position + 4 + kind_size
    body = _fixed(data, start, size)
    if size == _MUXED:  # XDR has the id before the key, the strkey has it behind
        body = body[8:] + body[:8]
    elif version == strkey.CLAIMABLE_BALANCE:
        body = b"\0" + body
    return strkey.encode(version, body), start + size


def _read_instance(data: bytes, position: int, depth: int) -> tuple[ContractInstance, int]:
    (executable,) = _u32(data, position)
    position += 4
    wasm_hash: bytes | None = None
    external: tuple[str, bytes] | None = None
    if executable == WASM:
        wasm_hash = _fixed(data, position, 32)
        position += 32
    elif executable == EXTERNAL_REF:
        owner, position = read_address(data, position)
        tag, position = read_opaque(data, position)
        external = (owner, tag)
    elif executable != STELLAR_ASSET:
        raise DecodeError(f"unknown kind of executable: {executable}")
    storage, position = _read_pairs(data, position, depth)
    return ContractInstance(executable, wasm_hash, external, storage), position
