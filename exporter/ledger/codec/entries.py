"""Ledger keys and ledger entries (Stellar-ledger-entries.x): what to ask for, and what comes back."""

from __future__ import annotations

import hashlib
import struct
from typing import Final, NamedTuple

from exporter.errors import DecodeError
from exporter.ledger.codec import scval, xdr_walk
from exporter.ledger.codec.scval import ContractInstance, ScVal, read_address, read_value
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, encode_address, encode_scval, symbol, vec
from exporter.ledger.source import RawEntry

ACCOUNT: Final = 0
CONTRACT_DATA: Final = 6
CONTRACT_CODE: Final = 7
CONFIG_SETTING: Final = 8
TTL: Final = 9

_OF_CONTRACT: Final = struct.pack(">II", CONTRACT_DATA, 1)
_INSTANCE_KEY_END: Final = encode_scval(INSTANCE_KEY) + struct.pack(">I", 1)

_word = xdr_walk.word
_two_words = struct.Struct(">II").unpack_from

TEMPORARY: Final = 0
PERSISTENT: Final = 1


class ContractData(NamedTuple):
    """A contract data entry: ``contract`` is a strkey, ``durability`` TEMPORARY or PERSISTENT."""

    contract: str
    key: ScVal
    durability: int
    value: ScVal


def data_key(contract: str, key: ScVal, durability: int = PERSISTENT) -> bytes:
    """The LedgerKey XDR of a contract data entry."""
    return b"\0\0\0\x06" + encode_address(contract) + encode_scval(key) + struct.pack(">I", durability)


def instance_key(contract: str) -> bytes:
    """The LedgerKey XDR of a contract's instance entry."""
    return data_key(contract, INSTANCE_KEY)


def is_instance_key(key: bytes) -> bool:
    """Whether a LedgerKey XDR is that of a contract's instance entry."""
    return key[:8] == _OF_CONTRACT and key[40:] == _INSTANCE_KEY_END


def names_no_contract(key: bytes) -> bool:
    """Whether a LedgerKey XDR names contract data of an address that is no contract. Such an address has none."""
    return key[:4] == _OF_CONTRACT[:4] and key[:8] != _OF_CONTRACT


def variant_key(contract: str, variant: str, *values: ScVal, durability: int = PERSISTENT) -> bytes:
    """The LedgerKey XDR for a Rust enum variant as key: a vector of the variant's symbol and its values."""
    return data_key(contract, vec(symbol(variant), *values), durability)


def code_key(wasm_hash: bytes) -> bytes:
    """The LedgerKey XDR of a contract's code."""
    if len(wasm_hash) != 32:
        raise DecodeError("a wasm hash has 32 bytes")
    return b"\0\0\0\x07" + wasm_hash


def ttl_key(key: bytes) -> bytes:
    """The LedgerKey XDR of the time to live of a contract data or code entry."""
    return b"\0\0\0\x09" + hashlib.sha256(key).digest()


def key_of_entry(entry: bytes) -> bytes:
    """The LedgerKey XDR of a LedgerEntry of contract data, contract code, a setting or a time to live."""
    kind = entry[4:8]
    if kind == b"\0\0\0\x06":
        return kind + entry[12 : xdr_walk.contract_data_key_end(entry, 12)]
    if kind == b"\0\0\0\x09":
        return kind + entry[8:40]
    if kind == b"\0\0\0\x08":
        return entry[4:12]
    begin = 12 + (48 if _word(entry, 8)[0] else 0)
    return kind + entry[begin : begin + 32]


def decode_contract_data(data: bytes) -> ContractData:
    """Decode the LedgerEntryData XDR of a contract data entry. Raises `DecodeError` for any other bytes."""
    try:
        kind, extension = _two_words(data, 0)
    except struct.error:
        raise DecodeError("the bytes end inside an entry") from None
    if kind != CONTRACT_DATA:
        raise DecodeError(f"the entry is not contract data but of kind {kind}")
    if extension != 0:
        raise DecodeError(f"unknown extension of a contract data entry: {extension}")
    try:
        contract, position = read_address(data, 8)
        key, position = read_value(data, position)
        (durability,) = _word(data, position)
        if durability > PERSISTENT:
            raise DecodeError(f"unknown durability: {durability}")
        value, position = read_value(data, position + 4)
    except struct.error:
        raise DecodeError("the bytes end inside an entry") from None
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes follow the entry")
    return ContractData(contract, key, durability, value)


def encode_contract_data(entry: ContractData) -> bytes:
    """The LedgerEntryData XDR of a contract data entry."""
    head = b"\0\0\0\x06\0\0\0\0" + encode_address(entry.contract) + encode_scval(entry.key)
    return head + struct.pack(">I", entry.durability) + encode_scval(entry.value)


def ledger_key_end(data: bytes, position: int) -> int:
    """The end of the LedgerKey that begins at ``position``. Raises `DecodeError`."""
    try:
        end = xdr_walk.ledger_key(data, position)
    except struct.error:
        raise DecodeError("the bytes end inside a key") from None
    if end > len(data):
        raise DecodeError("the bytes end inside a key")
    return end


def instance_of(entry: ContractData) -> ContractInstance:
    """The contract instance that an instance entry holds. Raises `DecodeError` when it holds something else."""
    kind, payload = entry.value
    if kind != scval.CONTRACT_INSTANCE:
        raise DecodeError(f"an instance entry holds a {scval.KIND_NAMES[kind]}")
    instance: ContractInstance = payload
    return instance


def coded_instance(entry: ContractData, what: str) -> tuple[ContractInstance, bytes]:
    """A contract's instance, and the hash of the wasm code that it runs. Raises `DecodeError` if none is known."""
    instance = instance_of(entry)
    if instance.external is not None and instance.wasm_hash is None:
        raise DecodeError(
            f"{what}: {instance.external[0]} holds the contract's code, and its entry has no hash of wasm"
        )
    if instance.wasm_hash is None:
        raise DecodeError(f"{what}: the contract has no wasm code")
    return instance, instance.wasm_hash


_EXTERNAL_INSTANCE: Final = struct.pack(">II", scval.CONTRACT_INSTANCE, scval.EXTERNAL_REF)
_HASH_BYTES: Final = 32


def code_holder_key(data: bytes) -> bytes | None:
    """The LedgerKey XDR of the entry in which another contract says which code a contract runs (CAP-85).

    ``data`` is LedgerEntryData XDR. None for what is not the instance of such a contract, or cannot be decoded.
    """
    # What comes before: the head of contract data, the contract's address, the key of an instance and the durability.
    if data[:4] != b"\0\0\0\x06" or data[52:60] != _EXTERNAL_INSTANCE:
        return None
    try:
        owner, tag = instance_of(decode_contract_data(data)).external or ("", b"")
    except DecodeError:
        return None
    return data_key(owner, (scval.EXECUTABLE_TAG, tag)) if owner.startswith("C") else None


def with_held_code(instance: ContractInstance, held: bytes | None) -> ContractInstance:
    """An instance with the hash of its code, by the LedgerEntryData XDR under `code_holder_key`.

    The hash stays None if there is no such entry, or if it does not hold the hash of wasm.
    """
    if instance.external is None or held is None:
        return instance
    try:
        kind, content = decode_contract_data(held).value
    except DecodeError:
        return instance
    is_hash = kind == scval.BYTES and isinstance(content, bytes) and len(content) == _HASH_BYTES
    return instance._replace(wasm_hash=content) if is_hash else instance


# An entry is live at a ledger up to and including the last one it lives until. After that a temporary entry is gone,
# and a persistent one is archived: still given, with its data and a ``live_until`` of 0 (docs/rpc.md, "Ends of lives").

ARCHIVED: Final = 0
"""The `RawEntry.live_until` of an archived entry, because nobody knows when it expired."""


def is_temporary(key: bytes) -> bool:
    """Whether a LedgerKey is that of a temporary contract data entry."""
    return key[:4] == b"\0\0\0\x06" and key[-4:] == b"\0\0\0\0"


def seen_at(key: bytes, entry: RawEntry, ledger: int) -> RawEntry | None:
    """A stored entry as a reader at ``ledger`` sees it, or None if it sees none.

    ``entry.live_until`` is the true last ledger of the entry's life, or None for an entry that does not expire.
    """
    if entry.live_until is None or entry.live_until >= ledger:
        return entry
    if is_temporary(key):
        return None
    return RawEntry(data=entry.data, last_modified=entry.last_modified, live_until=ARCHIVED)
