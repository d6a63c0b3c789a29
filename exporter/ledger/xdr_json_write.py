"""XDR-JSON of ScVals, ledger keys and ledger entries, in the convention of SEP-51 (version 2).

What ``getLedgerEntries`` answers with when ``xdrFormat`` is ``json`` (facts/stellar-rpc.md 1.7).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from exporter.errors import DecodeError
from exporter.ledger import entries, scval
from exporter.ledger import xdr_json_parts as parts
from exporter.ledger.scval import ContractInstance, ScVal, read_opaque
from exporter.ledger.xdr_json_parts import Json


def scval_to_json(value: ScVal) -> Json:
    """The XDR-JSON of a ScVal."""
    kind, payload = value
    if not 0 <= kind < len(parts.KIND_ARMS):
        raise DecodeError(f"unknown kind of value: {kind}")
    arm = parts.KIND_ARMS[kind]
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
            "durability": parts.DURABILITIES[data_key.durability],
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
            "durability": parts.DURABILITIES[entry.durability],
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
            cost_inputs = {"ext": "v0", **dict(zip(parts.COST_INPUTS, counts, strict=True))}
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


def _error(payload: tuple[int, int]) -> Json:
    error_type, code = payload
    return {parts.ERROR_TYPES[error_type]: code if error_type == 0 else parts.ERROR_CODES[code]}


def _vec(items: tuple[ScVal, ...] | None) -> Json:
    return None if items is None else [scval_to_json(item) for item in items]


def _map(pairs: tuple[tuple[ScVal, ScVal], ...] | None) -> Json:
    return None if pairs is None else [{"key": scval_to_json(key), "val": scval_to_json(item)} for key, item in pairs]


def _instance(instance: ContractInstance) -> Json:
    executable: Json = "stellar_asset"
    if instance.wasm_hash is not None:
        executable = {"wasm": instance.wasm_hash.hex()}
    elif instance.external is not None:
        owner, tag = instance.external
        executable = {"external_ref": {"executable_owner": owner, "tag": parts.escape(tag)}}
    return {"executable": executable, "storage": _map(instance.storage)}


def _same(payload: Any) -> Json:
    return payload


_WRITERS: Final[dict[int, Callable[[Any], Json]]] = {
    **dict.fromkeys((scval.BOOL, scval.U32, scval.I32, scval.SYMBOL, scval.ADDRESS), _same),
    **dict.fromkeys((scval.U64, scval.I64, scval.TIMEPOINT, scval.DURATION), str),
    **dict.fromkeys((scval.U128, scval.I128, scval.U256, scval.I256), str),
    **dict.fromkeys((scval.STRING, scval.EXECUTABLE_TAG), parts.escape),
    scval.BYTES: bytes.hex,
    scval.ERROR: _error,
    scval.VEC: _vec,
    scval.MAP: _map,
    scval.CONTRACT_INSTANCE: _instance,
    scval.LEDGER_KEY_NONCE: lambda nonce: {"nonce": str(nonce)},
}
