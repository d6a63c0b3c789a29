"""XDR-JSON: values of every kind in both conventions (a real file of the first: tests/ledger/test_snapshot_file.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.xdr_json import xdr_from_json
from tests.ledger.codec.scval_cases import has_absent_container, scvals, to_sdk

CONTRACT = strkey.encode_contract(bytes(range(32)))
WIDE_KINDS = {"u128": 128, "i128": 128, "u256": 256, "i256": 256}


def first_convention(document: Any) -> Any:
    """A document of version 2 as version 1 writes it: numbers for 64 bits, objects of 64-bit parts beyond."""
    if isinstance(document, list):
        return [first_convention(item) for item in document]
    if not isinstance(document, dict):
        return document
    if len(document) == 1:
        ((arm, body),) = document.items()
        if arm in ("u64", "i64", "timepoint", "duration", "nonce"):
            return {arm: int(body)}
        if arm in WIDE_KINDS:
            bits, number = WIDE_KINDS[arm], int(body)
            parts = [number >> shift for shift in range(bits - 64, -1, -64)]
            parts = [parts[0], *(part & (2**64 - 1) for part in parts[1:])]
            names = ("hi", "lo") if bits == 128 else ("hi_hi", "hi_lo", "lo_hi", "lo_lo")
            return {arm: dict(zip(names, parts, strict=True))}
    return {name: first_convention(body) for name, body in document.items()}


@given(scvals)
def test_both_conventions_read_as_the_same_value(value: ScVal) -> None:
    """A value of any kind comes back from version 2, as stellar-sdk writes it, and from the numbers of version 1."""
    assume(not has_absent_container(value))
    document = json.loads(to_sdk(value).to_json())

    assert value == decode_scval(xdr_from_json("SCVal", document))
    assert value == decode_scval(xdr_from_json("SCVal", first_convention(document)))


@pytest.mark.parametrize(
    "document",
    [
        5,
        {"u32": 1, "i32": 1},
        {"u32": "1"},
        {"u32": 2**32},
        {"u64": "-1"},
        {"u64": 2**64},
        {"i64": "01"},
        {"i128": str(2**127)},
        {"i128": {"hi": 0}},
        {"i128": {"hi": 0, "lo": 0, "more": 0}},
        {"i128": {"hi": 0, "lo": 2**64}},
        {"string": "é"},
        {"symbol": "no-dash"},
        {"address": CONTRACT[:-1]},
        {"vec": [{"u32": 1}, {"u32": -1}]},
        {"u512": "5"},
        "nothing",
    ],
)
def test_other_values_are_refused(document: Any) -> None:
    """Wrong types, ranges, fields and spellings, and kinds that nobody knows, raise DecodeError with a short text."""
    with pytest.raises(DecodeError) as caught:
        decode_scval(xdr_from_json("SCVal", document))
    assert len(str(caught.value)) < 300


def test_values_nested_too_deeply() -> None:
    """Nesting without end raises DecodeError."""
    document: Any = "void"
    for _ in range(5_000):
        document = {"vec": [document]}

    with pytest.raises(DecodeError):
        xdr_from_json("SCVal", document)
