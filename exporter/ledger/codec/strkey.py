"""Strkeys, the printed form of addresses (SEP-23), in both directions: importing an SDK takes half a second."""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache

from exporter.errors import DecodeError

ACCOUNT = 6 << 3  # G, 32 bytes: ed25519 public key
CONTRACT = 2 << 3  # C, 32 bytes: contract id
MUXED_ACCOUNT = 12 << 3  # M, 40 bytes: ed25519 public key, then a 64-bit id
CLAIMABLE_BALANCE = 1 << 3  # B, 33 bytes: one type byte, then the id
LIQUIDITY_POOL = 11 << 3  # L, 32 bytes: pool id
MUXED_CONTRACT = 22 << 3  # W, 40 bytes: contract id, then a 64-bit id (CAP-84, SEP-23 1.4.0)

_PAYLOAD_SIZES = {
    ACCOUNT: 32,
    CONTRACT: 32,
    MUXED_ACCOUNT: 40,
    CLAIMABLE_BALANCE: 33,
    LIQUIDITY_POOL: 32,
    MUXED_CONTRACT: 40,
}


@lru_cache(maxsize=1 << 16)
def encode(version: int, payload: bytes) -> str:
    """The strkey of a payload; ``version`` is one of this module's constants."""
    if len(payload) != _PAYLOAD_SIZES.get(version):
        raise DecodeError(f"a strkey of version {version} cannot hold {len(payload)} bytes")
    body = bytes((version,)) + payload
    checksum = binascii.crc_hqx(body, 0).to_bytes(2, "little")
    return base64.b32encode(body + checksum).decode("ascii").rstrip("=")


@lru_cache(maxsize=1 << 16)
def decode(strkey: str) -> tuple[int, bytes]:
    """The version and payload of a strkey. Raises `DecodeError` unless it is the one spelling of an address."""
    try:
        raw = base64.b32decode(strkey + "=" * (-len(strkey) % 8))
        version, payload = raw[0], raw[1:-2]
        if encode(version, payload) == strkey:  # with the right size and checksum, in the canonical spelling
            return version, payload
    except (binascii.Error, ValueError, IndexError, DecodeError):
        pass
    raise DecodeError(f"{strkey[:80]!r} is not the strkey of an address")


def encode_contract(contract_id: bytes) -> str:
    """The ``C...`` strkey of a 32-byte contract id."""
    return encode(CONTRACT, contract_id)


def decode_contract(strkey: str) -> bytes:
    """The 32-byte contract id of a ``C...`` strkey. Raises `DecodeError` for any other text."""
    version, payload = decode(strkey)
    if version != CONTRACT:
        raise DecodeError(f"{strkey[:80]!r} is not the strkey of a contract (those begin with C)")
    return payload


def is_contract(strkey: str) -> bool:
    """Whether a text is the strkey of a contract, checksum and all."""
    return _is_of(CONTRACT, strkey)


def is_account(strkey: str) -> bool:
    """Whether a text is the strkey of an account, checksum and all."""
    return _is_of(ACCOUNT, strkey)


def _is_of(version: int, strkey: str) -> bool:
    try:
        return decode(strkey)[0] == version
    except DecodeError:
        return False
