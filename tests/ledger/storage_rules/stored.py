"""Contract entries as tests make them, and answers to calls from them."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.ledger.codec.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.codec.scval import CONTRACT_INSTANCE, STELLAR_ASSET, WASM, ContractInstance, ScVal, decode_scval
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, address, string, symbol, vec
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.protocols import storage_answers

LEDGER = 53_000_000
NOW = 1_725_274_219
UNKNOWN_CODE = bytes(range(32))


def stellar(token: str) -> ScVal:
    return vec(symbol("Stellar"), address(token))


def other(name: str) -> ScVal:
    return vec(symbol("Other"), symbol(name))


class Stored:
    """The entries of some contracts after one ledger."""

    def __init__(self) -> None:
        self.entries: dict[bytes, RawEntry] = {}

    def put(self, contract: str, key: ScVal, value: ScVal, durability: int = PERSISTENT) -> None:
        data = encode_contract_data(ContractData(contract, key, durability, value))
        self.entries[data_key(contract, key, durability)] = RawEntry(data, LEDGER, None)

    def deploy(
        self, contract: str, storage: Iterable[tuple[ScVal, ScVal]] = (), wasm_hash: bytes | None = UNKNOWN_CODE
    ) -> None:
        """Store an instance; one without a hash is a Stellar asset."""
        kind = STELLAR_ASSET if wasm_hash is None else WASM
        instance = ContractInstance(kind, wasm_hash, None, tuple(storage))
        self.put(contract, INSTANCE_KEY, (CONTRACT_INSTANCE, instance))

    def code(self, content: bytes, wasm_hash: bytes = UNKNOWN_CODE) -> None:
        data = b"\0\0\0\7\0\0\0\0" + wasm_hash + len(content).to_bytes(4, "big") + content + bytes(-len(content) % 4)
        self.entries[b"\0\0\0\7" + wasm_hash] = RawEntry(data, LEDGER, None)

    def ask(self, contract: str, function: str, *arguments: ScVal, now: int = NOW) -> SimulationAnswer:
        return storage_answers(self.entries.get, LEDGER, now).answer(ContractCall(contract, function, arguments))

    def value(self, contract: str, function: str, *arguments: ScVal, now: int = NOW) -> ScVal:
        answer = self.ask(contract, function, *arguments, now=now)
        assert answer.error is None
        assert answer.result is not None
        return decode_scval(answer.result)

    def error(self, contract: str, function: str, *arguments: ScVal, now: int = NOW) -> str:
        answer = self.ask(contract, function, *arguments, now=now)
        assert answer.result is None
        assert answer.error is not None
        return answer.error


def by_string(**settings: ScVal) -> list[tuple[ScVal, ScVal]]:
    return [(string(name), value) for name, value in settings.items()]


def by_name(**settings: ScVal) -> list[tuple[ScVal, ScVal]]:
    return [(symbol(name), value) for name, value in settings.items()]


def by_variant(**settings: ScVal) -> list[tuple[ScVal, ScVal]]:
    return [(vec(symbol(name)), value) for name, value in settings.items()]
