"""XDR-JSON, the JSON form of ledger keys, ledger entries and ScVals: reading both conventions that are in use.

Version 2 (SEP-51; RPC and CLI from 23 on) writes 64-bit and wider integers as decimal strings. Version 1 (22 and
before) writes 64-bit integers as numbers and wider ones as ``{"hi": .., "lo": ..}`` or as four such parts. Both are
taken, value by value. Reading is strict: another type, a field too many or too few and a number out of range raise
`DecodeError`, and the message begins with the path of the offending value. A union arm that is not known raises
`UnknownArmError`: a newer protocol may have added it, and it costs the one entry that it stands in.
Source: SEP-51, facts/stellar-rpc.md 1.7 and 7.1. The way back is `exporter.ledger.xdr_json_write`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger import entries, scval
from exporter.ledger import xdr_json_parts as parts
from exporter.ledger.scval import ContractInstance, ScVal
from exporter.ledger.scval_encode import encode_opaque
from exporter.ledger.xdr_json_parts import Json, UnknownArmError, arm_of, fields


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
        return entries.code_key(parts.hash_bytes(body["hash"], f"{path}.hash"))
    raise UnknownArmError(f"{path}: keys of this kind are not read")


def entry_data_from_json(document: Json, path: str = "data") -> bytes:
    """The LedgerEntryData XDR of its XDR-JSON, for contract data and contract code."""
    kind, body = arm_of(document, path)
    path = f"{path}.{kind[:40]}"
    if kind == "contract_data":
        fields(body, ("ext", "contract", "key", "durability", "val"), path)
        parts.no_extension(body["ext"], f"{path}.ext")
        contract, key, durability = _data_key_parts(body, path)
        value = scval_from_json(body["val"], f"{path}.val")
        return entries.encode_contract_data(entries.ContractData(contract, key, durability, value))
    if kind == "contract_code":
        fields(body, ("ext", "hash", "code"), path)
        extension = _code_extension(body["ext"], f"{path}.ext")
        wasm_hash = parts.hash_bytes(body["hash"], f"{path}.hash")
        return b"\0\0\0\x07" + extension + wasm_hash + encode_opaque(parts.hex_bytes(body["code"], f"{path}.code"))
    raise UnknownArmError(f"{path}: entries of this kind are not read")


def _data_key_parts(body: dict[str, Json], path: str) -> tuple[str, ScVal, int]:
    durability = parts.text(body["durability"], f"{path}.durability")
    if durability not in parts.DURABILITIES:
        raise DecodeError(f"{path}.durability: {parts.shown(durability)} is unknown")
    contract = parts.address(body["contract"], f"{path}.contract")
    return contract, scval_from_json(body["key"], f"{path}.key"), parts.DURABILITIES.index(durability)


def _code_extension(document: Json, path: str) -> bytes:
    if document == "v0":
        return b"\0\0\0\0"
    arm, body = arm_of(document, path)
    if arm != "v1":
        raise UnknownArmError(f"{path}: unknown extension {parts.shown(document)}")
    fields(body, ("ext", "cost_inputs"), path)
    parts.no_extension(body["ext"], f"{path}.ext")
    path = f"{path}.cost_inputs"
    inputs = fields(body["cost_inputs"], ("ext", *parts.COST_INPUTS), path)
    parts.no_extension(inputs["ext"], f"{path}.ext")
    counts = (parts.number(inputs[name], parts.U32_BOUNDS, f"{path}.{name}") for name in parts.COST_INPUTS)
    return struct.pack(">III10I", 1, 0, 0, *counts)  # the arm, and the two extension points


def _scval(document: Json, path: str, depth: int) -> ScVal:
    arm, body = arm_of(document, path)
    if isinstance(document, str):
        if arm in _VOID_ARMS:
            return _VOID_ARMS[arm]
        raise UnknownArmError(f"{path}: unknown kind of value {parts.shown(document)}")
    reader = _READERS.get(arm)
    if reader is None:
        raise UnknownArmError(f"{path}: unknown kind of value {parts.shown(arm)}")
    kind, read = reader
    return kind, read(body, f"{path}.{arm}", depth)


def _bounded(path: str, depth: int) -> int:
    if depth >= scval.MAX_DEPTH:
        raise DecodeError(f"{path[:80]}...: values nest deeper than {scval.MAX_DEPTH}")
    return depth + 1


def _vec(document: Json, path: str, depth: int) -> tuple[ScVal, ...] | None:
    if document is None:
        return None
    depth = _bounded(path, depth)
    return tuple(_scval(item, f"{path}[{index}]", depth) for index, item in enumerate(parts.array(document, path)))


def _map(document: Json, path: str, depth: int) -> tuple[tuple[ScVal, ScVal], ...] | None:
    if document is None:
        return None
    depth = _bounded(path, depth)
    pairs = []
    for index, pair in enumerate(parts.array(document, path)):
        fields(pair, ("key", "val"), f"{path}[{index}]")
        key = _scval(pair["key"], f"{path}[{index}].key", depth)
        pairs.append((key, _scval(pair["val"], f"{path}[{index}].val", depth)))
    return tuple(pairs)


def _error(document: Json, path: str, _depth: int) -> tuple[int, int]:
    arm, body = arm_of(document, path)
    if arm not in parts.ERROR_TYPES:
        raise UnknownArmError(f"{path}: unknown type of error {parts.shown(arm)}")
    if arm == "contract":  # a contract's own errors have numbers, the host's have names
        return 0, parts.number(body, parts.U32_BOUNDS, f"{path}.{arm}")
    code = parts.text(body, f"{path}.{arm}")
    if code not in parts.ERROR_CODES:
        raise UnknownArmError(f"{path}.{arm}: unknown code of error {parts.shown(code)}")
    return parts.ERROR_TYPES.index(arm), parts.ERROR_CODES.index(code)


def _instance(document: Json, path: str, depth: int) -> ContractInstance:
    fields(document, ("executable", "storage"), path)
    storage = _map(document["storage"], f"{path}.storage", depth)
    path = f"{path}.executable"
    if document["executable"] == "stellar_asset":
        return ContractInstance(scval.STELLAR_ASSET, None, None, storage)
    arm, body = arm_of(document["executable"], path)
    if arm == "wasm":
        return ContractInstance(scval.WASM, parts.hash_bytes(body, f"{path}.wasm"), None, storage)
    if arm == "external_ref":
        path = f"{path}.external_ref"
        fields(body, ("executable_owner", "tag"), path)
        owner = parts.address(body["executable_owner"], f"{path}.executable_owner")
        tag = parts.escaped_bytes(body["tag"], f"{path}.tag")
        return ContractInstance(scval.EXTERNAL_REF, None, (owner, tag), storage)
    raise UnknownArmError(f"{path}: unknown kind of executable {parts.shown(arm)}")


def _nonce(document: Json, path: str, _depth: int) -> int:
    fields(document, ("nonce",), path)
    return parts.integer(document["nonce"], parts.I64_BOUNDS, f"{path}.nonce")


_Reader = Callable[[Json, str, int], Any]


def _leaf(read: Callable[[Json, str], Any]) -> _Reader:
    return lambda document, path, _depth: read(document, path)


def _small(bounds: tuple[int, int]) -> _Reader:
    return lambda document, path, _depth: parts.number(document, bounds, path)


def _long(bounds: tuple[int, int]) -> _Reader:
    return lambda document, path, _depth: parts.integer(document, bounds, path)


def _wide(names: tuple[str, ...], signed: bool) -> _Reader:
    return lambda document, path, _depth: parts.wide_integer(document, names, signed, path)


_VOID_ARMS: Final[dict[str, ScVal]] = {
    parts.KIND_ARMS[kind]: (kind, None) for kind in (scval.VOID, scval.LEDGER_KEY_CONTRACT_INSTANCE)
}
_READERS: Final[dict[str, tuple[int, _Reader]]] = {
    parts.KIND_ARMS[kind]: (kind, reader)
    for kind, reader in (
        (scval.BOOL, _leaf(parts.boolean)),
        (scval.ERROR, _error),
        (scval.U32, _small(parts.U32_BOUNDS)),
        (scval.I32, _small(parts.I32_BOUNDS)),
        (scval.U64, _long(parts.U64_BOUNDS)),
        (scval.I64, _long(parts.I64_BOUNDS)),
        (scval.TIMEPOINT, _long(parts.U64_BOUNDS)),
        (scval.DURATION, _long(parts.U64_BOUNDS)),
        (scval.U128, _wide(parts.PARTS_128, False)),
        (scval.I128, _wide(parts.PARTS_128, True)),
        (scval.U256, _wide(parts.PARTS_256, False)),
        (scval.I256, _wide(parts.PARTS_256, True)),
        (scval.BYTES, _leaf(parts.hex_bytes)),
        (scval.STRING, _leaf(parts.escaped_bytes)),
        (scval.SYMBOL, _leaf(parts.symbol)),
        (scval.VEC, _vec),
        (scval.MAP, _map),
        (scval.ADDRESS, _leaf(parts.address)),
        (scval.CONTRACT_INSTANCE, _instance),
        (scval.LEDGER_KEY_NONCE, _nonce),
        (scval.EXECUTABLE_TAG, _leaf(parts.escaped_bytes)),
    )
}
