"""A rule's view of the ledger: entries by key, other contracts by calling them, and the ledger's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol, TypeAlias

from exporter.errors import DecodeError
from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.fields import Fields, expect
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import VOID, i128, string, struct_map, symbol, u64
from exporter.ledger.source import RawEntry

MAX_KEYS: Final = 400
"""The most entries that a call may look at. No network lets a transaction look at more."""

I128_MAX: Final = 2**127 - 1
U64_MAX: Final = 2**64 - 1

PANIC: Final = "Error(WasmVm, InvalidAction)"
"""The error of unwrapping nothing, or of an overflow."""

BUDGET: Final = "Error(Budget, ExceededLimit)"


Call: TypeAlias = Sequence[Any]
"""A call of a contract that is known: the function's name, then its arguments, which are ScVals."""


class NotFromStorageError(Exception):
    """The call's result could not be computed from entries; the message says what is missing or unknown."""


class TrapError(Exception):
    """The contract itself fails; the message is the host's error, such as ``Error(Contract, #105)``."""


@dataclass(frozen=True)
class Contract:
    """A contract as its instance entry has it."""

    address: str
    instance: ContractInstance

    @cached_property
    def storage(self) -> dict[ScVal, ScVal]:
        return dict(self.instance.storage or ())

    def symbols(self, *names: str) -> bool:
        """Whether the instance storage has all of these bare symbols as keys."""
        return all(symbol(name) in self.storage for name in names)

    def strings(self, *names: str) -> bool:
        return all(string(name) in self.storage for name in names)

    def get(self, key: ScVal, kind: int) -> object:
        """The payload under a key of the instance storage, or None. Raises `DecodeError` for another kind."""
        value = self.storage.get(key)
        return None if value is None else expect(value, kind, f"{self.address}: instance storage")

    @property
    def fields(self) -> Fields:
        return Fields(self.instance.storage, f"{self.address}: instance storage")


@lru_cache(maxsize=256)
def _contract(address: str, data: bytes, held: bytes | None) -> Contract:
    """An instance decoded once: many calls ask the same contract, at one ledger and at the next."""
    instance = entries.instance_of(entries.decode_contract_data(data))
    return Contract(address, entries.with_held_code(instance, held))


class StorageHost:
    """The state of one ledger as contract code sees it; ``footprint`` has every key that was looked at.

    ``read`` gives an entry as a reader at the ledger sees it, or None. The first rule that fits answers a call.
    """

    def __init__(self, read: Callable[[bytes], RawEntry | None], close_time: int, rules: Sequence[Rule]) -> None:
        self._read = read
        self._rules = rules
        self._running: list[str] = []
        self.now = close_time
        self.footprint: dict[bytes, None] = {}

    def entry(self, key: bytes) -> RawEntry | None:
        """The entry under a LedgerKey; an archived one has its data, as a simulation would restore it."""
        self.footprint[key] = None
        if len(self.footprint) > MAX_KEYS:
            raise NotFromStorageError(f"the call would look at more than {MAX_KEYS} entries")
        return self._read(key)

    def data(self, contract: str, key: ScVal, durability: int = entries.PERSISTENT) -> ScVal | None:
        entry = self.entry(entries.data_key(contract, key, durability))
        return None if entry is None else entries.decode_contract_data(entry.data).value

    def contract(self, address: str) -> Contract:
        """A contract by its strkey. If it has no instance here, it may still exist on the network."""
        if not address.startswith("C"):
            raise NotFromStorageError(f"{address} is not a contract")
        entry = self.entry(entries.instance_key(address))
        if entry is None:
            raise NotFromStorageError(f"the instance of {address} is not held")
        holder = entries.code_holder_key(entry.data)
        held = None if holder is None else self.entry(holder)
        return _contract(address, entry.data, None if held is None else held.data)

    def code(self, contract: Contract) -> bytes | None:
        """The LedgerEntryData of a contract's code, with its wasm, or None if it is not among the entries."""
        wasm_hash = contract.instance.wasm_hash
        entry = None if wasm_hash is None else self.entry(entries.code_key(wasm_hash))
        return None if entry is None else entry.data

    def call(self, address: str, function: str, *arguments: ScVal) -> ScVal:
        """Call a contract. Raises `TrapError` where it fails, and `NotFromStorageError`."""
        if address in self._running:
            raise TrapError("Error(Context, InvalidAction)")
        contract = self.contract(address)
        self._running.append(address)
        try:
            for rule in self._rules:
                if rule.recognises(self, contract):
                    return rule.answer(self, contract, (function, *arguments))
        finally:
            self._running.pop()
        wasm_hash = contract.instance.wasm_hash
        code = "an asset contract" if wasm_hash is None else f"code {wasm_hash.hex()[:16]}"
        raise NotFromStorageError(f"no rule for {address}, which runs {code}")

    def try_call(self, address: str, function: str, *arguments: ScVal) -> ScVal | None:
        """The result of `call`, or None if the contract fails: for callers that handle the failure themselves."""
        try:
            return self.call(address, function, *arguments)
        except TrapError as error:
            if str(error) == BUDGET:  # no contract can handle that failure
                raise
            return None


class Rule(Protocol):
    """The rule of one contract, or of a family of releases: a module with these functions."""

    def recognises(self, host: StorageHost, contract: Contract) -> bool: ...

    def answer(self, host: StorageHost, contract: Contract, call: Call) -> ScVal:
        """The result of a call. Raises `TrapError`, `NotFromStorageError`, `DecodeError`."""
        ...


def unknown_function(call: Call) -> NotFromStorageError:
    """The error for a function, or for arguments, of a known contract without a rule."""
    return NotFromStorageError(f"no rule for {call[0]}() with {len(call) - 1} arguments")


def present(value: ScVal | None) -> ScVal:
    """A value that the contract relies on. Raises `TrapError` if it is None, as the contract panics then."""
    if value is None:
        raise TrapError(PANIC)
    return value


def signed(value: int) -> int:
    """A result that must fit into an i128, or the contract panics."""
    if not -I128_MAX - 1 <= value <= I128_MAX:
        raise TrapError(PANIC)
    return value


def unsigned(value: int) -> int:
    """A result that must fit into a u64, or the contract panics."""
    if not 0 <= value <= U64_MAX:
        raise TrapError(PANIC)
    return value


def truncated(dividend: int, divisor: int) -> int:
    """Rust's integer division, towards zero."""
    if divisor == 0:
        raise TrapError(PANIC)
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def rescaled(price: int, given: int, wanted: int) -> int:
    """A price converted to another number of decimals, truncated as Rust's division does."""
    if abs(given - wanted) > 38:  # 10^39 does not fit
        raise TrapError(PANIC)
    return truncated(price, 10 ** (given - wanted)) if given > wanted else signed(price * 10 ** (wanted - given))


def price_data(price: int, timestamp: int) -> ScVal:
    """SEP-40's ``PriceData``."""
    return struct_map({"price": i128(price), "timestamp": u64(timestamp)})


def price_parts(value: ScVal) -> tuple[int, int] | None:
    """Price and timestamp of an optional `price_data`."""
    if value == VOID:
        return None
    fields = Fields.of(value, "price")
    return fields.i128("price"), fields.u64("timestamp")


def items(value: ScVal, what: str) -> tuple[ScVal, ...]:
    """The items of a vector."""
    payload = expect(value, scval.VEC, what)
    if payload is None:
        raise DecodeError(f"{what}: the vector is missing")
    return tuple(payload)
