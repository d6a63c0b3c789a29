"""XDR-JSON (SEP-51), the JSON form of ledger keys, ledger entries and ScVals, as stellar-sdk has it.

Two conventions are in use, and both are read, value by value. Version 2 (SEP-51; RPC and CLI from 23 on) writes 64-bit
and wider integers as decimal strings. Version 1 (22 and before) writes 64-bit integers as numbers and wider ones as
``{"hi": .., "lo": ..}`` or as four such parts. stellar-sdk reads and writes version 2 alone.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import Any, Final, TypeAlias

from exporter.errors import DecodeError

Json: TypeAlias = Any
"""The types of parsed JSON: dict, list, str, int, float, bool or None."""

_NUMBERS: Final = ("u64", "i64", "timepoint", "duration", "nonce")
_PARTS_128: Final = ("hi", "lo")
_PARTS_256: Final = ("hi_hi", "hi_lo", "lo_hi", "lo_lo")
_WIDE: Final = {"u128": _PARTS_128, "i128": _PARTS_128, "u256": _PARTS_256, "i256": _PARTS_256}
"""The parts of wide integers in version 1, 64 bits each, the highest first."""


def xdr_from_json(name: str, document: Json) -> bytes:
    """The XDR of a type, such as LedgerKey, LedgerEntryData or SCVal, from its XDR-JSON. Raises `DecodeError`."""
    from stellar_sdk import xdr  # half a second, which runs without a file need not take

    kind: Any = getattr(xdr, name)
    try:
        wanted = _second_convention(document)
        data: bytes = kind.from_json_dict(wanted).to_xdr_bytes()
        # The SDK passes over unknown fields, takes other spellings of numbers, and wraps those that are out of range.
        if _text(kind.from_xdr_bytes(data).to_json_dict()) != _text(wanted):
            raise ValueError("unknown fields, or values that are out of range or written in another way")
    except Exception as error:  # the SDK has no base for what it raises: ValueError, KeyError, TypeError, XdrError, ...
        raise DecodeError(f"not XDR-JSON of a known kind: {type(error).__name__}: {error}"[:160]) from None
    return data


def _text(document: Json) -> str:
    return json.dumps(document, sort_keys=True)


def _second_convention(document: Json) -> Json:
    if isinstance(document, list):
        return [_second_convention(item) for item in document]
    if not isinstance(document, dict):
        return document
    if len(document) == 1:
        ((arm, body),) = document.items()
        if arm in _NUMBERS and type(body) is int:  # not isinstance: True is an int
            return {arm: str(body)}
        if arm in _WIDE and isinstance(body, dict):
            return {arm: _joined(body, _WIDE[arm])}
    return {name: _second_convention(item) for name, item in document.items()}


def _joined(parts: dict[str, Json], names: tuple[str, ...]) -> str:
    numbers = [int(parts[name]) for name in names]
    if len(parts) != len(names) or any(not 0 <= number < 2**64 for number in numbers[1:]):
        raise ValueError(f"an integer of other parts than {', '.join(names)} of 64 bits")
    return str(reduce(lambda higher, number: higher << 64 | number, numbers))
