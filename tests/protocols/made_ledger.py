"""Entries and answers of calls for tests, of contracts that are named by labels: ``contract("A")`` is A's strkey."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence

from exporter.deployments import KnownContract
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import (
    INSTANCE_KEY,
    address,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    vec,
)
from exporter.ledger.observation import Entry
from exporter.ledger.source import ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from tests.recorded_entries import recorded_instance

Written = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""

Raw = ScVal | None
"""A field given as a value of any kind, or None to leave it out."""

NOW = 1_800_000_000
"""The close time at which tests compute."""

UNKNOWN_CODE = hashlib.sha256(b"some other code").digest()


def contract(label: str) -> str:
    """The strkey of the contract with a label."""
    return strkey.encode(strkey.CONTRACT, hashlib.sha256(label.encode()).digest())


def known(label: str, role: str, name: str = "", wasm_hash: bytes | None = None) -> KnownContract:
    """A contract that a list has."""
    code = None if wasm_hash is None else wasm_hash.hex()
    return KnownContract(contract(label), role, "test", datetime.date(2026, 11, 18), name, code)


def account(label: str) -> str:
    """The strkey of an account with a label."""
    return strkey.encode(strkey.ACCOUNT, hashlib.sha256(label.encode()).digest())


def entry(owner: str, key: ScVal, value: ScVal) -> Written:
    """A persistent contract data entry of the contract with a strkey."""
    data = encode_contract_data(ContractData(owner, key, PERSISTENT, value))
    return data_key(owner, key, PERSISTENT), data


def entry_of(written: Written) -> Entry:
    """An entry as it comes from a source."""
    return Entry(written[0], RawEntry(written[1], 1, None))


def instance(
    owner: str, storage: Sequence[tuple[ScVal, ScVal]] | None, wasm_hash: bytes | None = None, executable: int = 0
) -> Written:
    """An instance entry; ``executable`` is one of scval's constants, WASM by default."""
    code = wasm_hash if executable == scval.WASM else None
    pairs = None if storage is None else tuple(storage)
    return entry(owner, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(executable, code, None, pairs)))


def changed(struct: ScVal, changes: Mapping[str, Raw]) -> ScVal:
    """A struct with other fields; None leaves a field out."""
    fields = {name: value for (_, name), value in struct[1]} | dict(changes)
    return struct_map({name: value for name, value in fields.items() if value is not None})


def stellar_asset(label: str) -> Written:
    """The instance of a Stellar asset of 7 decimals whose code is the label."""
    template = dict(recorded_instance("AssetInfo").storage or ())
    fields = {"decimal": u32(7), "name": string(f"{label}:{account('admin')}"), "symbol": string(label)}
    template[symbol("METADATA")] = struct_map(fields)
    return instance(contract(label), list(template.items()), executable=scval.STELLAR_ASSET)


def balance_at(token: str, holder: str, amount: int) -> Written:
    """A contract's balance of a Stellar asset, both given by strkey."""
    rights = {"authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
    return entry(token, vec(symbol("Balance"), address(holder)), struct_map({"amount": i128(amount), **rights}))


def lastprice(oracle: str, token: str) -> ContractCall:
    """The call that asks an oracle for a token's price (docs/protocols/blend.md, "Prices")."""
    asset = vec(symbol("Stellar"), address(contract(token)))
    return ContractCall(contract(oracle), "lastprice", (asset,))


class MadeLedger:
    """A ledger as a source: entries, and of calls a value, its bytes, or as a text an error; any other call traps."""

    def __init__(self, *written: Written, results: Mapping[ContractCall, ScVal | bytes | str] | None = None) -> None:
        self.entries = {key: RawEntry(data, 1, None) for key, data in written}
        self.results = dict(results or {})
        self.calls: list[ContractCall] = []

    async def tip(self) -> int:
        return 100

    async def close_time(self, ledger: int) -> int:
        return NOW

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        found = {key: self.entries[key] for key in keys if key in self.entries}
        return [EntriesAnswer(100, tuple(keys), found, "made")]

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        self.calls.append(call)
        result = self.results.get(call, "HostError: Error(WasmVm, MissingValue)")
        if isinstance(result, str):
            return SimulationAnswer(100, None, result, (), "made")
        return SimulationAnswer(100, result if isinstance(result, bytes) else encode_scval(result), None, (), "made")
