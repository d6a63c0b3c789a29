"""The parts that XDR-JSON documents are made of: names of union arms, and the leaves, each read strictly.

All readers take the JSON value and its path, and raise `DecodeError` with a message that begins with the path.
Source: SEP-51 and facts/stellar-rpc.md 1.7.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from exporter.errors import DecodeError
from exporter.ledger import scval, strkey

Json: TypeAlias = Any
"""What a JSON parser gives: dict, list, str, int, float, bool or None."""

KIND_ARMS: Final = (
    "bool", "void", "error", "u32", "i32", "u64", "i64", "timepoint", "duration", "u128", "i128", "u256", "i256",
    "bytes", "string", "symbol", "vec", "map", "address", "contract_instance", "ledger_key_contract_instance",
    "ledger_key_nonce", "executable_tag",
)  # fmt: skip
ERROR_TYPES: Final = (
    "contract", "wasm_vm", "context", "storage", "object", "crypto", "events", "budget", "value", "auth",
)  # fmt: skip
ERROR_CODES: Final = (
    "arith_domain", "index_bounds", "invalid_input", "missing_value", "existing_value", "exceeded_limit",
    "invalid_action", "internal_error", "unexpected_type", "unexpected_size",
)  # fmt: skip
DURABILITIES: Final = ("temporary", "persistent")
"""By `entries.TEMPORARY` and `entries.PERSISTENT`."""
COST_INPUTS: Final = (
    "n_instructions", "n_functions", "n_globals", "n_table_entries", "n_types", "n_data_segments", "n_elem_segments",
    "n_imports", "n_exports", "n_data_segment_bytes",
)  # fmt: skip
"""What a contract code entry may say about the cost of its code, in XDR order; all u32."""

I32_BOUNDS: Final = (-(2**31), 2**31 - 1)
U32_BOUNDS: Final = (0, 2**32 - 1)
I64_BOUNDS: Final = (-(2**63), 2**63 - 1)
U64_BOUNDS: Final = (0, 2**64 - 1)
PARTS_128: Final = ("hi", "lo")
PARTS_256: Final = ("hi_hi", "hi_lo", "lo_hi", "lo_lo")

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,77}", re.ASCII)  # 2^256 has 78 digits
_HEX = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII)
_ESCAPED = re.compile(rb"[\x20-\x5b\x5d-\x7e]+|\\(?:[0tnr\\]|x[0-9a-f]{2})", re.ASCII)
_ESCAPES = {b"\\0": b"\0", b"\\t": b"\t", b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}
_UNESCAPES = {content[0]: escape.decode() for escape, content in _ESCAPES.items()}
_STRKEY_LETTERS = ("G", "C", "M", "B", "L", "W")
_SHORTEST_STRKEY = 56


class UnknownArmError(DecodeError):
    """A union has an arm that this version does not know: the entry it stands in cannot be read, others can."""


def shown(document: Json) -> str:
    """A JSON value as error messages show it: short, whatever it is."""
    if isinstance(document, dict):
        return f"an object with the fields {', '.join(sorted(document)[:8])}"[:80]
    if isinstance(document, list):
        return f"an array of {len(document)}"
    text = repr(document[:80] if isinstance(document, str) else document)
    return text if len(text) <= 80 else text[:77] + "..."


def fields(document: Json, names: tuple[str, ...], path: str) -> dict[str, Json]:
    """The object that has exactly these fields."""
    if not isinstance(document, dict):
        raise DecodeError(f"{path}: expected an object with the fields {', '.join(names)}, got {shown(document)}")
    for name in names:
        if name not in document:
            raise DecodeError(f"{path}: the field {name!r} is missing")
    if len(document) != len(names):
        unknown = sorted(set(document) - set(names))
        raise DecodeError(f"{path}: unknown field {unknown[0][:80]!r}")
    return document


def arm_of(document: Json, path: str) -> tuple[str, Json]:
    """The arm of a union and its value: ``"arm"`` for a void one (value None), else ``{"arm": value}``."""
    if isinstance(document, str):
        return document, None
    if isinstance(document, dict) and len(document) == 1:
        ((arm, body),) = document.items()
        return arm, body
    raise DecodeError(f"{path}: expected a union (a text, or an object with one field), got {shown(document)}")


def array(document: Json, path: str) -> list[Json]:
    """A JSON array."""
    if not isinstance(document, list):
        raise DecodeError(f"{path}: expected an array, got {shown(document)}")
    return document


def text(document: Json, path: str) -> str:
    """A JSON string, as it is."""
    if not isinstance(document, str):
        raise DecodeError(f"{path}: expected a text, got {shown(document)}")
    return document


def boolean(document: Json, path: str) -> bool:
    """A JSON boolean."""
    if not isinstance(document, bool):
        raise DecodeError(f"{path}: expected true or false, got {shown(document)}")
    return document


def number(document: Json, bounds: tuple[int, int], path: str) -> int:
    """A 32-bit integer: a JSON number in both versions."""
    if type(document) is not int:  # not isinstance: True is an int
        raise DecodeError(f"{path}: expected a number, got {shown(document)}")
    return integer(document, bounds, path)


def integer(document: Json, bounds: tuple[int, int], path: str) -> int:
    """An integer of any width: a JSON number (version 1) or a decimal string (version 2)."""
    if type(document) is int:
        value = document
    elif isinstance(document, str) and _INTEGER.fullmatch(document):
        value = int(document)
    else:
        raise DecodeError(f"{path}: expected an integer, got {shown(document)}")
    if not bounds[0] <= value <= bounds[1]:
        raise DecodeError(f"{path}: {shown(document)} is out of range")
    return value


def wide_integer(document: Json, parts: tuple[str, ...], signed: bool, path: str) -> int:
    """An integer of 64 bits a part: an object of its parts (version 1) or a decimal string (version 2)."""
    if not isinstance(document, dict):
        bits = 64 * len(parts)
        return integer(document, (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1), path)
    fields(document, parts, path)
    value = integer(document[parts[0]], I64_BOUNDS if signed else U64_BOUNDS, f"{path}.{parts[0]}")
    for part in parts[1:]:
        value = value << 64 | integer(document[part], U64_BOUNDS, f"{path}.{part}")
    return value


def hex_bytes(document: Json, path: str) -> bytes:
    """Opaque bytes: lowercase hex digits."""
    if not isinstance(document, str) or not _HEX.fullmatch(document):
        raise DecodeError(f"{path}: expected lowercase hex digits, got {shown(document)}")
    return bytes.fromhex(document)


def hash_bytes(document: Json, path: str) -> bytes:
    """The 32 bytes of a hash."""
    content = hex_bytes(document, path)
    if len(content) != 32:
        raise DecodeError(f"{path}: expected a hash of 64 hex digits, got {shown(document)}")
    return content


def escape(content: bytes) -> str:
    r"""Bytes as printable ASCII: ``\0 \t \n \r \\``, and ``\xNN`` for all others that are not printable."""
    return "".join(
        _UNESCAPES[byte] if byte in _UNESCAPES else chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
        for byte in content
    )


def escaped_bytes(document: Json, path: str) -> bytes:
    """The bytes of an escaped string; only the one spelling that `escape` gives is accepted."""
    raw = text(document, path).encode("utf-8", "surrogatepass")
    parts = []
    position = 0
    while position < len(raw):
        match = _ESCAPED.match(raw, position)
        if match is None:
            raise DecodeError(f"{path}: {shown(document)} is not escaped as XDR-JSON escapes strings")
        part = match.group()
        if part[:2] == b"\\x":
            part = bytes.fromhex(part[2:].decode())
        parts.append(_ESCAPES.get(part, part))
        position = match.end()
    content = b"".join(parts)
    if escape(content) != document:
        raise DecodeError(f"{path}: {shown(document)} is not escaped as XDR-JSON escapes strings")
    return content


def symbol(document: Json, path: str) -> str:
    """A symbol; none of its characters needs an escape."""
    content = text(document, path)
    if not scval.is_symbol(content):
        raise DecodeError(f"{path}: {shown(document)} is not a symbol")
    return content


def address(document: Json, path: str) -> str:
    """The strkey of an address."""
    content = text(document, path)
    if len(content) >= _SHORTEST_STRKEY and content[0] not in _STRKEY_LETTERS:
        raise UnknownArmError(f"{path}: {shown(document)} is an address of an unknown kind")
    try:
        strkey.decode(content)
    except DecodeError as error:
        raise DecodeError(f"{path}: {error}") from None
    return content


def no_extension(document: Json, path: str) -> None:
    """The extension point of a structure: ``"v0"``, since no other is known."""
    if document != "v0":
        arm_of(document, path)
        raise UnknownArmError(f"{path}: unknown extension {shown(document)}")
