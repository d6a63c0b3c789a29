"""XDR-JSON in both conventions, with stellar-sdk as the judge of the second and a real file of the first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from stellar_sdk import xdr

from exporter.errors import DecodeError
from exporter.ledger.codec import entries, scval, strkey
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.xdr_json import (
    COST_INPUTS,
    UnknownArmError,
    entry_data_from_json,
    entry_data_to_json,
    escape,
    escaped_bytes,
    ledger_key_from_json,
    ledger_key_to_json,
    scval_from_json,
    scval_to_json,
)
from tests.ledger.codec.scval_cases import (
    MUXED_CONTRACTS,
    contracts,
    has_absent_container,
    hashes,
    scvals,
    to_sdk,
    u32s,
)

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
def test_writing_agrees_with_the_sdk(value: ScVal) -> None:
    """What is written is what stellar-sdk writes, for every value that it can write."""
    assume(not has_absent_container(value))

    assert json.loads(to_sdk(value).to_json()) == scval_to_json(value)


@given(scvals)
def test_reading_is_the_way_back(value: ScVal) -> None:
    """A value written and read is the same value, absent vectors and maps among them."""
    assert value == scval_from_json(json.loads(json.dumps(scval_to_json(value))))


@given(scvals)
def test_the_first_convention_reads_as_the_same_value(value: ScVal) -> None:
    """A value in the numbers of version 1 is the same value."""
    assert value == scval_from_json(first_convention(scval_to_json(value)))


@given(st.binary(max_size=60))
def test_strings_are_escaped_as_the_sdk_escapes_them(content: bytes) -> None:
    """Any bytes are printable ASCII when escaped, and come back; the escapes are stellar-sdk's."""
    escaped = escape(content)

    assert json.loads(xdr.SCString(content).to_json()) == escaped
    assert escaped.isascii()
    assert content == escaped_bytes(escaped, "value")


def test_the_escapes_of_the_standard() -> None:
    """SEP-51 escapes nul, tab, line feed, carriage return and backslash by a letter, other bytes in hex."""
    assert r"\0\t\n\r\\ hello\xc3world~" == escape(b"\0\t\n\r\\ hello\xc3world~")


@given(contracts, scvals, st.sampled_from((entries.TEMPORARY, entries.PERSISTENT)), scvals)
def test_contract_data_agrees_with_the_sdk(contract: str, key: ScVal, durability: int, value: ScVal) -> None:
    """Keys and entries of contract data are written as stellar-sdk writes them, and read back."""
    assume(not has_absent_container(key) and not has_absent_container(value))
    ledger_key = entries.data_key(contract, key, durability)
    data = entries.encode_contract_data(entries.ContractData(contract, key, durability, value))

    assert json.loads(xdr.LedgerKey.from_xdr_bytes(ledger_key).to_json()) == ledger_key_to_json(ledger_key)
    assert json.loads(xdr.LedgerEntryData.from_xdr_bytes(data).to_json()) == entry_data_to_json(data)
    assert ledger_key == ledger_key_from_json(first_convention(ledger_key_to_json(ledger_key)))
    assert data == entry_data_from_json(first_convention(entry_data_to_json(data)))


def _sdk_code(wasm_hash: bytes, code: bytes, counts: list[int] | None) -> xdr.LedgerEntryData:
    extension = xdr.ContractCodeEntryExt(0)
    if counts is not None:
        inputs = xdr.ContractCodeCostInputs(xdr.ExtensionPoint(0), *(xdr.Uint32(count) for count in counts))
        extension = xdr.ContractCodeEntryExt(1, v1=xdr.ContractCodeEntryV1(xdr.ExtensionPoint(0), inputs))
    entry = xdr.ContractCodeEntry(extension, xdr.Hash(wasm_hash), code)
    return xdr.LedgerEntryData(xdr.LedgerEntryType.CONTRACT_CODE, contract_code=entry)


@given(hashes, st.binary(max_size=50), st.none() | st.lists(u32s, min_size=10, max_size=10))
def test_contract_code_agrees_with_the_sdk(wasm_hash: bytes, code: bytes, counts: list[int] | None) -> None:
    """Contract code, with and without its cost inputs, is read and written as stellar-sdk does."""
    entry = _sdk_code(wasm_hash, code, counts)
    data = entry.to_xdr_bytes()
    key = entries.code_key(wasm_hash)

    assert data == entry_data_from_json(json.loads(entry.to_json()))
    assert json.loads(entry.to_json()) == entry_data_to_json(data)
    assert key == ledger_key_from_json(json.loads(xdr.LedgerKey.from_xdr_bytes(key).to_json()))
    assert json.loads(xdr.LedgerKey.from_xdr_bytes(key).to_json()) == ledger_key_to_json(key)
    with pytest.raises(DecodeError):
        entry_data_to_json(data[:-1])
    with pytest.raises(DecodeError):
        entry_data_to_json(data + bytes(4))


def test_every_entry_of_the_mainnet_snapshot_is_read_in_both_conventions(mainnet_snapshot_path: Path) -> None:
    """The real file (version 1) gives what stellar-sdk reads from the same entries in version 2."""
    read = 0
    for key_document, (entry_document, _) in json.loads(mainnet_snapshot_path.read_bytes())["ledger_entries"]:
        if "contract_data" not in key_document:
            continue
        read += 1
        data = entry_data_from_json(entry_document["data"])
        second = entry_data_to_json(data)
        assert xdr.LedgerEntryData.from_json(json.dumps(second)).to_xdr_bytes() == data
        assert data == entry_data_from_json(second)
        assert entry_document["data"] == first_convention(second)
        assert (
            xdr.LedgerKey.from_xdr_bytes(ledger_key_from_json(key_document)).to_xdr_bytes()
            == data[:4] + data[8 : 8 + len(ledger_key_from_json(key_document)) - 4]
        )
    assert 822 == read


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "value: expected a union"),
        (5, "value: expected a union"),
        ([], "value: expected a union"),
        ({}, "value: expected a union"),
        ({"u32": 1, "i32": 1}, "value: expected a union"),
        ({"u32": "1"}, "value.u32: expected a number"),
        ({"u32": True}, "value.u32: expected a number"),
        ({"u32": 1.0}, "value.u32: expected a number"),
        ({"u32": 2**32}, "value.u32: 4294967296 is out of range"),
        ({"i32": -(2**31) - 1}, "value.i32: -2147483649 is out of range"),
        ({"u64": "-1"}, "value.u64: '-1' is out of range"),
        ({"u64": 2**64}, "value.u64: 18446744073709551616 is out of range"),
        ({"i64": "01"}, "value.i64: expected an integer, got '01'"),
        ({"i64": "-0"}, "value.i64: expected an integer"),
        ({"i64": "+1"}, "value.i64: expected an integer"),
        ({"i64": " 1"}, "value.i64: expected an integer"),
        ({"i64": "1e3"}, "value.i64: expected an integer"),
        ({"i64": "\u0661"}, "value.i64: expected an integer"),
        ({"u64": None}, "value.u64: expected an integer"),
        ({"i128": 1e30}, "value.i128: expected an integer"),
        ({"i128": str(2**127)}, "value.i128: .* is out of range"),
        ({"i128": "9" * 5000}, "value.i128: expected an integer"),
        ({"i128": {"hi": 0}}, "value.i128: the field 'lo' is missing"),
        ({"i128": {"hi": 0, "lo": 0, "more": 0}}, "value.i128: unknown field 'more'"),
        ({"i128": {"hi": 2**63, "lo": 0}}, "value.i128.hi: .* is out of range"),
        ({"i128": {"hi": 0, "lo": -1}}, "value.i128.lo: -1 is out of range"),
        ({"u128": {"hi": -1, "lo": 0}}, "value.u128.hi: -1 is out of range"),
        ({"u256": {"hi": 0, "lo": 0}}, "value.u256: the field 'hi_hi' is missing"),
        ({"bool": 1}, "value.bool: expected true or false"),
        ({"bytes": "0"}, "value.bytes: expected lowercase hex"),
        ({"bytes": "AB"}, "value.bytes: expected lowercase hex"),
        ({"bytes": 5}, "value.bytes: expected lowercase hex"),
        ({"string": "é"}, "value.string: .* is not escaped"),
        ({"string": "\\"}, "value.string: .* is not escaped"),
        ({"string": "\\q"}, "value.string: .* is not escaped"),
        ({"string": "\\x4"}, "value.string: .* is not escaped"),
        ({"string": "\\x41"}, "value.string: .* is not escaped"),
        ({"string": "\n"}, "value.string: .* is not escaped"),
        ({"string": "\ud800"}, "value.string: .* is not escaped"),
        ({"string": None}, "value.string: expected a text"),
        ({"symbol": "no-dash"}, "value.symbol: 'no-dash' is not a symbol"),
        ({"symbol": "a" * 33}, "value.symbol: .* is not a symbol"),
        ({"address": CONTRACT[:-1]}, "value.address: .* is not a strkey"),
        ({"address": ""}, "value.address: .* is not a strkey"),
        ({"address": {}}, "value.address: expected a text"),
        ({"vec": {}}, "value.vec: expected an array"),
        ({"vec": [{"u32": 1}, {"u32": -1}]}, r"value.vec\[1\].u32: -1 is out of range"),
        ({"map": [{"key": "void"}]}, r"value.map\[0\]: the field 'val' is missing"),
        ({"map": [{"key": "void", "val": {"u64": ""}}]}, r"value.map\[0\].val.u64: expected an integer"),
        ({"error": {"contract": "5"}}, "value.error.contract: expected a number"),
        ({"error": {"value": 5}}, "value.error.value: expected a text"),
        ({"ledger_key_nonce": {"nonce": "x"}}, "value.ledger_key_nonce.nonce: expected an integer"),
        ({"ledger_key_nonce": 5}, "value.ledger_key_nonce: expected an object"),
        ({"contract_instance": {"executable": "stellar_asset"}}, "value.contract_instance: the field 'storage'"),
        (
            {"contract_instance": {"executable": {"wasm": "00"}, "storage": None}},
            "value.contract_instance.executable.wasm: expected a hash",
        ),
    ],
)
def test_malformed_values_are_named_by_their_path(document: Any, message: str) -> None:
    """Wrong types, ranges, fields and spellings raise DecodeError that begins with the path."""
    with pytest.raises(DecodeError, match=f"^{message}") as caught:
        scval_from_json(document)
    assert not isinstance(caught.value, UnknownArmError)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"u512": "5"}, "value: unknown kind of value 'u512'"),
        ("nothing", "value: unknown kind of value 'nothing'"),
        ("u32", "value: unknown kind of value 'u32'"),
        ({"void": None}, "value: unknown kind of value 'void'"),
        ({"address": "Q" + CONTRACT[1:]}, "value.address: .* is an address of an unknown kind"),
        ({"error": {"weather": "rain"}}, "value.error: unknown type of error 'weather'"),
        ({"error": {"value": "rain"}}, "value.error.value: unknown code of error 'rain'"),
        ({"contract_instance": {"executable": "native", "storage": None}}, "value.contract_instance.executable"),
        ({"contract_instance": {"executable": {"jvm": "00"}, "storage": None}}, "value.contract_instance.executable"),
        ({"vec": [{"map": [{"key": "void", "val": {"new": 1}}]}]}, r"value.vec\[0\].map\[0\].val: unknown kind"),
    ],
)
def test_unknown_arms_are_told_apart(document: Any, message: str) -> None:
    """A union arm that is not known raises UnknownArmError, which costs only the entry it stands in."""
    with pytest.raises(UnknownArmError, match=f"^{message}"):
        scval_from_json(document)


def _contract_data(**changes: Any) -> Any:
    body = {
        "ext": "v0",
        "contract": CONTRACT,
        "key": {"symbol": "a"},
        "durability": "persistent",
        "val": "void",
    }
    return {"contract_data": {name: value for name, value in (body | changes).items() if value is not ...}}


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        (_contract_data(ext="v1"), UnknownArmError, "data.contract_data.ext: unknown extension"),
        (_contract_data(ext=None), DecodeError, "data.contract_data.ext: expected a union"),
        (_contract_data(durability="forever"), DecodeError, "data.contract_data.durability"),
        (_contract_data(durability=1), DecodeError, "data.contract_data.durability: expected a text"),
        (_contract_data(val=...), DecodeError, "data.contract_data: the field 'val' is missing"),
        (_contract_data(more=1), DecodeError, "data.contract_data: unknown field 'more'"),
        (_contract_data(contract="C"), DecodeError, "data.contract_data.contract: 'C' is not a strkey"),
        ({"account": {}}, UnknownArmError, "data.account: entries of this kind"),
        ({"contract_data": []}, DecodeError, "data.contract_data: expected an object"),
        ({"contract_code": {"ext": "v2", "hash": "00" * 32, "code": ""}}, UnknownArmError, "data.contract_code.ext"),
        ({"contract_code": {"ext": "v0", "hash": "00", "code": ""}}, DecodeError, "data.contract_code.hash"),
        ({"contract_code": {"ext": "v0", "hash": "00" * 32, "code": "0g"}}, DecodeError, "data.contract_code.code"),
        (
            {
                "contract_code": {
                    "ext": {"v1": {"ext": "v0", "cost_inputs": {"ext": "v0", **dict.fromkeys(COST_INPUTS, -1)}}},
                    "hash": "00" * 32,
                    "code": "",
                }
            },
            DecodeError,
            "data.contract_code.ext.cost_inputs.n_instructions: -1 is out of range",
        ),
    ],
)
def test_malformed_entries_are_named_by_their_path(document: Any, error: type[DecodeError], message: str) -> None:
    """Entries with missing, unknown or wrong parts raise with the path of the part."""
    with pytest.raises(error, match=f"^{message}"):
        entry_data_from_json(document)


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"ttl": {"key_hash": "00" * 32}}, UnknownArmError),
        ({"contract_data": {"contract": CONTRACT, "key": "void"}}, DecodeError),
        ({"contract_code": {"hash": "zz"}}, DecodeError),
        ("contract_data", DecodeError),
        (None, DecodeError),
    ],
)
def test_malformed_keys_are_refused(document: Any, error: type[DecodeError]) -> None:
    """Keys that are incomplete, or of kinds that are not read, raise."""
    with pytest.raises(error, match=r"^key"):
        ledger_key_from_json(document)


def test_depth_is_bounded_as_in_the_binary_form() -> None:
    """As many nested vectors are read as the binary form may have, and one more is DecodeError."""
    deepest: Any = "void"
    for _ in range(scval.MAX_DEPTH):
        deepest = {"vec": [deepest]}

    assert scval_to_json(scval_from_json(deepest)) == deepest
    with pytest.raises(DecodeError, match="nest deeper"):
        scval_from_json({"vec": [deepest]})


@pytest.mark.parametrize(("muxed", "contract", "number"), MUXED_CONTRACTS)
def test_muxed_contracts_are_their_strkeys(muxed: str, contract: str, number: int) -> None:
    """A muxed contract of protocol 30 is its W strkey, both ways; in part of a wrong length it is refused."""
    value: ScVal = (scval.ADDRESS, muxed)

    assert value == scval_from_json({"address": muxed})
    assert {"address": muxed} == scval_to_json(value)
    with pytest.raises(DecodeError, match="wrong length"):
        scval_from_json({"address": "W" + contract[1:]})


def test_absent_containers_are_null() -> None:
    """An absent vector, map or storage is null and not an empty list, as SEP-51 has optional data."""
    instance = ContractInstance(scval.STELLAR_ASSET, None, None, None)

    assert {"vec": None} == scval_to_json((scval.VEC, None))
    assert {"vec": []} == scval_to_json((scval.VEC, ()))
    assert (scval.MAP, None) == scval_from_json({"map": None})
    assert (scval.CONTRACT_INSTANCE, instance) == scval_from_json(
        {"contract_instance": {"executable": "stellar_asset", "storage": None}}
    )
