"""Reading a contract's struct by field name and kind, with errors that name the field.

Contracts store a Rust struct as a map from symbols; its order is the ledger's business, so fields are always
taken by name. Fields that are not asked for are ignored: a contract upgrade may add some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import KIND_NAMES, ScVal


class Number(NamedTuple):
    """A number in a struct: its kind, and the lowest and highest value that the contract can compute with."""

    kind: int
    least: int = 0
    most: int = (1 << 127) - 1


AMOUNT: Final = Number(scval.I128)
"""An i128 that is not negative."""

TIME: Final = Number(scval.U64, most=(1 << 62) - 1)
"""A u64 of unix time, in seconds or a part of them; no clock will ever show a later time."""


_T = TypeVar("_T")


def decoded_or_none(decode: Callable[..., _T], *arguments: Any) -> _T | None:
    """The result of a decoder for these arguments, or None if it fails, even in a way that nobody foresaw."""
    with Barrier():
        return decode(*arguments)
    return None


def expect(value: ScVal, kind: int, what: str) -> Any:
    """The payload of a value that must be of ``kind``. Raises `DecodeError` naming ``what`` otherwise."""
    if value[0] != kind:
        raise DecodeError(f"{what}: expected {KIND_NAMES[kind]}, found {KIND_NAMES[value[0]]}")
    return value[1]


def text_of(content: bytes) -> str:
    """A contract's string as text; bytes that are not UTF-8 are shown as ``\\xNN`` rather than lost."""
    return content.decode("utf-8", "backslashreplace")


def addresses(value: ScVal, what: str, most: int) -> tuple[str, ...]:
    """A vector of at most ``most`` addresses, as strkeys. Raises `DecodeError`."""
    items = expect(value, scval.VEC, what)
    if items is None:
        raise DecodeError(f"{what}: the vector is missing")
    if len(items) > most:
        raise DecodeError(f"{what}: {len(items)} addresses, more than {most}")
    return tuple(expect(item, scval.ADDRESS, f"{what}[{index}]") for index, item in enumerate(items))


def contracts(value: ScVal, what: str, most: int) -> tuple[str, ...]:
    """A vector of at most ``most`` contracts, each listed once, as strkeys. Raises `DecodeError`."""
    strkeys = addresses(value, what, most)
    if len(set(strkeys)) != len(strkeys):
        raise DecodeError(f"{what}: an address is listed twice")
    if not all(contract.startswith("C") for contract in strkeys):
        raise DecodeError(f"{what}: an address is not a contract")
    return strkeys


def named(storage: Iterable[tuple[ScVal, ScVal]] | None) -> dict[str, ScVal]:
    """The values of a storage under symbols, and under enum variants without values, by name."""
    by_name = {}
    for (kind, payload), value in storage or ():
        if kind == scval.SYMBOL:
            by_name[payload] = value
        elif kind == scval.VEC and payload and len(payload) == 1 and payload[0][0] == scval.SYMBOL:
            by_name[payload[0][1]] = value
    return by_name


class Fields:
    """The fields of a struct, or the storage of a contract instance: by symbol, each read as one kind.

    ``what`` names the struct in errors. All readers raise `DecodeError` for a missing field or another kind.
    """

    def __init__(self, pairs: Iterable[tuple[ScVal, ScVal]] | None, what: str) -> None:
        self._what = what
        self._values: dict[str, ScVal] = {}
        for key, value in pairs or ():
            if key[0] == scval.SYMBOL:  # other keys (a token's own enum keys) are not our fields
                if key[1] in self._values:
                    raise DecodeError(f"{what}: field {key[1]} is listed twice")
                self._values[key[1]] = value

    @classmethod
    def of(cls, value: ScVal, what: str) -> Fields:
        return cls(expect(value, scval.MAP, what), what)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> ScVal | None:
        return self._values.get(name)

    def required(self, name: str) -> ScVal:
        value = self._values.get(name)
        if value is None:
            raise DecodeError(f"{self._what}: field {name} is missing")
        return value

    def _take(self, name: str, kind: int) -> Any:
        return expect(self.required(name), kind, f"{self._what}: field {name}")

    def u32(self, name: str) -> int:
        return int(self._take(name, scval.U32))

    def u64(self, name: str) -> int:
        return int(self._take(name, scval.U64))

    def numbers(self, layout: Mapping[str, Number]) -> dict[str, int]:
        """The numbers of a layout by their field names. Raises `DecodeError` for one beyond its bounds, too."""
        return {name: self.number(name, *bounds) for name, bounds in layout.items()}

    def number(self, name: str, kind: int, least: int, most: int) -> int:
        value: int = self._take(name, kind)
        if not least <= value <= most:
            bound = f"below {least}" if value < least else f"above {most}"
            raise DecodeError(f"{self._what}: field {name} is {value}, {bound}")
        return value

    def u128(self, name: str) -> int:
        return int(self._take(name, scval.U128))

    def i128(self, name: str) -> int:
        return int(self._take(name, scval.I128))

    def boolean(self, name: str) -> bool:
        return bool(self._take(name, scval.BOOL))

    def address(self, name: str) -> str:
        return str(self._take(name, scval.ADDRESS))

    def contract(self, name: str) -> str:
        address = self.address(name)
        if not address.startswith("C"):
            raise DecodeError(f"{self._what}: field {name} is not a contract")
        return address

    def string(self, name: str) -> str:
        return text_of(self._take(name, scval.STRING))

    def struct(self, name: str) -> Fields:
        return Fields(self._take(name, scval.MAP), f"{self._what}.{name}")
