"""The ScVal codec, with stellar-sdk as the judge of every kind."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stellar_sdk import xdr

from exporter.errors import DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.scval import ContractInstance, ScVal, decode_scval
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, string, struct_map, u32, u64, vec
from tests.ledger.codec.scval_cases import MUXED_CONTRACTS, scvals, to_sdk

NESTED_VEC = struct.pack(">III", scval.VEC, 1, 1)


@given(scvals, st.binary(min_size=1, max_size=9))
def test_decoding_what_the_sdk_encodes(value: ScVal, more: bytes) -> None:
    """Bytes of stellar-sdk are decoded to their value, which encodes to the same bytes; nothing may follow them."""
    data = to_sdk(value).to_xdr_bytes()

    assert value == decode_scval(data)
    assert data == encode_scval(decode_scval(data))
    with pytest.raises(DecodeError, match="follow the value"):
        decode_scval(data + more)


@given(st.binary(max_size=120))
@example(struct.pack(">I", scval.SYMBOL) + b"\xff\xff\xff\xff")
@example(struct.pack(">IIII", scval.MAP, 1, 1, scval.VOID))
def test_any_bytes_decode_to_themselves_or_raise_decode_error(data: bytes) -> None:
    """Whatever the bytes are, the outcome is a value that encodes to exactly them, or DecodeError."""
    try:
        value = decode_scval(data)
    except DecodeError:
        return

    assert data == encode_scval(value)


@given(scvals, st.data())
def test_damaged_bytes_agree_with_the_sdk(value: ScVal, data: st.DataObject) -> None:
    """With one byte of a value changed, what is decoded here is decoded by stellar-sdk to the same object."""
    encoded = bytearray(encode_scval(value))
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] = data.draw(st.integers(0, 255))
    try:
        decoded = decode_scval(bytes(encoded))
    except DecodeError:
        return

    assert to_sdk(decoded) == xdr.SCVal.from_xdr_bytes(bytes(encoded))


def test_depth_is_bounded_at_the_hosts_limit() -> None:
    """A hundred nested vectors are accepted, one more is not; contract instances count like maps."""
    innermost = struct.pack(">I", scval.VOID)

    value = decode_scval(NESTED_VEC * scval.MAX_DEPTH + innermost)
    assert NESTED_VEC * scval.MAX_DEPTH + innermost == encode_scval(value)
    with pytest.raises(DecodeError, match="nest deeper"):
        decode_scval(NESTED_VEC * (scval.MAX_DEPTH + 1) + innermost)
    asset_instance = struct.pack(">IIIIIIII", scval.CONTRACT_INSTANCE, 1, 1, 1, scval.VOID, scval.VOID, 0, 0)
    with pytest.raises(DecodeError, match="nest deeper"):
        decode_scval(NESTED_VEC * scval.MAX_DEPTH + asset_instance)
    nested_map = struct.pack(">IIII", scval.MAP, 1, 1, scval.VOID)
    with pytest.raises(DecodeError, match="nest deeper"):
        decode_scval(nested_map * (scval.MAX_DEPTH + 1) + innermost)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("vec", struct.pack(">III", scval.VEC, 1, 2**32 - 1)),
        ("map", struct.pack(">III", scval.MAP, 1, 2**31)),
        ("instance storage", struct.pack(">IIII", scval.CONTRACT_INSTANCE, 1, 1, 2**32 - 1)),
        ("bytes", struct.pack(">II", scval.BYTES, 2**32 - 1)),
        ("string", struct.pack(">II", scval.STRING, 2**32 - 4) + b"abcd"),
        ("symbol", struct.pack(">II", scval.SYMBOL, 2**31) + b"abcd"),
    ],
)
def test_huge_announced_counts_are_refused_at_once(name: str, data: bytes) -> None:
    """A count that the bytes cannot hold is an error before anything of that size is made."""
    with pytest.raises(DecodeError):
        decode_scval(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">I", 23), "unknown kind of value: 23"),
        (struct.pack(">I", 2**32 - 1), "unknown kind of value"),
        (struct.pack(">II", scval.BOOL, 2), "2 is not a bool"),
        (struct.pack(">III", scval.ERROR, 10, 0), "unknown type of error: 10"),
        (struct.pack(">III", scval.ERROR, 1, 10), "unknown code of error: 10"),
        (struct.pack(">II", scval.VEC, 2), "2 is not the flag"),
        (struct.pack(">II", scval.MAP, 7), "7 is not the flag"),
        (struct.pack(">II", scval.ADDRESS, 6) + bytes(40), "unknown kind of address: 6"),
        (struct.pack(">III", scval.ADDRESS, 0, 1) + bytes(32), "arm 0 is of an unknown kind"),
        (struct.pack(">III", scval.ADDRESS, 3, 1) + bytes(32), "arm 3 is of an unknown kind"),
        (struct.pack(">II", scval.CONTRACT_INSTANCE, 3) + bytes(36), "unknown kind of executable: 3"),
        (struct.pack(">II", scval.SYMBOL, 1) + b"-\0\0\0", "is not a symbol"),
        (struct.pack(">II", scval.SYMBOL, 1) + b"\xe9\0\0\0", "is not a symbol"),
        (struct.pack(">II", scval.SYMBOL, 33) + b"a" * 33 + bytes(3), "is not a symbol"),
        (struct.pack(">II", scval.BYTES, 1) + b"a\0\0\1", "padding of a value is not zero"),
        (struct.pack(">II", scval.SYMBOL, 1) + b"a\0\0\1", "padding of a value is not zero"),
    ],
)
def test_unknown_and_non_canonical_bytes_are_named(data: bytes, message: str) -> None:
    """Unknown union arms, bad flags, bad symbols and dirty padding are distinguished in the message."""
    with pytest.raises(DecodeError, match=message):
        decode_scval(data)


@pytest.mark.parametrize(
    "value",
    [
        (scval.U32, -1),
        (scval.U64, 2**64),
        (scval.I256, 2**255),
        (scval.SYMBOL, "no-dash"),
        (scval.ADDRESS, "G"),
        (scval.BYTES, "text"),
        (scval.ERROR, 5),
        (scval.CONTRACT_INSTANCE, ContractInstance(scval.WASM, b"short", None, None)),
        (scval.CONTRACT_INSTANCE, ContractInstance(scval.EXTERNAL_REF, None, None, None)),
        (23, None),
    ],
)
def test_encoding_a_payload_that_does_not_fit_its_kind_is_an_error(value: ScVal) -> None:
    """A payload out of range or of another type raises DecodeError instead of wrong bytes."""
    with pytest.raises(DecodeError):
        encode_scval(value)


def test_encoding_a_value_that_nests_too_deeply_is_an_error() -> None:
    """A Python value of any depth ends as bytes or as DecodeError."""
    value: ScVal = (scval.VOID, None)
    for _ in range(10_000):
        value = (scval.VEC, (value,))

    with pytest.raises(DecodeError, match="nests too deeply"):
        encode_scval(value)


def test_constructors_make_their_kinds_with_sorted_struct_maps() -> None:
    """The constructors make the kinds they are named for, and struct maps are sorted by byte order."""
    contract = strkey.encode_contract(bytes(range(32)))

    assert (scval.VEC, ((scval.U64, 1), (scval.I128, -1), (scval.STRING, b"\xc3\xa4"))) == vec(
        u64(1), i128(-1), string("ä")
    )
    assert (scval.ADDRESS, contract) == address(contract)
    # docs/protocols/blend.md, "Keys": '_' sorts before letters, so r_three comes before r_two and reactivity after both
    fields = struct_map({"reactivity": u32(3), "r_two": u32(2), "r_three": u32(1)})
    assert ["r_three", "r_two", "reactivity"] == [key[1] for key, _ in fields[1]]


@pytest.mark.parametrize(("muxed", "contract", "number"), MUXED_CONTRACTS)
def test_muxed_contracts_have_the_layout_of_protocol_30(muxed: str, contract: str, number: int) -> None:
    """CAP-84: arm 5, the number, and then the contract's id; the strkey has them the other way round."""
    data = struct.pack(">IIQ", scval.ADDRESS, 5, number) + strkey.decode_contract(contract)

    assert (scval.ADDRESS, muxed) == decode_scval(data)
    assert data == encode_scval((scval.ADDRESS, muxed))
    for cut in range(4, len(data)):
        with pytest.raises(DecodeError):
            decode_scval(data[:cut])
