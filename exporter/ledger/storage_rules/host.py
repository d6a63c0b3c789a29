"""The ledger as a rule sees it: entries by key, calls of other contracts, and the ledger's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

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
"""The error of a contract that unwraps an absent value, or that overflows."""

BUDGET: Final = "Error(Budget, ExceededLimit)"


Call: TypeAlias = Sequence[Any]
"""A call of a contract: the function's name, then its arguments, which are ScVals."""


class NotFromStorageError(Exception):
    """The error of a call whose result cannot be computed from entries. It says what is missing or unknown."""


class TrapError(Exception):
    """The error of a call in which the contract itself fails. It is the host's error, as ``Error(Contract, #105)``."""


class Contract(Struct, frozen=True, dict=True):
    """A contract's address and its instance."""

    address: str
    instance: ContractInstance

    @cached_property
    def storage(self) -> dict[ScVal, ScVal]:
        """The values of the instance storage by key."""
        return dict(self.instance.storage or ())

    def symbols(self, *names: str) -> bool:
        """Whether the instance storage has all of these bare symbols as keys."""
        return all(symbol(name) in self.storage for name in names)

    def strings(self, *names: str) -> bool:
        """Whether the instance storage has all of these strings as keys."""
        return all(string(name) in self.storage for name in names)

    def get(self, key: ScVal, kind: int) -> object:
        """The payload under a key of the instance storage, or None. Raises `DecodeError` for another kind."""
        value = self.storage.get(key)
        return None if value is None else expect(value, kind, f"{self.address}: instance storage")

    @property
    def fields(self) -> Fields:
        """The instance storage as fields, which are read by name."""
        return Fields(self.instance.storage, f"{self.address}: instance storage")


@lru_cache(maxsize=256)
def _contract(address: str, data: bytes, held: bytes | None) -> Contract:
    """The contract of an instance entry. ``held`` is the entry that holds its code, if another contract does (CAP-85).

    Results are remembered, because many calls ask the same contract, at one ledger and at the next.
    """
    instance = entries.instance_of(entries.decode_contract_data(data))
    return Contract(address, entries.with_held_code(instance, held))


class StorageHost:
    """The state of one ledger as contract code sees it.

    ``read`` returns an entry as a reader at the ledger sees it, or None. The first of the ``rules`` that recognises a
    contract answers its calls. ``footprint`` has every key that was read.
    """

    def __init__(self, read: Callable[[bytes], RawEntry | None], close_time: int, rules: Sequence[Rule]) -> None:
        self._read = read
        self._rules = rules
        self._running: list[str] = []
        self.now = close_time
        self.footprint: dict[bytes, None] = {}

    def entry(self, key: bytes) -> RawEntry | None:
        """The entry under a LedgerKey, or None. An archived entry has its data, as a simulation would restore it."""
        self.footprint[key] = None
        if len(self.footprint) > MAX_KEYS:
            raise NotFromStorageError(f"the call would look at more than {MAX_KEYS} entries")
        return self._read(key)

    def data(self, contract: str, key: ScVal, durability: int = entries.PERSISTENT) -> ScVal | None:
        """The value of a contract's data entry, or None."""
        entry = self.entry(entries.data_key(contract, key, durability))
        return None if entry is None else entries.decode_contract_data(entry.data).value

    def contract(self, address: str) -> Contract:
        """The contract with a strkey. Raises `NotFromStorageError` without its instance.

        The contract may exist on the network all the same.
        """
        if not address.startswith("C"):
            raise NotFromStorageError(f"{address} is not a contract")
        entry = self.entry(entries.instance_key(address))
        if entry is None:
            raise NotFromStorageError(f"the instance of {address} is not held")
        holder = entries.code_holder_key(entry.data)
        held = None if holder is None else self.entry(holder)
        return _contract(address, entry.data, None if held is None else held.data)

    def code(self, contract: Contract) -> bytes | None:
        """The LedgerEntryData of a contract's code, which has the wasm. None if it is not among the entries."""
        wasm_hash = contract.instance.wasm_hash
        entry = None if wasm_hash is None else self.entry(entries.code_key(wasm_hash))
        return None if entry is None else entry.data

    def call(self, address: str, function: str, *arguments: ScVal) -> ScVal:
        """The result of calling a contract. Raises `TrapError` if the contract fails, and `NotFromStorageError`."""
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
        """The result of `call`, or None if the contract fails. It is for contracts that handle such a failure."""
        try:
            return self.call(address, function, *arguments)
        except TrapError as error:
            if str(error) == BUDGET:  # no contract can handle that failure
                raise
            return None


class Rule(Protocol):
    """The rule of one contract, or of several of its releases: a module with these functions."""

    def recognises(self, host: StorageHost, contract: Contract) -> bool:
        """Whether the rule answers the calls of a contract."""
        ...

    def answer(self, host: StorageHost, contract: Contract, call: Call) -> ScVal:
        """The result of a call. Raises `TrapError`, `NotFromStorageError`, `DecodeError`."""
        ...


def unknown_function(call: Call) -> NotFromStorageError:
    """The error for a call whose function or arguments have no rule, of a contract that has one."""
    return NotFromStorageError(f"no rule for {call[0]}() with {len(call) - 1} arguments")


def present(value: ScVal | None) -> ScVal:
    """The value itself. Raises `TrapError` if it is None, because the contract panics without it."""
    if value is None:
        raise TrapError(PANIC)
    return value


def signed(value: int) -> int:
    """The value itself. Raises `TrapError` if it does not fit into an i128, because the contract panics then."""
    if not -I128_MAX - 1 <= value <= I128_MAX:
        raise TrapError(PANIC)
    return value


def unsigned(value: int) -> int:
    """The value itself. Raises `TrapError` if it does not fit into a u64, because the contract panics then."""
    if not 0 <= value <= U64_MAX:
        raise TrapError(PANIC)
    return value


def truncated(dividend: int, divisor: int) -> int:
    """The quotient by Rust's integer division, which rounds toward zero. Raises `TrapError` for a divisor of 0."""
    if divisor == 0:
        raise TrapError(PANIC)
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def rescaled(price: int, from_decimals: int, to_decimals: int) -> int:
    """A price in another number of decimals, truncated as Rust's division does. Raises `TrapError` on an overflow."""
    if abs(from_decimals - to_decimals) > 38:  # 10^39 does not fit
        raise TrapError(PANIC)
    if from_decimals > to_decimals:
        return truncated(price, 10 ** (from_decimals - to_decimals))
    return signed(price * 10 ** (to_decimals - from_decimals))


def price_data(price: int, timestamp: int) -> ScVal:
    """A ``PriceData`` of SEP-40."""
    return struct_map({"price": i128(price), "timestamp": u64(timestamp)})


def price_parts(value: ScVal) -> tuple[int, int] | None:
    """The price and the timestamp of a `price_data`, or None for void."""
    if value == VOID:
        return None
    fields = Fields.of(value, "price")
    return fields.i128("price"), fields.u64("timestamp")


def items(value: ScVal, what: str) -> tuple[ScVal, ...]:
    """The items of a vector. Raises `DecodeError`, which calls the vector by ``what``."""
    payload = expect(value, scval.VEC, what)
    if payload is None:
        raise DecodeError(f"{what}: the vector is missing")
    return tuple(payload)
