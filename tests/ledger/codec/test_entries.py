"""Ledger keys and contract data entries, with stellar-sdk and real mainnet bytes as the judges."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stellar_sdk import scval as sdk
from stellar_sdk import xdr

from exporter.errors import DecodeError
from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.entries import PERSISTENT, TEMPORARY, ContractData
from exporter.ledger.codec.scval import ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, address, u32
from exporter.ledger.snapshot_file import LedgerSnapshot
from tests.examples import spread, strides
from tests.ledger.codec.scval_cases import addresses, contracts, scvals, to_sdk

POOL = "CDVQVKOY2YSXS2IC7KN6MNASSHPAO7UN2UR2ON4OI2SKMFJNVAMDX6DP"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
durabilities = st.sampled_from((TEMPORARY, PERSISTENT))


def _sdk_entry(contract: str, key: ScVal, durability: int, value: ScVal) -> xdr.LedgerEntryData:
    data = xdr.ContractDataEntry(
        ext=xdr.ExtensionPoint(0),
        contract=sdk.to_address(contract).address,  # type: ignore[arg-type]
        key=to_sdk(key),
        durability=xdr.ContractDataDurability(durability),
        val=to_sdk(value),
    )
    return xdr.LedgerEntryData(xdr.LedgerEntryType.CONTRACT_DATA, contract_data=data)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            entries.instance_key(POOL),
            "AAAABgAAAAHrCqnY1iV5aQL6m+Y0EpHeB36N1SOnN45GpKYVLagYOwAAABQAAAAB",
        ),
        (
            entries.variant_key(POOL, "ResData", address(USDC)),
            "AAAABgAAAAHrCqnY1iV5aQL6m+Y0EpHeB36N1SOnN45GpKYVLagYOwAAABAAAAABAAAAAgAAAA8AAAAHUmVzRGF0YQAAAAASAAAAAa3v"
            "zlmu5Slo92Bh1JTCUlt1ZZ+kKWpl9JnvKeVkd+SWAAAAAQ==",
        ),
    ],
)
def test_keys_have_the_bytes_that_the_network_uses(key: bytes, expected: str) -> None:
    """Keys of docs/protocols/blend.md come out byte for byte."""
    assert expected == base64.b64encode(key).decode()


@given(addresses, scvals, durabilities, scvals)
def test_keys_and_entries_agree_with_the_sdk(address: str, key: ScVal, durability: int, value: ScVal) -> None:
    """A contract data entry and its key have stellar-sdk's bytes; an entry decodes to its parts."""
    entry = ContractData(address, key, durability, value)
    sdk_entry = _sdk_entry(*entry)
    parts = sdk_entry.contract_data
    assert parts is not None
    sdk_key = xdr.LedgerKeyContractData(parts.contract, parts.key, parts.durability)
    ledger_key = xdr.LedgerKey(xdr.LedgerEntryType.CONTRACT_DATA, contract_data=sdk_key).to_xdr_bytes()
    expected = sdk_entry.to_xdr_bytes()

    assert expected == entries.encode_contract_data(entry)
    assert entry == entries.decode_contract_data(expected)
    assert ledger_key == entries.data_key(address, key, durability)
    assert len(ledger_key) == entries.ledger_key_end(ledger_key, 0)


@given(contracts, scvals, durabilities, scvals, st.data())
def test_truncated_entries_are_errors(
    contract: str, key: ScVal, durability: int, value: ScVal, data: st.DataObject
) -> None:
    """An entry may neither end early nor have anything behind it."""
    entry = entries.encode_contract_data(ContractData(contract, key, durability, value))

    with pytest.raises(DecodeError):
        entries.decode_contract_data(entry[: data.draw(st.integers(0, len(entry) - 1))])
    with pytest.raises(DecodeError, match="bytes follow"):
        entries.decode_contract_data(entry + b"\0")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">II", 0, 0) + bytes(80), "not contract data but of kind 0"),
        (struct.pack(">II", 6, 1) + bytes(80), "unknown extension of a contract data entry: 1"),
        (struct.pack(">III", 6, 0, 6) + bytes(80), "unknown kind of address: 6"),
        (struct.pack(">III32sI", 6, 0, 1, bytes(32), 23) + bytes(80), "unknown kind of value: 23"),
        (struct.pack(">III32sII", 6, 0, 1, bytes(32), 1, 2) + bytes(80), "unknown durability: 2"),
        (b"", "end inside"),
    ],
)
def test_other_entries_are_refused_by_name(data: bytes, message: str) -> None:
    """Anything but a contract data entry of a known layout raises a DecodeError that says what it is."""
    with pytest.raises(DecodeError, match=message):
        entries.decode_contract_data(data)


def test_the_instance_of_an_entry() -> None:
    """An instance entry gives its instance; another value under the key is an error that names what it is."""
    instance = ContractInstance(scval.STELLAR_ASSET, None, None, ())
    entry = ContractData(POOL, INSTANCE_KEY, PERSISTENT, (scval.CONTRACT_INSTANCE, instance))

    assert instance == entries.instance_of(entry)
    with pytest.raises(DecodeError, match="holds a u32"):
        entries.instance_of(entry._replace(value=u32(1)))


@strides(4)
def test_every_entry_of_the_mainnet_snapshot(mainnet_snapshot: LedgerSnapshot, stride: int) -> None:
    """Every real entry decodes to what stellar-sdk reads, encodes to the same bytes, and has its key."""
    for key, raw in spread([*mainnet_snapshot.entries.items()], stride):
        entry = entries.decode_contract_data(raw.data)
        assert raw.data == entries.encode_contract_data(entry)
        assert xdr.LedgerEntryData.from_xdr_bytes(raw.data) == _sdk_entry(*entry)
        assert key == entries.data_key(entry.contract, entry.key, entry.durability)
