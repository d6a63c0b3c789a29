"""Contract code of the embedded network: native stand-ins that a simulated call runs instead of wasm.

A stand-in is a Python function that belongs to a wasm hash, or to the Stellar asset executable. It sees the ledger
only through `Host`, which fixes the ledger and records every key that was looked at, found or absent: the footprint.
Contracts whose code is not here (Blend's v1 pools) have entries like all others, but a call of them fails.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from exporter.errors import DecodeError
from exporter.ledger.codec.entries import (
    ARCHIVED,
    PERSISTENT,
    code_key,
    data_key,
    decode_contract_data,
    instance_key,
    instance_of,
)
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.chain import Chain

MISSING_CONTRACT = "Error(Storage, MissingValue)"
MISSING_FUNCTION = "Error(WasmVm, MissingValue)"
WRONG_ARGUMENTS = "Error(WasmVm, UnexpectedSize)"
REENTRY = "Error(Context, InvalidAction)"

_RESOURCES = struct.pack(">IIIq", 1_000_000, 1_000, 0, 50_000)  # instructions, read and write bytes, fee in stroops
MIN_RESOURCE_FEE = 50_000


class TrapError(Exception):
    """A contract call failed; the message is the host's error, such as ``Error(Contract, #2)``."""


class Host:
    """What contract code sees of the ledger, at one ledger; ``footprint`` has every key it looked at.

    ``run`` is how a call of a contract is run: those that code makes itself share the footprint.
    """

    def __init__(self, chain: Chain, ledger: int, run: Callable[[Host, ContractCall], ScVal]) -> None:
        self._chain = chain
        self._run = run
        self._running: list[str] = []
        self.ledger = ledger
        self.timestamp = chain.close_time(ledger)
        self.footprint: dict[bytes, RawEntry | None] = {}

    def read(self, key: bytes) -> RawEntry | None:
        """The entry under a LedgerKey; an archived one looks restored (docs/rpc.md, "Simulation")."""
        self.footprint[key] = self._chain.entry(key, self.ledger)
        return self.footprint[key]

    def data(self, contract: str, key: ScVal, durability: int = PERSISTENT) -> ScVal | None:
        """The value a contract stores under a key, or None."""
        entry = self.read(data_key(contract, key, durability))
        return None if entry is None else decode_contract_data(entry.data).value

    def instance(self, contract: str) -> ContractInstance:
        """The instance of a contract. Raises `TrapError` where there is none."""
        entry = self.read(instance_key(contract))
        if entry is None:
            raise TrapError(MISSING_CONTRACT)
        return instance_of(decode_contract_data(entry.data))

    def call(self, call: ContractCall) -> ScVal:
        """Run a call, of a contract that is not running already. Raises `TrapError` where it fails."""
        if call.contract in self._running:
            raise TrapError(REENTRY)
        self._running.append(call.contract)
        try:
            return self._run(self, call)
        except DecodeError as error:  # an entry holds something else than its contract's code expects
            raise TrapError(f"Error(Value, UnexpectedType): {error}") from None
        finally:
            self._running.pop()


Code: TypeAlias = Callable[[Host, str, str, tuple[ScVal, ...]], ScVal]
"""A stand-in: (host, contract strkey, function, arguments) to the result. It raises `TrapError` to fail."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated call gave: ``result`` (ScVal XDR) with its footprint, or the ``error`` of the host."""

    result: bytes | None
    error: str | None
    footprint: Mapping[bytes, RawEntry | None]

    def transaction_data(self) -> bytes:
        """The SorobanTransactionData XDR, with the footprint; archived entries are to be restored, hence written."""
        archived = [key for key, entry in self.footprint.items() if entry is not None and entry.live_until == ARCHIVED]
        quiet = [key for key in self.footprint if key not in archived]
        extension = b"\0\0\0\0"
        if archived:
            extension = struct.pack(f">II{len(archived)}I", 1, len(archived), *range(len(archived)))
        read_only = struct.pack(">I", len(quiet)) + b"".join(quiet)
        read_write = struct.pack(">I", len(archived)) + b"".join(archived)
        return extension + read_only + read_write + _RESOURCES


class Contracts:
    """The code of a network: stand-ins by wasm hash, and one for every Stellar asset contract."""

    def __init__(self, by_wasm_hash: Mapping[bytes, Code] | None = None, stellar_asset: Code | None = None) -> None:
        self._by_wasm_hash = dict(by_wasm_hash or {})
        self._stellar_asset = stellar_asset

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        """Run one call on the state of a ledger."""
        host = Host(chain, ledger, self._run)
        try:
            result = encode_scval(host.call(call))
        except TrapError as error:
            return Simulation(None, f"HostError: {error}\n\nEvent log (newest first):\n", {})
        except DecodeError as error:  # what the code gave is no value
            return Simulation(None, f"HostError: Error(Value, UnexpectedType): {error}", {})
        return Simulation(result, None, host.footprint)

    def _run(self, host: Host, call: ContractCall) -> ScVal:
        instance = host.instance(call.contract)
        code = self._stellar_asset
        if instance.wasm_hash is not None:
            host.read(code_key(instance.wasm_hash))
            code = self._by_wasm_hash.get(instance.wasm_hash)
        if code is None:
            raise TrapError(MISSING_CONTRACT)
        return code(host, call.contract, call.function, call.arguments)


def made_wasm(name: str) -> bytes:
    """A wasm module that does nothing but has this name in it; its SHA-256 is a wasm hash to give code to."""
    label = name.encode()
    content = bytes((len(label),)) + label
    return b"\0asm\1\0\0\0" + bytes((0, len(content))) + content


def wasm_hash(wasm: bytes) -> bytes:
    """What a contract code entry is keyed by."""
    return hashlib.sha256(wasm).digest()


def storage_of(instance: ContractInstance, key: ScVal) -> ScVal | None:
    """The value under a key of the instance storage, or None."""
    return next((value for name, value in instance.storage or () if name == key), None)
