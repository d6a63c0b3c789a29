"""Strkeys, with stellar-sdk as the judge."""

from __future__ import annotations

import base64
import binascii

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stellar_sdk import StrKey

from exporter.errors import DecodeError
from exporter.ledger.codec import strkey
from tests.ledger.codec.scval_cases import addresses, hashes

USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"  # docs/protocols/blend.md, "Structure"


@given(hashes, st.binary(min_size=40, max_size=40))
def test_strkeys_agree_with_the_sdk(payload: bytes, muxed: bytes) -> None:
    """Strkeys of every kind are those that stellar-sdk makes; in a muxed one the key is before the id."""
    assert StrKey.encode_contract(payload) == strkey.encode_contract(payload)
    assert StrKey.encode_ed25519_public_key(payload) == strkey.encode(strkey.ACCOUNT, payload)
    assert StrKey.encode_liquidity_pool(payload) == strkey.encode(strkey.LIQUIDITY_POOL, payload)
    assert StrKey.encode_med25519_public_key(muxed) == strkey.encode(strkey.MUXED_ACCOUNT, muxed)
    assert StrKey.encode_claimable_balance(b"\0" + payload) == strkey.encode(strkey.CLAIMABLE_BALANCE, b"\0" + payload)


@given(addresses, st.data())
def test_decoding_is_the_way_back_and_notices_a_change(text: str, data: st.DataObject) -> None:
    """A strkey decodes to what it was made of; whatever one character is changed to, it is refused."""
    assert text == strkey.encode(*strkey.decode(text))
    position = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda character: character != text[position]))

    with pytest.raises(DecodeError):
        strkey.decode(text[:position] + other + text[position + 1 :])


def _of(version: int, payload: bytes) -> str:
    body = bytes((version,)) + payload
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "",
        USDC.lower(),
        USDC + "=",
        " " + USDC,
        _of(strkey.CONTRACT, bytes(31)),
        _of(strkey.MUXED_ACCOUNT, bytes(32)),
        _of(18 << 3, bytes(32)),  # S: a secret seed
        _of(22 << 3, bytes(32)),  # W, without the id
        _of(22 << 3 | 7, bytes(40)),  # W, of an unknown algorithm
        _of(21 << 3, bytes(40)),  # a kind that is not known
    ],
)
def test_what_is_not_the_strkey_of_an_address_is_refused(text: str) -> None:
    """Wrong lengths, cases, alphabets, kinds and paddings raise DecodeError and are no contracts."""
    with pytest.raises(DecodeError):
        strkey.decode(text)
    assert not strkey.is_contract(text)


def test_only_the_canonical_spelling_is_accepted() -> None:
    """Bits that base32 leaves over must be zero: a second spelling of the same bytes is refused."""
    muxed = strkey.encode(strkey.MUXED_ACCOUNT, bytes(40))  # 43 bytes leave one bit over
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    second = muxed[:-1] + alphabet[alphabet.index(muxed[-1]) ^ 1]

    assert base64.b32decode(muxed + "=" * (-len(muxed) % 8)) == base64.b32decode(second + "=" * (-len(second) % 8))
    with pytest.raises(DecodeError, match="is not the strkey of an address"):
        strkey.decode(second)
