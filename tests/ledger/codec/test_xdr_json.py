"""XDR-JSON in both conventions: a real file of the first, and values of every kind in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exporter.errors import DecodeError
from exporter.ledger.codec import entries, strkey
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.xdr_json import xdr_from_json
from tests.ledger.codec.scval_cases import contracts, has_absent_container, scvals, to_sdk
from tests.snapshot_files import to_json

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


@given(contracts, scvals, st.sampled_from((entries.TEMPORARY, entries.PERSISTENT)), scvals)
def test_contract_data(contract: str, key: ScVal, durability: int, value: ScVal) -> None:
    """Keys and entries of contract data are read back from both conventions."""
    assume(not has_absent_container(key) and not has_absent_container(value))
    ledger_key = entries.data_key(contract, key, durability)
    data = entries.encode_contract_data(entries.ContractData(contract, key, durability, value))

    for kind, xdr in (("LedgerKey", ledger_key), ("LedgerEntryData", data)):
        assert xdr == xdr_from_json(kind, to_json(kind, xdr))
        assert xdr == xdr_from_json(kind, first_convention(to_json(kind, xdr)))


def test_every_entry_of_the_mainnet_snapshot(mainnet_snapshot_path: Path) -> None:
    """The keys and entries of a real file (version 1) are read, and written in version 2 with the same content."""
    read = 0
    for key_document, (entry_document, _) in json.loads(mainnet_snapshot_path.read_bytes())["ledger_entries"]:
        if "contract_data" not in key_document:
            continue
        read += 1
        key, data = xdr_from_json("LedgerKey", key_document), xdr_from_json("LedgerEntryData", entry_document["data"])
        assert entry_document["data"] == first_convention(to_json("LedgerEntryData", data))
        assert key == data[:4] + data[8 : 8 + len(key) - 4]
    assert 822 == read


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
