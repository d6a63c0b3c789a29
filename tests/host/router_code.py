"""A router contract as real code: wasm that the host runs, assembled here from its few instructions.

``exec(caller, calls)`` asks for the caller's authorisation, makes each call of the vector of (contract, function,
arguments, can fail), and gives a vector of the results; where a call can fail and does, the error that the host gives.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import PERSISTENT, ContractData, code_key, data_key, encode_contract_data
from exporter.ledger.codec.scval import WASM, ContractInstance
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, encode_opaque
from exporter.ledger.source import RawEntry

_PROTOCOL = 22
_I64 = 0x7E
_TRUE, _U32_TAG = 1, 4  # how the host tags values: a bool by itself, a number of 32 bits in the upper half

# The host's functions: module, name, how many values of 64 bits they take; each gives one.
_IMPORTS = (("a", "0", 1), ("v", "3", 1), ("v", "_", 0), ("v", "1", 2), ("d", "_", 3), ("d", "0", 3), ("v", "6", 2))
_REQUIRE_AUTH, _LENGTH, _NEW, _GET, _CALL, _TRY_CALL, _PUSH = range(len(_IMPORTS))
_CALLER, _CALLS, _AT, _COUNT, _RESULTS, _ITEM, _RESULT = range(7)  # parameters, then locals


def _number(value: int) -> bytes:
    """LEB128, unsigned."""
    parts = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        if not value:
            return bytes((*parts, low))
        parts.append(low | 0x80)


def _constant(value: int) -> bytes:
    """i64.const; LEB128 with a sign, of which these numbers have none."""
    parts = bytearray(b"\x42")
    while True:
        value, low = value >> 7, value & 0x7F
        if not value and not low & 0x40:
            return bytes((*parts, low))
        parts.append(low | 0x80)


def _get(local: int) -> bytes:
    return b"\x20" + _number(local)


def _set(local: int) -> bytes:
    return b"\x21" + _number(local)


def _ask(function: int) -> bytes:
    return b"\x10" + _number(function)


def _part(index: int) -> bytes:
    return _get(_ITEM) + _constant(index << 32 | _U32_TAG) + _ask(_GET)


_SHIFT_RIGHT, _SHIFT_LEFT, _OR, _ADD = b"\x88", b"\x86", b"\x84", b"\x7c"
_DROP, _END, _ELSE, _IS_EQUAL, _NOT_LESS = b"\x1a", b"\x0b", b"\x05", b"\x51", b"\x5a"
_ARGUMENTS = _part(0) + _part(1) + _part(2)

_BODY = b"".join(
    (
        _get(_CALLER),
        _ask(_REQUIRE_AUTH),
        _DROP,
        _get(_CALLS),
        _ask(_LENGTH),
        _constant(32),
        _SHIFT_RIGHT,
        _set(_COUNT),
        _ask(_NEW),
        _set(_RESULTS),
        b"\x02\x40\x03\x40",  # block, loop
        _get(_AT),
        _get(_COUNT),
        _NOT_LESS,
        b"\x0d\x01",  # done: out of both
        _get(_CALLS),
        _get(_AT),
        _constant(32),
        _SHIFT_LEFT,
        _constant(_U32_TAG),
        _OR,
        _ask(_GET),
        _set(_ITEM),
        _part(3),
        _constant(_TRUE),
        _IS_EQUAL,
        b"\x04\x40",  # if it can fail
        _ARGUMENTS,
        _ask(_TRY_CALL),
        _set(_RESULT),
        _ELSE,
        _ARGUMENTS,
        _ask(_CALL),
        _set(_RESULT),
        _END,
        _get(_RESULTS),
        _get(_RESULT),
        _ask(_PUSH),
        _set(_RESULTS),
        _get(_AT),
        _constant(1),
        _ADD,
        _set(_AT),
        b"\x0c\x00",  # again
        _END,
        _END,
        _get(_RESULTS),
        _END,
    )
)


def _vector(items: Sequence[bytes]) -> bytes:
    return _number(len(items)) + b"".join(items)


def _sized(content: bytes) -> bytes:
    return _number(len(content)) + content


def _section(kind: int, content: bytes) -> bytes:
    return bytes((kind,)) + _sized(content)


def _function_type(parameters: int) -> bytes:
    return b"\x60" + _vector([bytes((_I64,))] * parameters) + _vector([bytes((_I64,))])


def router_wasm() -> bytes:
    imports = [
        _sized(module.encode()) + _sized(name.encode()) + b"\0" + _number(parameters)
        for module, name, parameters in _IMPORTS
    ]
    code = _vector([_number(5) + bytes((_I64,))]) + _BODY  # five locals
    interface = struct.pack(">III", 0, _PROTOCOL, 0)
    return (
        b"\0asm\1\0\0\0"
        + _section(1, _vector([_function_type(parameters) for parameters in range(4)]))
        + _section(2, _vector(imports))
        + _section(3, _vector([_number(2)]))
        + _section(7, _vector([_sized(b"exec") + b"\0" + _number(len(_IMPORTS))]))
        + _section(10, _vector([_sized(code)]))
        + _section(0, _sized(b"contractenvmetav0") + interface)
    )


def router_entries(router: str, ledger: int) -> dict[bytes, RawEntry]:
    """The instance and the code of such a router."""
    wasm = router_wasm()
    digest = sha256(wasm).digest()
    instance = (scval.CONTRACT_INSTANCE, ContractInstance(WASM, digest, None, None))
    data = encode_contract_data(ContractData(router, INSTANCE_KEY, PERSISTENT, instance))
    code = b"\0\0\0\x07\0\0\0\0" + digest + encode_opaque(wasm)
    return {
        data_key(router, INSTANCE_KEY, PERSISTENT): RawEntry(data, ledger, ledger + 10**6),
        code_key(digest): RawEntry(code, ledger, ledger + 10**6),
    }
