"""Entries and answers of calls for tests, of contracts that are named by labels: ``contract("A")`` is A's strkey."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence

from exporter.deployments import KnownContract
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import (
    PERSISTENT,
    ContractData,
    data_key,
    encode_contract_data,
)
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
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from tests.chain_simulator import Chain, ChainSource
from tests.entries import recorded_instance

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


def token_instance(
    token: str, token_symbol: bytes = b"USDC", decimals: int = 7, changes: Mapping[str, Raw] | None = None
) -> Written:
    """A token's instance with METADATA; ``changes`` replace or remove fields of it."""
    fields = {"decimal": u32(decimals), "name": string("A token"), "symbol": (scval.STRING, token_symbol)}
    metadata = changed(struct_map(fields), changes or {})
    return instance(contract(token), [(symbol("METADATA"), metadata)], hashlib.sha256(b"token").digest())


def stellar_asset(label: str) -> Written:
    """The instance of a Stellar asset of 7 decimals whose code is the label."""
    template = dict(recorded_instance("AssetInfo").storage or ())
    fields = {"decimal": u32(7), "name": string(f"{label}:{account('admin')}"), "symbol": string(label)}
    template[symbol("METADATA")] = struct_map(fields)
    return instance(contract(label), list(template.items()), executable=scval.STELLAR_ASSET)


def balance_at(token: str, holder: str, amount: int) -> Written:
    """What a contract has of a Stellar asset, by their strkeys."""
    rights = {"authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
    return entry(token, vec(symbol("Balance"), address(holder)), struct_map({"amount": i128(amount), **rights}))


def bare_token(token: str) -> Written:
    """A token's instance without METADATA."""
    return instance(contract(token), None, hashlib.sha256(b"another token").digest())


def lastprice(oracle: str, token: str) -> ContractCall:
    """The call that asks an oracle for a token's price (docs/protocols/blend.md, "Prices")."""
    asset = vec(symbol("Stellar"), address(contract(token)))
    return ContractCall(contract(oracle), "lastprice", (asset,))


class MadeSource(ChainSource):
    """The chain's entries, and for calls the results that were set; a call without one traps. It logs the calls."""

    def __init__(self, chain: Chain, results: Mapping[ContractCall, ScVal | bytes | str]) -> None:
        super().__init__(chain)
        self.results = results
        self.calls: list[ContractCall] = []

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """A value, the bytes of one, or as a text the error of the call."""
        self.calls.append(call)
        result = self.results.get(call, "HostError: Error(WasmVm, MissingValue)")
        if isinstance(result, str):
            return SimulationAnswer(self.chain.ledger, None, result, (), "simulated")
        data = result if isinstance(result, bytes) else encode_scval(result)
        return SimulationAnswer(self.chain.ledger, data, None, (), "simulated")


class MadeLedger:
    """Entries and call results of one ledger, and how a protocol reads it. Methods take the labels of contracts."""

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[bytes, int | None]] = {}
        self.results: dict[ContractCall, ScVal | bytes | str] = {}

    def replace(self, *written: Written) -> None:
        """Write entries, over those of their keys."""
        self.entries |= {key: (data, None) for key, data in written}

    def archive(self, written: Written) -> None:
        """Archive the entry of an entry's key."""
        self.entries[written[0]] = (self.entries[written[0]][0], 1)

    def set_decimals(self, oracle: str, result: ScVal | bytes | str) -> None:
        """What an oracle's ``decimals()`` gives."""
        self.results[ContractCall(contract(oracle), "decimals")] = result

    def set_lastprice(self, oracle: str, token: str, result: ScVal | bytes | str) -> None:
        """What an oracle's ``lastprice()`` gives, of any kind."""
        self.results[lastprice(oracle, token)] = result

    def set_function(self, token: str, function: str, result: ScVal | bytes | str) -> None:
        """What a function without arguments gives."""
        self.results[ContractCall(contract(token), function)] = result

    def chain(self) -> Chain:
        """The chain at the first ledger at which everything has closed."""
        chain = Chain()
        for key, (data, live_until) in self.entries.items():
            chain.put(key, data, live_until)
        chain.close_ledger()
        return chain
