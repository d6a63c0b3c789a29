"""A ledger of Blend pools for tests, written entry by entry: both contract generations, tokens, zones and oracles.

    ledger = BlendLedger()
    ledger.add_market("A", "v2", ["USDC", "XLM"])
    ledger.set_price("A oracle", "USDC", 10**7, NOW)
    ledger.replace(reserve_data("A", "XLM", "v2", d_supply=0))
    tables = ledger.compute([demanded("A")])

Contracts are named by labels: ``contract("A")`` is the strkey of A. The shapes are those of blend.md, "Keys", written
with nothing but the codec; what simulated calls give is set beside the entries.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from exporter.deployments import BACKSTOP, MARKET, Deployment, KnownContract
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import PERSISTENT, ContractData, data_key, encode_contract_data, instance_key
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import (
    INSTANCE_KEY,
    VOID,
    address,
    encode_scval,
    i128,
    string,
    struct_map,
    symbol,
    u32,
    u64,
    vec,
)
from exporter.ledger.source import ContractCall, SimulationAnswer
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.numbers.compute import Tables, compute
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from tests.chain_simulator import Chain, ChainSource

Written = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""

NOW = 1_800_000_000
"""The close time at which tests compute."""

# docs/protocols/blend.md, "Structure"
CODE = {
    "v1": bytes.fromhex("baf978f10efdbcd85747868bef8832845ea6809f7643b67a4ac0cd669327fc2c"),
    "v2": bytes.fromhex("a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"),
}
UNKNOWN_CODE = hashlib.sha256(b"some other code").digest()

# docs/protocols/blend.md, "Keys", config A
RESERVE_CONFIG: dict[str, int] = {
    "c_factor": 7_500_000, "decimals": 7, "index": 0, "l_factor": 7_500_000, "max_util": 9_500_000, "r_base": 100_000,
    "r_one": 500_000, "r_three": 15_000_000, "r_two": 5_000_000, "reactivity": 20, "util": 7_500_000,
}  # fmt: skip
RATE = {"v1": 10**9, "v2": 10**12}
MODIFIER = {"v1": 10**9, "v2": 10**7}

Raw = ScVal | None
"""A field given as a value of any kind, or None to leave it out."""


def contract(label: str) -> str:
    """The strkey of the contract with a label."""
    return strkey.encode(strkey.CONTRACT, hashlib.sha256(label.encode()).digest())


def account(label: str) -> str:
    """The strkey of an account with a label."""
    return strkey.encode(strkey.ACCOUNT, hashlib.sha256(label.encode()).digest())


def candidate(label: str) -> Candidate:
    """A published address."""
    return Candidate("blend", contract(label))


def demanded(label: str) -> Candidate:
    """An address that the operator named."""
    return Candidate("blend", contract(label), Origin.CONFIGURATION)


def entry(owner: str, key: ScVal, value: ScVal) -> Written:
    """A persistent contract data entry of the contract with a strkey."""
    data = encode_contract_data(ContractData(owner, key, PERSISTENT, value))
    return data_key(owner, key, PERSISTENT), data


def instance(
    owner: str, storage: Sequence[tuple[ScVal, ScVal]] | None, wasm_hash: bytes | None = None, executable: int = 0
) -> Written:
    """An instance entry; ``executable`` is one of scval's constants, WASM by default."""
    code = wasm_hash if executable == scval.WASM else None
    pairs = None if storage is None else tuple(storage)
    return entry(owner, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(executable, code, None, pairs)))


def struct_of(fields: Mapping[str, Raw]) -> ScVal:
    """A struct without the fields that are None."""
    return struct_map({name: value for name, value in fields.items() if value is not None})


def pool_instance(
    market: str,
    generation: str = "v1",
    *,
    wasm_hash: bytes | None = None,
    name: bytes = b"Test",
    status: int = 1,
    oracle: str | None = None,
    bstop_rate: int = 2_000_000,
    config: Mapping[str, Raw] | None = None,
    storage: Mapping[str, Raw] | None = None,
) -> Written:
    """The instance of a pool; ``config`` and ``storage`` replace or remove fields of the Config and of the storage."""
    settings: dict[str, Raw] = {
        "bstop_rate": u32(bstop_rate),
        "max_positions": u32(4),
        "oracle": address(oracle or contract(f"{market} oracle")),
        "status": u32(status),
    }
    if generation == "v2":
        settings["min_collateral"] = i128(0)
    stored: dict[str, Raw] = {
        "Admin": address(account("admin")),
        "BLNDTkn": address(contract("BLND")),
        "Backstop": address(contract("backstop")),
        "Config": struct_of(settings | dict(config or {})),
        "Name": (scval.STRING, name),
    }
    if generation == "v1":
        stored["IsInit"] = (scval.BOOL, True)
    stored |= storage or {}
    pairs = [(symbol(key), value) for key, value in sorted(stored.items()) if value is not None]
    return instance(contract(market), pairs, wasm_hash or CODE[generation])


def reserve_list(market: str, assets: Sequence[str]) -> Written:
    """``ResList`` of assets given by label."""
    return entry(contract(market), symbol("ResList"), vec(*(address(contract(asset)) for asset in assets)))


def reserve_config(market: str, asset: str, generation: str = "v1", /, **changes: Any) -> Written:
    """``ResConfig``; a change is a number, a value of any kind, or None to leave the field out."""
    fields: dict[str, Raw] = {name: u32(value) for name, value in RESERVE_CONFIG.items()}
    if generation == "v2":
        fields |= {"enabled": (scval.BOOL, True), "supply_cap": i128(2**127 - 1)}
    fields |= {name: u32(value) if isinstance(value, int) else value for name, value in changes.items()}
    return entry(contract(market), vec(symbol("ResConfig"), address(contract(asset))), struct_of(fields))


def reserve_data(market: str, asset: str, generation: str = "v1", /, **changes: Any) -> Written:
    """``ResData``: 1000 tokens supplied and 500 lent a hundred seconds ago; changes as for ``reserve_config``."""
    fields: dict[str, Raw] = {
        "b_rate": i128(RATE[generation]),
        "b_supply": i128(1000 * 10**7),
        "backstop_credit": i128(0),
        "d_rate": i128(RATE[generation]),
        "d_supply": i128(500 * 10**7),
        "ir_mod": i128(MODIFIER[generation]),
        "last_time": u64(NOW - 100),
    }
    for name, value in changes.items():
        if isinstance(value, int):
            value = u64(value) if name == "last_time" else i128(value)
        fields[name] = value
    return entry(contract(market), vec(symbol("ResData"), address(contract(asset))), struct_of(fields))


def token_instance(
    token: str, token_symbol: bytes = b"USDC", decimals: int = 7, changes: Mapping[str, Raw] | None = None
) -> Written:
    """A token's instance with METADATA; ``changes`` replace or remove fields of it."""
    fields: dict[str, Raw] = {
        "decimal": u32(decimals),
        "name": string("A token"),
        "symbol": (scval.STRING, token_symbol),
    }
    metadata = struct_of(fields | dict(changes or {}))
    return instance(contract(token), [(symbol("METADATA"), metadata)], hashlib.sha256(b"token").digest())


def bare_token(token: str) -> Written:
    """A token's instance without METADATA."""
    return instance(contract(token), None, hashlib.sha256(b"another token").digest())


def reward_zone(backstop: str, value: ScVal) -> Written:
    """``RZ`` of a backstop given by label."""
    return entry(contract(backstop), symbol("RZ"), value)


def price_data(price: int, timestamp: int) -> ScVal:
    """SEP-40's PriceData."""
    return struct_map({"price": i128(price), "timestamp": u64(timestamp)})


class BlendSource(ChainSource):
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


class BlendLedger:
    """Entries and call results of one ledger. Every method that takes a contract takes its label."""

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[bytes, int | None]] = {}
        self.results: dict[ContractCall, ScVal | bytes | str] = {}
        self.source: BlendSource | None = None
        self.reading: ProtocolReading | None = None

    def replace(self, *written: Written) -> None:
        """Write entries, over those that stand under their keys."""
        self.entries |= {key: (data, None) for key, data in written}

    def remove(self, written: Written) -> None:
        """Take away what stands under an entry's key."""
        del self.entries[written[0]]

    def archive(self, written: Written) -> None:
        """Archive what stands under an entry's key."""
        self.entries[written[0]] = (self.entries[written[0]][0], 1)

    def add_market(self, market: str, generation: str = "v1", assets: Sequence[str] = ("USDC",)) -> None:
        """A pool with reserves, tokens, and an oracle of 7 decimals that prices each of them at 2 dollars now."""
        self.replace(pool_instance(market, generation), reserve_list(market, assets))
        self.set_decimals(f"{market} oracle", u32(7))
        for index, asset in enumerate(assets):
            self.replace(
                reserve_config(market, asset, generation, index=index), reserve_data(market, asset, generation)
            )
            self.replace(token_instance(asset, asset.encode()))
            self.set_price(f"{market} oracle", asset, 2 * 10**7, NOW)

    def set_decimals(self, oracle: str, result: ScVal | bytes | str) -> None:
        """What an oracle's ``decimals()`` gives."""
        self.results[ContractCall(contract(oracle), "decimals")] = result

    def set_price(self, oracle: str, token: str, price: int | None, timestamp: int = NOW) -> None:
        """What an oracle's ``lastprice()`` gives; None is no price."""
        self.set_lastprice(oracle, token, VOID if price is None else price_data(price, timestamp))

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

    def read(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = ()) -> Reading[ProtocolReading]:
        """Read through the one-ledger view; the source with its log stays in ``source``."""
        source = self.source = BlendSource(self.chain(), self.results)
        return asyncio.run(
            read_at_one_ledger(source, lambda view: PROTOCOLS["blend"].read(view, candidates, deployments))
        )

    def compute(
        self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = (), close_time: int = NOW
    ) -> Tables:
        """Read, and compute the tables; the reading stays in ``reading``."""
        reading = self.read(candidates, deployments)
        self.reading = reading.result
        return compute([reading.result], PROTOCOLS, reading.certificate.ledger, close_time)


def lastprice(oracle: str, token: str) -> ContractCall:
    """The call that asks an oracle for a token's price (docs/protocols/blend.md, "Prices")."""
    asset = vec(symbol("Stellar"), address(contract(token)))
    return ContractCall(contract(oracle), "lastprice", (asset,))


def zone_of(*labels: str) -> ScVal:
    """The value of a reward zone of pools given by label."""
    return vec(*(address(contract(label)) for label in labels))


def deployment(backstop: str = "backstop", markets: Sequence[str] = ()) -> Deployment:
    """A deployment with a backstop and the markets known of it, by label."""
    contracts = [(BACKSTOP, backstop), *((MARKET, market) for market in markets)]
    made = tuple(KnownContract(contract(label), role, "test", datetime.date(2026, 11, 18)) for role, label in contracts)
    return Deployment("blend", "test", made)


def key_of_instance(label: str) -> bytes:
    """The ledger key of a contract's instance."""
    return instance_key(contract(label))
