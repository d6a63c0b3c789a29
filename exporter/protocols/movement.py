"""Describes how a simulated network moves pools: which numbers change when somebody supplies or borrows.

A protocol's package describes its pools as `MovingPool`, and `exporter.localnet.mover` moves them. No run that is
published uses this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data, instance_key, variant_key
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import address, symbol

DataLookup = Callable[[bytes], bytes | None]
"""Gives the LedgerEntryData XDR of the entry under a ledger key; None if there is none."""


class NumberField(Struct, frozen=True):
    """A number in an entry."""

    key: bytes
    """The entry's ledger key."""
    path: tuple[ScVal, ...]
    """The keys of nested maps that lead to the number; empty if the entry is the number."""
    first: int = 1
    """How much the number grows with the first base unit of a token."""
    bits: tuple[int, int] | None = None
    """The bits of a bitmap that hold the number: the first one and their count. None without a bitmap."""

    def read(self, look: DataLookup) -> int:
        """The number; 0 if the entry does not have it."""
        data = look(self.key)
        value: ScVal | None = None if data is None else decode_contract_data(data).value
        for step in self.path:
            pairs = () if value is None else pairs_of(value)
            value = next((item for name, item in pairs if name == step), None)
        stored = 0 if value is None else int(value[1])
        if self.bits is None:
            return stored
        first, count = self.bits
        return stored >> first & (1 << count) - 1

    def write(self, look: DataLookup, number: int) -> bytes | None:
        """The entry's LedgerEntryData XDR with another number; None if there is no entry."""
        data = look(self.key)
        if data is None:
            return None
        entry = decode_contract_data(data)
        if self.bits is not None:
            bitmap = replace(self, bits=None).read(look)
            first, _ = self.bits
            number = bitmap + (number - self.read(look) << first)
        return encode_contract_data(entry._replace(value=_with_number(entry.value, self.path, number)))


class MovingPool(Struct, frozen=True):
    """A pool that a simulated network can move."""

    key: bytes
    """The ledger key of the entry by which the protocol's accrual rule recognises accruals."""
    token: str
    """The token's address."""
    time: NumberField
    """The time of the last accrual, in unix seconds."""
    accrued: Callable[[str], NumberField]
    """Gives the field for each name that the accrual rule computes."""
    supply: tuple[NumberField, ...]
    """The fields that change when somebody supplies."""
    debt: tuple[NumberField, ...]
    """The fields that change when somebody borrows. The debt in tokens is the first one times ``index`` / ``scale``."""
    cash: tuple[NumberField, ...]
    """The fields that say how many tokens the pool holds."""
    aside: tuple[NumberField, ...] = ()
    """The fields of amounts that are neither: what the protocol keeps, and collateral that is not lent."""
    term: Callable[[str], NumberField] | None = None
    """The fields of the terms that its rates follow from, by name; None if they are not known here."""
    index: NumberField | None = None
    """The debt's index; None if the debt is kept in tokens."""
    scale: int = 1
    """The scale of ``index``."""
    milliseconds: bool = False
    """Whether ``time`` is in milliseconds and not in seconds."""
    settled: tuple[str, ...] = ()
    """Accrued names that depend on the moved amounts, so that they are computed after the move."""
    fees: str | None = None
    """The name of the protocol's own shares, which are part of the supply and grow with interest; None without such."""
    protocol: str = ""
    """The protocol's name."""
    decimals: int = 0
    """The token's decimals."""

    @property
    def market(self) -> str:
        """The address of the contract that has the entry."""
        return strkey.encode_contract(self.key[8:40])

    @property
    def keys(self) -> frozenset[bytes]:
        """The ledger keys of the entries that a move changes."""
        return frozenset(item.key for item in (self.time, *self.supply, *self.debt, *self.cash))

    def owed(self, look: DataLookup) -> int:
        """The debt in base units of the token."""
        raw = self.debt[0].read(look)
        return raw if self.index is None else raw * self.index.read(look) // self.scale

    def free(self, look: DataLookup) -> int:
        """The tokens that the pool holds, in base units."""
        return self.cash[0].read(look) if self.cash else 0


MovingPoolsIn = Callable[[bytes, DataLookup], Iterator[MovingPool]]
"""Gives the pools whose accruals an entry shows. It takes the entry's ledger key, and looks up others."""


def pairs_of(value: ScVal) -> tuple[tuple[ScVal, ScVal], ...]:
    """The pairs of a map or of an instance's storage. Other values have none."""
    if value[0] == scval.CONTRACT_INSTANCE:
        return value[1].storage or ()
    return value[1] or () if value[0] == scval.MAP else ()


def text_at(look: DataLookup, key: bytes, *path: ScVal) -> str:
    """The text or address at a path in an entry. The entry must exist."""
    value = decode_contract_data(look(key) or b"").value
    for step in path:
        value = dict(pairs_of(value))[step]
    return str(value[1])


def token_of_variant(key: bytes, look: DataLookup) -> str:
    """The address in the second part of an entry's key, as the token is in ``ResData(token)``."""
    return str(decode_contract_data(look(key) or b"").key[1][1][1])


def fields_at(key: bytes, *path: ScVal) -> Callable[[str], NumberField]:
    """A function that gives the fields of a struct by name. The struct is at this path in an entry."""
    return lambda name: NumberField(key, (*path, symbol(name)))


def token_decimals(look: DataLookup, token: str) -> int:
    """The decimals of a token, as its contract's instance states them."""
    return NumberField(instance_key(token), (symbol("METADATA"), symbol("decimal"))).read(look)


def token_symbol(look: DataLookup, token: str) -> str:
    """The symbol of a token, as its contract's instance has it; empty if it has none."""
    value: ScVal = decode_contract_data(look(instance_key(token)) or b"").value
    for step in (symbol("METADATA"), symbol("symbol")):
        value = dict(pairs_of(value)).get(step, (scval.VOID, None))
    return value[1].decode("utf-8", "replace") if value[0] == scval.STRING else ""


def balance_field(look: DataLookup, token: str, holder: str) -> NumberField:
    """The field of a contract's balance of a token. A Stellar asset keeps a struct, and the SDK's token a number."""
    key = variant_key(token, "Balance", address(holder))
    data = look(key)
    is_number = data is not None and decode_contract_data(data).value[0] == scval.I128
    return NumberField(key, () if is_number else (symbol("amount"),))


def _with_number(value: ScVal, path: tuple[ScVal, ...], number: int) -> ScVal:
    if not path:
        return (value[0], number)
    pairs = tuple(
        (name, _with_number(item, path[1:], number) if name == path[0] else item) for name, item in pairs_of(value)
    )
    if value[0] == scval.CONTRACT_INSTANCE:
        content: ContractInstance = value[1]
        return (value[0], content._replace(storage=pairs))
    return (value[0], pairs)
