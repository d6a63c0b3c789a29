"""The networks that the embedded RPC server serves: a chain, and the answers of its contracts."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import SnapshotFileError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ARCHIVED, decode_contract_data, instance_key, variant_key
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.recording import RecordedAnswer, answer_key
from exporter.protocols import storage_answers

MIN_RESOURCE_FEE: Final = 50_000
_RESOURCES: Final = struct.pack(">IIIq", 1_000_000, 1_000, 0, MIN_RESOURCE_FEE)
"""The resources of every call: instructions, bytes read and written, and the fee in stroops."""

_ERROR: Final = "HostError: Error({}, MissingValue)\n\nEvent log (newest first):\n"
_NO_SUCH_FUNCTION: Final = _ERROR.format("WasmVm")
_NO_SUCH_CONTRACT: Final = _ERROR.format("Storage")


class Simulation(Struct, frozen=True):
    """The result of simulating a call.

    Attributes:
        result: the returned value as ScVal XDR; None if the call failed.
        error: the host's error text; None if the call succeeded.
        footprint: the entries that the call looked at, by key.
    """

    result: bytes | None
    error: str | None
    footprint: Mapping[bytes, RawEntry | None]

    @property
    def restored(self) -> tuple[bytes, ...]:
        """The keys of archived entries that the call would restore."""
        return tuple(key for key, entry in self.footprint.items() if entry and entry.live_until == ARCHIVED)

    def transaction_data(self) -> bytes:
        """The SorobanTransactionData XDR of the call."""
        written = self.restored
        read = [key for key in self.footprint if key not in written]
        count = len(written)
        extension = struct.pack(f">II{count}I", 1, count, *range(count)) if written else bytes(4)
        keys = (struct.pack(">I", len(part)) + b"".join(part) for part in (read, written))
        return b"".join((extension, *keys, _RESOURCES))


class Answering(Protocol):
    """Something that answers calls of a network's contracts."""

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        """Simulate a call at a ledger."""
        ...


class PlayedAnswers:
    """Answers calls with recorded answers at the recorded ledger, and with storage rules at others.

    A call that no storage rule answers gets the error that a real server gives for an unknown function.
    """

    def __init__(
        self, recorded: Iterable[RecordedAnswer] = (), ledger: int = 0, *, balances_of_sdk_tokens: bool = True
    ) -> None:
        self._ledger, self._balances_of_sdk_tokens = ledger, balances_of_sdk_tokens
        self._recorded = {(item.contract, item.function, tuple(item.arguments)): item for item in recorded}

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        key = instance_key(call.contract)
        instance = chain.entry(key, ledger)
        if instance is None:
            return Simulation(None, _NO_SUCH_CONTRACT, {key: None})
        recorded = self._recorded.get(answer_key(call)) if ledger == self._ledger else None
        if recorded is not None:
            return Simulation(recorded.result, recorded.error, {key: instance})
        rules = storage_answers(lambda key: chain.entry(key, ledger), ledger, chain.close_time(ledger))
        answer = rules.answer(call)
        footprint = {key: instance} | {key: chain.entry(key, ledger) for key in answer.footprint}
        if answer.error is None:
            return Simulation(answer.result, None, footprint)
        if self._balances_of_sdk_tokens and call.function == "balance" and len(call.arguments) == 1:
            key = variant_key(call.contract, "Balance", *call.arguments)
            balance = chain.entry(key, ledger)
            value = None if balance is None else decode_contract_data(balance.data).value
            if value is not None and value[0] == scval.I128:  # tokens made with the Soroban SDK store it so
                return Simulation(encode_scval(value), None, footprint | {key: balance})
        unknown = answer.error.startswith(NOT_FROM_STORAGE)
        return Simulation(None, _NO_SUCH_FUNCTION if unknown else answer.error, footprint)


class LocalNetwork:
    """A network whose ledgers do not close. ``contracts`` answers its calls; without it, storage rules do."""

    def __init__(
        self, chain: Chain, passphrase: str, protocol_version: int, contracts: Answering | None = None
    ) -> None:
        self.chain = chain
        self.passphrase = passphrase
        self.protocol_version = protocol_version
        self.contracts = contracts or PlayedAnswers()

    def advance(self) -> int:
        """Close a ledger, in networks that do, and return the latest one."""
        return self.chain.latest


def snapshot_network(snapshot: LedgerSnapshot, passphrase: str | None = None) -> LocalNetwork:
    """A network with the one ledger of a snapshot file. Without a ``passphrase``, those of known networks are tried.

    Raises `SnapshotFileError` if the file is of another network.
    """
    candidates = [network.passphrase for network in NETWORKS.values()] if passphrase is None else [passphrase]
    for candidate in candidates:
        if network_id(candidate) == snapshot.network_id:
            chain = Chain(snapshot.entries, start_ledger=snapshot.ledger, start_time=snapshot.close_time)
            return LocalNetwork(chain, candidate, snapshot.protocol_version)
    problem = "a network that is not known here: give its passphrase" if passphrase is None else "another network"
    raise SnapshotFileError(f"the ledger snapshot file is of {problem} (its network_id is {snapshot.network_id})")
