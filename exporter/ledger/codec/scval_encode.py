"""Encoding ScVals to XDR, the reverse of `exporter.ledger.codec.scval`, and short constructors of the usual kinds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.scval import ScVal

T = TypeVar("T")

_ADDRESS_ARMS = {
    strkey.ACCOUNT: b"\0\0\0\0\0\0\0\0",
    strkey.CONTRACT: b"\0\0\0\1",
    strkey.CLAIMABLE_BALANCE: b"\0\0\0\3\0\0\0",  # the strkey's own type byte completes the union's
    strkey.LIQUIDITY_POOL: b"\0\0\0\4",
}
_MUXED_ARMS = {strkey.MUXED_ACCOUNT: b"\0\0\0\2", strkey.MUXED_CONTRACT: b"\0\0\0\5"}


def _of(kind: int) -> Callable[[T], ScVal]:
    return lambda payload: (kind, payload)


u32: Final[Callable[[int], ScVal]] = _of(scval.U32)
u64: Final[Callable[[int], ScVal]] = _of(scval.U64)
u128: Final[Callable[[int], ScVal]] = _of(scval.U128)
i128: Final[Callable[[int], ScVal]] = _of(scval.I128)
symbol: Final[Callable[[str], ScVal]] = _of(scval.SYMBOL)
address: Final[Callable[[str], ScVal]] = _of(scval.ADDRESS)
"""An address, from its strkey."""


def string(text: str) -> ScVal:
    """A contract's string, encoded as UTF-8."""
    return (scval.STRING, text.encode())


def vec(*items: ScVal) -> ScVal:
    """A vector of values."""
    return (scval.VEC, items)


def struct_map(fields: dict[str, ScVal]) -> ScVal:
    """A Rust struct as contracts store it: a map of symbols in ascending byte order."""
    return (scval.MAP, tuple((symbol(name), fields[name]) for name in sorted(fields)))


VOID: ScVal = (scval.VOID, None)
INSTANCE_KEY: ScVal = (scval.LEDGER_KEY_CONTRACT_INSTANCE, None)


def encode_scval(value: ScVal) -> bytes:
    """The canonical XDR of a value. Raises `DecodeError` when a payload does not fit its kind."""
    parts: list[bytes] = []
    try:
        _write(value, parts)
    except (struct.error, OverflowError, TypeError, AttributeError) as error:
        raise DecodeError(f"a value does not fit its kind: {error}") from None
    except RecursionError:
        raise DecodeError("a value nests too deeply") from None
    return b"".join(parts)


def encode_opaque(content: bytes) -> bytes:
    """Variable-length opaque bytes: a length, the bytes, and zeros up to a multiple of four."""
    return struct.pack(">I", len(content)) + content + b"\0" * (-len(content) % 4)


def encode_address(text: str) -> bytes:
    """The SCAddress XDR of a strkey."""
    version, payload = strkey.decode(text)
    if version in _MUXED_ARMS:
        return _MUXED_ARMS[version] + payload[32:] + payload[:32]
    return _ADDRESS_ARMS[version] + payload


def _write(value: ScVal, parts: list[bytes]) -> None:
    kind, payload = value
    parts.append(struct.pack(">I", kind))
    if kind in scval.NUMBERS:
        size, signed = scval.NUMBERS[kind]
        parts.append(int(payload).to_bytes(size, "big", signed=signed))
    elif kind == scval.SYMBOL:
        if not scval.is_symbol(payload):
            raise DecodeError(f"{payload[:40]!r} is not a symbol")
        parts.append(encode_opaque(payload.encode("ascii")))
    elif kind in scval.OPAQUES:
        parts.append(encode_opaque(payload))
    elif kind == scval.ADDRESS:
        parts.append(encode_address(payload))
    elif kind == scval.BOOL:
        parts.append(struct.pack(">I", bool(payload)))
    elif kind == scval.VEC:
        _write_items(payload, parts)
    elif kind == scval.MAP:
        _write_pairs(payload, parts)
    elif kind == scval.ERROR:
        parts.append(struct.pack(">II", *payload))
    elif kind == scval.CONTRACT_INSTANCE:
        parts.append(struct.pack(">I", payload.executable))
        if payload.executable == scval.WASM:
            if payload.wasm_hash is None or len(payload.wasm_hash) != 32:
                raise DecodeError("a wasm executable needs a hash of 32 bytes")
            parts.append(payload.wasm_hash)
        elif payload.executable == scval.EXTERNAL_REF:
            if payload.external is None:
                raise DecodeError("an external executable needs its owner and tag")
            owner, tag = payload.external
            parts.append(encode_address(owner) + encode_opaque(tag))
        _write_pairs(payload.storage, parts)
    elif kind not in (scval.VOID, scval.LEDGER_KEY_CONTRACT_INSTANCE):
        raise DecodeError(f"unknown kind of value: {kind}")


def _write_items(items: Sequence[ScVal] | None, parts: list[bytes], size: int = 1) -> None:
    if items is None:
        parts.append(b"\0\0\0\0")
        return
    parts.append(struct.pack(">II", 1, len(items) // size))
    for item in items:
        _write(item, parts)


def _write_pairs(pairs: Iterable[tuple[ScVal, ScVal]] | None, parts: list[bytes]) -> None:
    _write_items(None if pairs is None else [item for pair in pairs for item in pair], parts, 2)
