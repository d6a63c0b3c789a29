"""Envelopes for simulateTransaction and the footprints that come back, with stellar-sdk as the judge."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stellar_sdk import MuxedAccount, xdr
from stellar_sdk import scval as sdk

from exporter.errors import DecodeError
from exporter.ledger.codec import entries
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol
from exporter.ledger.rpc.wire import MAX_FOOTPRINT, footprint_parts, invocation_envelope
from exporter.ledger.source import ContractCall
from tests.ledger.codec.scval_cases import contracts, scvals, symbols, to_sdk

NOBODY = "GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF"
PASSPHRASE = "Standalone Network ; February 2017"
ORACLE = "CATKK5ZNJCKQQWTUWIUFZMY6V6MOQUGSTFSXMNQZHVJHYF7GVV36FB3Y"
USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"


@given(contracts, symbols, st.lists(scvals, max_size=4).map(tuple))
def test_the_sdk_reads_the_envelope_as_the_call(contract: str, function: str, arguments: tuple[ScVal, ...]) -> None:
    """To stellar-sdk the envelope is one unsigned invocation with these arguments, and its bytes are canonical."""
    data = invocation_envelope(ContractCall(contract, function, arguments))

    envelope = xdr.TransactionEnvelope.from_xdr_bytes(data)
    assert data == envelope.to_xdr_bytes()
    assert envelope.v1 is not None
    assert [] == envelope.v1.signatures
    transaction = envelope.v1.tx
    assert NOBODY == MuxedAccount.from_xdr_object(transaction.source_account).account_id
    assert xdr.MemoType.MEMO_NONE == transaction.memo.type
    assert 1 == len(transaction.operations)
    body = transaction.operations[0].body.invoke_host_function_op
    assert body is not None
    assert [] == body.auth
    invocation = body.host_function.invoke_contract
    assert invocation is not None
    assert sdk.to_address(contract).address == invocation.contract_address
    assert function.encode() == invocation.function_name.sc_symbol
    assert [to_sdk(argument) for argument in arguments] == invocation.args


def _transaction_data(
    read_only: list[xdr.LedgerKey], read_write: list[xdr.LedgerKey], archived: list[int] | None = None
) -> bytes:
    extension = xdr.SorobanTransactionDataExt(0)
    if archived is not None:
        indexes = [xdr.Uint32(index) for index in archived]
        extension = xdr.SorobanTransactionDataExt(1, resource_ext=xdr.SorobanResourcesExtV0(indexes))
    resources = xdr.SorobanResources(
        footprint=xdr.LedgerFootprint(read_only, read_write),
        instructions=xdr.Uint32(400_000_000),
        disk_read_bytes=xdr.Uint32(1),
        write_bytes=xdr.Uint32(2),
    )
    return xdr.SorobanTransactionData(extension, resources, xdr.Int64(2**40)).to_xdr_bytes()


def _key(contract: str, value: ScVal) -> xdr.LedgerKey:
    return xdr.LedgerKey.from_xdr_bytes(entries.data_key(contract, value))


sdk_keys = st.builds(_key, contracts, scvals)


@given(st.lists(sdk_keys, max_size=5), st.lists(sdk_keys, max_size=3))
def test_footprints_of_the_sdk_are_read(read_only: list[xdr.LedgerKey], read_write: list[xdr.LedgerKey]) -> None:
    """Every key of a footprint that stellar-sdk encoded comes out, the read-only ones first."""
    expected = tuple(key.to_xdr_bytes() for key in (*read_only, *read_write))

    assert expected == sum(footprint_parts(_transaction_data(read_only, read_write)), ())
    assert expected == sum(footprint_parts(_transaction_data(read_only, read_write, list(range(len(read_write))))), ())


@pytest.mark.parametrize("archived", [None, [0]])
def test_every_truncation_of_transaction_data_is_an_error(archived: list[int] | None) -> None:
    """Transaction data that is cut anywhere, or followed by anything, raises DecodeError."""
    data = _transaction_data([_key(ORACLE, symbol("a"))], [_key(USDC, symbol("b"))], archived)

    for length in range(len(data)):
        with pytest.raises(DecodeError):
            sum(footprint_parts(data[:length]), ())
    with pytest.raises(DecodeError, match="unknown layout"):
        sum(footprint_parts(data + b"\0\0\0\0"), ())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">I", 2) + bytes(80), "unknown extension of transaction data: 2"),
        (struct.pack(">II", 0, MAX_FOOTPRINT + 1) + bytes(80), "more than 1000 keys"),
        (struct.pack(">II", 0, 2**32 - 1) + bytes(80), "more than 1000 keys"),
        (struct.pack(">II", 1, 2**32 - 1) + bytes(80), "does not fit"),
        (struct.pack(">III", 0, 1, 10) + bytes(80), "unknown kind of ledger key: 10"),
    ],
)
def test_hostile_transaction_data_is_refused(data: bytes, message: str) -> None:
    """Unknown extensions, huge counts and impossible keys raise DecodeError at once."""
    with pytest.raises(DecodeError, match=message):
        sum(footprint_parts(data), ())
