"""Runs a contract's own code on made entries: the few functions of Soroban's host that plain views need.

    host = WasmHost(code)
    host.call(storage, time, "debt_coeff", address(asset))

Storage is {(durability, key): value}, with INSTANCE for what is in the instance. The functions, their short names and
the form of a `Val` are those of the host's environment interface (soroban-env-common env.json and val.rs).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import wasmtime

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal

TEMPORARY, PERSISTENT, INSTANCE = 0, 1, 2
Storage = Mapping[tuple[int, ScVal], ScVal]

_SYMBOL = "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VOID, _ERROR, _U32, _U64_SMALL, _U128_SMALL, _I128_SMALL, _SYMBOL_SMALL = 2, 3, 4, 6, 10, 11, 14
_U64, _U128, _I128, _BYTES, _STRING, _SYMBOL_LONG, _VEC, _MAP, _ADDRESS = 64, 68, 69, 72, 73, 74, 75, 76, 77
_KINDS = {
    _U64: scval.U64,
    _U128: scval.U128,
    _I128: scval.I128,
    _BYTES: scval.BYTES,
    _STRING: scval.STRING,
    _SYMBOL_LONG: scval.SYMBOL,
    _ADDRESS: scval.ADDRESS,
}
_TAGS = {kind: tag for tag, kind in _KINDS.items()}


class WasmError(RuntimeError):
    """The contract returned an error, or trapped."""


class WasmHost:
    """One contract's code. Every call starts from the storage that it is given; nothing is written."""

    def __init__(self, code: bytes) -> None:
        self._engine = wasmtime.Engine()
        self._module = wasmtime.Module(self._engine, code)

    def call(self, storage: Storage, time: int, function: str, *arguments: ScVal) -> ScVal:
        """What a function gives at a time in unix seconds. Raises `WasmError` where it fails."""
        return _Call(storage, time).run(self._engine, self._module, function, arguments)


class _Call:
    """One call: its objects, which a `Val` names by their position, and the memory of the instance."""

    def __init__(self, storage: Storage, time: int) -> None:
        self.storage, self.time = storage, time
        self.objects: list[Any] = []
        self.functions: dict[tuple[str, str], Callable[..., int]] = {
            ("b", "8"): lambda value: self.number(len(self.object(value))),
            ("b", "i"): lambda at, size: self.new(_STRING, self.bytes_at(at >> 32, size >> 32)),
            ("b", "j"): lambda at, size: self.encode((scval.SYMBOL, self.text(at >> 32, size >> 32))),
            ("b", "m"): lambda value, at, size: self.number(self.texts(at, size).index(self.decode(value)[1])),
            ("i", "_"): lambda value: self.new(_U64, value),
            ("i", "0"): lambda value: int(self.object(value)),
            ("i", "3"): lambda high, low: self.new(_U128, high << 64 | low),
            ("i", "6"): lambda high, low: self.new(_I128, _signed(high) << 64 | low),
            ("i", "7"): lambda value: int(self.object(value)),
            ("i", "8"): lambda value: int(self.object(value)) >> 64,
            ("l", "0"): lambda key, kind: int((kind, self.decode(key)) in self.storage),
            ("l", "1"): lambda key, kind: self.encode(self.storage[kind, self.decode(key)]),
            ("l", "7"): lambda *_: 2,
            ("l", "8"): lambda *_: 2,
            ("m", "9"): self.new_map,
            ("m", "a"): self.unpack_map,
            ("v", "_"): lambda: self.new(_VEC, []),
            ("v", "1"): lambda value, index: int(self.object(value)[index >> 32]),
            ("v", "3"): lambda value: self.number(len(self.object(value))),
            ("v", "6"): lambda value, item: self.new(_VEC, [*self.object(value), item]),
            ("v", "8"): lambda value: int(self.object(value)[0]),
            ("v", "g"): lambda at, size: self.new(_VEC, self.words(at >> 32, size >> 32)),
            ("v", "h"): lambda value, at, size: self.unpack(self.object(value), at, size),
            ("x", "4"): lambda: self.encode((scval.U64, self.time)),
        }

    def run(self, engine: Any, module: Any, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
        self.store, linker = wasmtime.Store(engine), wasmtime.Linker(engine)
        for item in module.imports:
            linker.define_func(item.module, item.name, item.type, partial(self.answer, (item.module, item.name)))
        exports: Mapping[str, Any] = linker.instantiate(self.store, module).exports(self.store)
        self.memory = exports["memory"]
        try:
            result = exports[function](self.store, *(_signed(self.encode(value)) for value in arguments)) % 2**64
        except Exception as error:
            raise WasmError(str(error)) from None
        if result & 0xFF == _ERROR:
            raise WasmError(f"error {result >> 32} of the contract")
        return self.decode(result)

    def answer(self, name: tuple[str, str], *arguments: int) -> int:
        if name not in self.functions:
            raise WasmError(f"the contract imports {name[0]}.{name[1]}, which this host does not have")
        return _signed(self.functions[name](*(value % 2**64 for value in arguments)) % 2**64)

    def encode(self, value: ScVal) -> int:
        kind, payload = value
        if kind == scval.BOOL:
            return int(payload)
        if kind == scval.VOID:
            return _VOID
        if kind == scval.U32:
            return self.number(payload)
        if kind == scval.U64 and payload < 2**56:
            return int(payload) << 8 | _U64_SMALL
        if kind == scval.I128 and -(2**55) <= payload < 2**55:
            return (int(payload) << 8) % 2**64 | _I128_SMALL
        if kind == scval.SYMBOL and len(payload) <= 9:
            body = 0
            for character in payload:
                body = body << 6 | _SYMBOL.index(character) + 1
            return body << 8 | _SYMBOL_SMALL
        if kind == scval.VEC:
            return self.new(_VEC, [self.encode(item) for item in payload])
        if kind == scval.MAP:
            return self.new(_MAP, [(self.encode(key), self.encode(item)) for key, item in payload])
        return self.new(_TAGS[kind], payload)

    def decode(self, value: int) -> ScVal:
        tag, body = value & 0xFF, value >> 8
        if tag in (0, 1):
            return scval.BOOL, bool(tag)
        if tag == _VOID:
            return scval.VOID, None
        if tag == _U32:
            return scval.U32, value >> 32
        if tag == _U64_SMALL:
            return scval.U64, body
        if tag == _U128_SMALL:
            return scval.U128, body
        if tag == _I128_SMALL:
            return scval.I128, body - (body >> 55 << 56)
        if tag == _SYMBOL_SMALL:
            characters = []
            while body:
                characters.append(_SYMBOL[(body & 63) - 1])
                body >>= 6
            return scval.SYMBOL, "".join(reversed(characters))
        found = self.object(value)
        if tag == _VEC:
            return scval.VEC, tuple(self.decode(item) for item in found)
        if tag == _MAP:
            return scval.MAP, tuple((self.decode(key), self.decode(item)) for key, item in found)
        return _KINDS[tag], found

    def number(self, value: int) -> int:
        return value << 32 | _U32

    def new(self, tag: int, payload: Any) -> int:
        self.objects.append(payload)
        return len(self.objects) - 1 << 32 | tag

    def object(self, value: int) -> Any:
        return self.objects[value >> 32]

    def bytes_at(self, position: int, size: int) -> bytes:
        return bytes(self.memory.read(self.store, position, position + size))

    def text(self, position: int, size: int) -> str:
        return self.bytes_at(position, size).decode()

    def texts(self, at: int, size: int) -> list[str]:
        parts = struct.iter_unpack("<II", self.bytes_at(at >> 32, (size >> 32) * 8))
        return [self.text(position, length) for position, length in parts]

    def words(self, position: int, count: int) -> list[int]:
        return list(struct.unpack(f"<{count}Q", self.bytes_at(position, count * 8)))

    def unpack(self, values: list[int], at: int, size: int) -> int:
        if len(values) != size >> 32:
            raise ValueError("another number of values than the code expects")
        self.memory.write(self.store, struct.pack(f"<{len(values)}Q", *values), at >> 32)
        return 2

    def new_map(self, keys: int, at: int, size: int) -> int:
        names = [self.encode((scval.SYMBOL, name)) for name in self.texts(keys, size)]
        return self.new(_MAP, list(zip(names, self.words(at >> 32, size >> 32), strict=True)))

    def unpack_map(self, value: int, keys: int, at: int, size: int) -> int:
        pairs = self.object(value)
        if [self.decode(key)[1] for key, _ in pairs] != self.texts(keys, size):
            raise ValueError("other fields than the code expects")
        return self.unpack([item for _, item in pairs], at, size)


def _signed(value: int) -> int:
    return value - 2**64 if value >> 63 else value
