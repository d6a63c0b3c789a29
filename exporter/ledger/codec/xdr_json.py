"""XDR-JSON (SEP-51), the JSON form of ledger keys, ledger entries and ScVals: both ways.

Two conventions are in use, and both are read, value by value. Version 2 (SEP-51; RPC and CLI from 23 on) writes 64-bit
and wider integers as decimal strings. Version 1 (22 and before) writes 64-bit integers as numbers and wider ones as
``{"hi": .., "lo": ..}`` or as four such parts. Only version 2 is written.

Reading is strict: another type, a field too many or too few and a number out of range raise `DecodeError`, and the
message begins with the path of the offending value. A union arm that is not known raises `UnknownArmError`: a newer
protocol may have added it, and it costs the one entry that it stands in.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from exporter.errors import DecodeError
from exporter.ledger.codec import entries, scval, strkey
from exporter.ledger.codec.scval import ContractInstance, ScVal, read_opaque
from exporter.ledger.codec.scval_encode import encode_opaque

Json: TypeAlias = Any
"""What a JSON parser gives: dict, list, str, int, float, bool or None."""

KIND_ARMS: Final = tuple(name.replace(" ", "_") for name in scval.KIND_NAMES)
ERROR_TYPES: Final = (
    "contract",
    "wasm_vm",
    "context",
    "storage",
    "object",
    "crypto",
    "events",
    "budget",
    "value",
    "auth",
)
ERROR_CODES: Final = (
    "arith_domain",
    "index_bounds",
    "invalid_input",
    "missing_value",
    "existing_value",
    "exceeded_limit",
    "invalid_action",
    "internal_error",
    "unexpected_type",
    "unexpected_size",
)
DURABILITIES: Final = ("temporary", "persistent")
"""By `entries.TEMPORARY` and `entries.PERSISTENT`."""
COST_INPUTS: Final = (
    "n_instructions",
    "n_functions",
    "n_globals",
    "n_table_entries",
    "n_types",
    "n_data_segments",
    "n_elem_segments",
    "n_imports",
    "n_exports",
    "n_data_segment_bytes",
)
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


def scval_from_json(document: Json, path: str = "value") -> ScVal:
    """The ScVal of its XDR-JSON. Raises `DecodeError` that begins with ``path``."""
    return _scval(document, path, 0)


def ledger_key_from_json(document: Json, path: str = "key") -> bytes:
    """The LedgerKey XDR of its XDR-JSON, for contract data and contract code."""
    kind, body = arm_of(document, path)
    path = f"{path}.{kind[:40]}"
    if kind == "contract_data":
        fields(body, ("contract", "key", "durability"), path)
        return entries.data_key(*_data_key_parts(body, path))
    if kind == "contract_code":
        fields(body, ("hash",), path)
        return entries.code_key(hash_bytes(body["hash"], f"{path}.hash"))
    raise UnknownArmError(f"{path}: keys of this kind are not read")


def entry_data_from_json(document: Json, path: str = "data") -> bytes:
    """The LedgerEntryData XDR of its XDR-JSON, for contract data and contract code."""
    kind, body = arm_of(document, path)
    path = f"{path}.{kind[:40]}"
    if kind == "contract_data":
        fields(body, ("ext", "contract", "key", "durability", "val"), path)
        no_extension(body["ext"], f"{path}.ext")
        contract, key, durability = _data_key_parts(body, path)
        value = scval_from_json(body["val"], f"{path}.val")
        return entries.encode_contract_data(entries.ContractData(contract, key, durability, value))
    if kind == "contract_code":
        fields(body, ("ext", "hash", "code"), path)
        extension = _code_extension(body["ext"], f"{path}.ext")
        wasm_hash = hash_bytes(body["hash"], f"{path}.hash")
        return b"\0\0\0\x07" + extension + wasm_hash + encode_opaque(hex_bytes(body["code"], f"{path}.code"))
    raise UnknownArmError(f"{path}: entries of this kind are not read")


def _data_key_parts(body: dict[str, Json], path: str) -> tuple[str, ScVal, int]:
    durability = text(body["durability"], f"{path}.durability")
    if durability not in DURABILITIES:
        raise DecodeError(f"{path}.durability: {shown(durability)} is unknown")
    contract = address(body["contract"], f"{path}.contract")
    return contract, scval_from_json(body["key"], f"{path}.key"), DURABILITIES.index(durability)


def _code_extension(document: Json, path: str) -> bytes:
    if document == "v0":
        return b"\0\0\0\0"
    arm, body = arm_of(document, path)
    if arm != "v1":
        raise UnknownArmError(f"{path}: unknown extension {shown(document)}")
    fields(body, ("ext", "cost_inputs"), path)
    no_extension(body["ext"], f"{path}.ext")
    path = f"{path}.cost_inputs"
    inputs = fields(body["cost_inputs"], ("ext", *COST_INPUTS), path)
    no_extension(inputs["ext"], f"{path}.ext")
    counts = (number(inputs[name], U32_BOUNDS, f"{path}.{name}") for name in COST_INPUTS)
    return struct.pack(">III10I", 1, 0, 0, *counts)  # the arm, and the two extension points


def _scval(document: Json, path: str, depth: int) -> ScVal:
    arm, body = arm_of(document, path)
    if isinstance(document, str):
        if arm in _VOID_ARMS:
            return _VOID_ARMS[arm]
        raise UnknownArmError(f"{path}: unknown kind of value {shown(document)}")
    if arm in _LEAVES:
        kind, leaf = _LEAVES[arm]
        return kind, leaf(body, path=f"{path}.{arm}")
    if arm not in _NESTED:
        raise UnknownArmError(f"{path}: unknown kind of value {shown(arm)}")
    kind, read = _NESTED[arm]
    return kind, read(body, f"{path}.{arm}", depth)


def _bounded(path: str, depth: int) -> int:
    if depth >= scval.MAX_DEPTH:
        raise DecodeError(f"{path[:80]}...: values nest deeper than {scval.MAX_DEPTH}")
    return depth + 1


def _vec(document: Json, path: str, depth: int) -> tuple[ScVal, ...] | None:
    if document is None:
        return None
    depth = _bounded(path, depth)
    return tuple(_scval(item, f"{path}[{index}]", depth) for index, item in enumerate(array(document, path)))


def _map(document: Json, path: str, depth: int) -> tuple[tuple[ScVal, ScVal], ...] | None:
    if document is None:
        return None
    depth = _bounded(path, depth)
    pairs = []
    for index, pair in enumerate(array(document, path)):
        fields(pair, ("key", "val"), f"{path}[{index}]")
        key = _scval(pair["key"], f"{path}[{index}].key", depth)
        pairs.append((key, _scval(pair["val"], f"{path}[{index}].val", depth)))
    return tuple(pairs)


def _error(document: Json, path: str) -> tuple[int, int]:
    arm, body = arm_of(document, path)
    if arm not in ERROR_TYPES:
        raise UnknownArmError(f"{path}: unknown type of error {shown(arm)}")
    if arm == "contract":  # a contract's own errors have numbers, the host's have names
        return 0, number(body, U32_BOUNDS, f"{path}.{arm}")
    code = text(body, f"{path}.{arm}")
    if code not in ERROR_CODES:
        raise UnknownArmError(f"{path}.{arm}: unknown code of error {shown(code)}")
    return ERROR_TYPES.index(arm), ERROR_CODES.index(code)


def _instance(document: Json, path: str, depth: int) -> ContractInstance:
    fields(document, ("executable", "storage"), path)
    storage = _map(document["storage"], f"{path}.storage", depth)
    path = f"{path}.executable"
    if document["executable"] == "stellar_asset":
        return ContractInstance(scval.STELLAR_ASSET, None, None, storage)
    arm, body = arm_of(document["executable"], path)
    if arm == "wasm":
        return ContractInstance(scval.WASM, hash_bytes(body, f"{path}.wasm"), None, storage)
    if arm == "external_ref":
        path = f"{path}.external_ref"
        fields(body, ("executable_owner", "tag"), path)
        owner = address(body["executable_owner"], f"{path}.executable_owner")
        tag = escaped_bytes(body["tag"], f"{path}.tag")
        return ContractInstance(scval.EXTERNAL_REF, None, (owner, tag), storage)
    raise UnknownArmError(f"{path}: unknown kind of executable {shown(arm)}")


def _nonce(document: Json, path: str) -> int:
    fields(document, ("nonce",), path)
    return integer(document["nonce"], I64_BOUNDS, f"{path}.nonce")


_VOID_ARMS: Final[dict[str, ScVal]] = {
    KIND_ARMS[kind]: (kind, None) for kind in (scval.VOID, scval.LEDGER_KEY_CONTRACT_INSTANCE)
}
_LEAVES: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    KIND_ARMS[kind]: (kind, read)
    for kind, read in (
        (scval.BOOL, boolean),
        (scval.ERROR, _error),
        (scval.U32, partial(number, bounds=U32_BOUNDS)),
        (scval.I32, partial(number, bounds=I32_BOUNDS)),
        (scval.U64, partial(integer, bounds=U64_BOUNDS)),
        (scval.I64, partial(integer, bounds=I64_BOUNDS)),
        (scval.TIMEPOINT, partial(integer, bounds=U64_BOUNDS)),
        (scval.DURATION, partial(integer, bounds=U64_BOUNDS)),
        (scval.U128, partial(wide_integer, parts=PARTS_128, signed=False)),
        (scval.I128, partial(wide_integer, parts=PARTS_128, signed=True)),
        (scval.U256, partial(wide_integer, parts=PARTS_256, signed=False)),
        (scval.I256, partial(wide_integer, parts=PARTS_256, signed=True)),
        (scval.BYTES, hex_bytes),
        (scval.STRING, escaped_bytes),
        (scval.SYMBOL, symbol),
        (scval.ADDRESS, address),
        (scval.LEDGER_KEY_NONCE, _nonce),
        (scval.EXECUTABLE_TAG, escaped_bytes),
    )
}
_NESTED: Final[dict[str, tuple[int, Callable[[Json, str, int], Any]]]] = {
    KIND_ARMS[kind]: (kind, read)
    for kind, read in ((scval.VEC, _vec), (scval.MAP, _map), (scval.CONTRACT_INSTANCE, _instance))
}


def scval_to_json(value: ScVal) -> Json:
    """The XDR-JSON of a ScVal."""
    kind, payload = value
    if not 0 <= kind < len(KIND_ARMS):
        raise DecodeError(f"unknown kind of value: {kind}")
    arm = KIND_ARMS[kind]
    if kind in (scval.VOID, scval.LEDGER_KEY_CONTRACT_INSTANCE):
        return arm
    return {arm: _WRITERS[kind](payload)}


def ledger_key_to_json(key: bytes) -> Json:
    """The XDR-JSON of a LedgerKey of contract data or contract code. Raises `DecodeError` for other keys."""
    if key[:4] == b"\0\0\0\x07":
        if len(key) != 36:
            raise DecodeError("a contract code key has 36 bytes")
        return {"contract_code": {"hash": key[4:].hex()}}
    data_key = entries.decode_data_key(key)
    return {
        "contract_data": {
            "contract": data_key.contract,
            "key": scval_to_json(data_key.key),
            "durability": DURABILITIES[data_key.durability],
        }
    }


def entry_data_to_json(data: bytes) -> Json:
    """The XDR-JSON of a LedgerEntryData of contract data or contract code. Raises `DecodeError` for other entries."""
    if data[:4] == b"\0\0\0\x07":
        return {"contract_code": _code(data)}
    entry = entries.decode_contract_data(data)
    return {
        "contract_data": {
            "ext": "v0",
            "contract": entry.contract,
            "key": scval_to_json(entry.key),
            "durability": DURABILITIES[entry.durability],
            "val": scval_to_json(entry.value),
        }
    }


def _code(data: bytes) -> Json:
    try:
        (version,) = struct.unpack_from(">I", data, 4)
        extension: Json = "v0"
        position = 8
        if version == 1:
            point, inputs_point, *counts = struct.unpack_from(">12I", data, position)
            if point or inputs_point:
                raise DecodeError("unknown extension of a contract code entry")
            cost_inputs = {"ext": "v0", **dict(zip(COST_INPUTS, counts, strict=True))}
            extension = {"v1": {"ext": "v0", "cost_inputs": cost_inputs}}
            position += 48
        elif version != 0:
            raise DecodeError(f"unknown extension of a contract code entry: {version}")
        wasm_hash = data[position : position + 32]
        code, end = read_opaque(data, position + 32)
    except struct.error:
        raise DecodeError("the bytes end inside an entry") from None
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow the entry")
    return {"ext": extension, "hash": wasm_hash.hex(), "code": code.hex()}


def _write_map(pairs: tuple[tuple[ScVal, ScVal], ...] | None) -> Json:
    return None if pairs is None else [{"key": scval_to_json(key), "val": scval_to_json(item)} for key, item in pairs]


def _write_instance(instance: ContractInstance) -> Json:
    executable: Json = "stellar_asset"
    if instance.wasm_hash is not None:
        executable = {"wasm": instance.wasm_hash.hex()}
    elif instance.external is not None:
        owner, tag = instance.external
        executable = {"external_ref": {"executable_owner": owner, "tag": escape(tag)}}
    return {"executable": executable, "storage": _write_map(instance.storage)}


_WRITERS: Final[dict[int, Callable[[Any], Json]]] = {
    **dict.fromkeys((scval.BOOL, scval.U32, scval.I32, scval.SYMBOL, scval.ADDRESS), lambda payload: payload),
    **dict.fromkeys((scval.U64, scval.I64, scval.TIMEPOINT, scval.DURATION), str),
    **dict.fromkeys((scval.U128, scval.I128, scval.U256, scval.I256), str),
    **dict.fromkeys((scval.STRING, scval.EXECUTABLE_TAG), escape),
    scval.BYTES: bytes.hex,
    scval.ERROR: lambda error: {ERROR_TYPES[error[0]]: error[1] if error[0] == 0 else ERROR_CODES[error[1]]},
    scval.VEC: lambda items: None if items is None else [scval_to_json(item) for item in items],
    scval.MAP: _write_map,
    scval.CONTRACT_INSTANCE: _write_instance,
    scval.LEDGER_KEY_NONCE: lambda nonce: {"nonce": str(nonce)},
}
