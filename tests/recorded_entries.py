"""Entries of the package's recording by the name of their key: templates for the entries of tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, decode_contract_data
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import VOID, encode_scval
from exporter.localnet.recording import shipped


def name_of(key: ScVal) -> str:
    """The symbol that is a key, or that starts it."""
    kind, content = key
    return name_of(content[0]) if kind == scval.VEC and content else str(content)


def decode_data_key(key: bytes) -> ContractData:
    """The parts of the LedgerKey of contract data, with no value."""
    return decode_contract_data(key[:4] + bytes(4) + key[4:] + encode_scval(VOID))


@cache
def _contract_data() -> tuple[ContractData, ...]:
    return tuple(decode_contract_data(item.data) for item in shipped().entries if item.key[:4] == b"\0\0\0\6")


def _having(value: ScVal, field: str) -> bool:
    return not field or (value[0] == scval.MAP and any(name_of(key) == field for key, _ in value[1] or ()))


@cache
def recorded(name: str, field: str = "") -> ScVal:
    """The value of the first recorded entry under a key of a name; with ``field``, of the first struct that has it."""
    return next(item.value for item in _contract_data() if name_of(item.key) == name and _having(item.value, field))


@cache
def recorded_instance(*keys: str, field: str = "") -> ContractInstance:
    """The first recorded instance with keys of these names in its storage, one of them a struct with ``field``."""

    def found() -> Iterator[ContractInstance]:
        for item in _contract_data():
            if item.value[0] == scval.CONTRACT_INSTANCE:
                storage = {name_of(key): value for key, value in item.value[1].storage or ()}
                if storage.keys() >= set(keys) and any(_having(storage[key], field) for key in keys):
                    yield item.value[1]

    return next(found())


def code_of(instance: ContractInstance) -> bytes:
    assert instance.wasm_hash is not None
    return instance.wasm_hash
