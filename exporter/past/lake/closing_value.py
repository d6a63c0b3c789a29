"""Whether the value that a ledger closed with is one that a network could have agreed on.

Each value carries the signature of the validator that proposed it. The signature covers the network's id, so it shows
which network a header was made for; it does not show that the network agreed on the header. The kinds of values are
those of CAP-83 and CAP-88.
"""

from __future__ import annotations

import struct
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from exporter.errors import DecodeError
from exporter.ledger.codec.ledger_header import LedgerHeader

MILLISECONDS_PROTOCOL: Final = 30
"""A value has its close time in milliseconds if the ledger before it was of this protocol or a later one (CAP-88)."""

SOROBAN_PROTOCOL: Final = 20
"""The first protocol with contracts. By then a value without a signature was no longer valid."""

_SIGNED_WITH: Final = b"\0\0\0\4"  # ENVELOPE_TYPE_SCPVALUE
_UNSIGNED, _DROPPED, _WITH_MILLISECONDS = 0, (2, 4), (3, 4)
_SIGNATURE_BYTES, _VALIDATOR_BYTES, _DROPPED_BYTES = 64, 104, 172
"""Distances from a value's end: to the signature, to the validator, and to what was proposed before it was dropped."""

_milliseconds: Final = struct.Struct(">Q").unpack_from
_UPGRADES_AT: Final = 76
_PROTOCOL_UPGRADE: Final = b"\0\0\0\1"


def check_closing_value(header: LedgerHeader, network: bytes, previous: LedgerHeader | None = None) -> None:
    """Check kind, times and signature of a header's value for a network, given by its id.

    ``previous`` is the header of the ledger before, if it is known: its protocol decides which kinds are valid.

    Raises:
        DecodeError: the value is not valid at its place, or was signed for another network or by nobody.
    """
    _check_kind(header, previous)
    if header.value_kind == _UNSIGNED:
        return
    data, end = header.content, header.value_end
    signed = data[36:76]  # the set's hash and the close time
    if header.value_kind in _DROPPED:
        proposed = end - _DROPPED_BYTES
        if any(data[36:68]) or data[proposed + 32 : proposed + 64] != header.previous_hash:
            raise DecodeError(f"the value of ledger {header.ledger} drops a set that was not proposed after its parent")
        signed = data[proposed : proposed + 32] + data[68:76]
    if header.value_kind in _WITH_MILLISECONDS:
        stated = end - 8 - (_DROPPED_BYTES if header.value_kind in _DROPPED else _VALIDATOR_BYTES)
        (milliseconds,) = _milliseconds(data, stated)
        if milliseconds // 1000 != header.close_time:
            raise DecodeError(
                f"ledger {header.ledger} closed at {header.close_time} seconds and at {milliseconds} milliseconds, "
                "which is not the same time"
            )
        signed += data[stated : stated + 8]
    validator = data[end - 100 : end - 68]
    try:
        VerifyKey(validator).verify(network + _SIGNED_WITH + signed, data[end - _SIGNATURE_BYTES : end])
    except (BadSignatureError, ValueError):
        raise DecodeError(f"the value of ledger {header.ledger} was not signed for this network") from None


def _check_kind(header: LedgerHeader, previous: LedgerHeader | None) -> None:
    """The protocol of the ledger before decides; without it, the header's own, with the upgrades that it applies."""
    kind, own = header.value_kind, header.protocol_version
    if previous is not None:
        least = most = previous.protocol_version
    else:
        least, most = (0 if _upgrades_protocol(header) else own), own
    if kind in _WITH_MILLISECONDS:
        valid = most >= MILLISECONDS_PROTOCOL
    else:
        valid = least < MILLISECONDS_PROTOCOL and (kind != _UNSIGNED or least < SOROBAN_PROTOCOL)
    if not valid:
        raise DecodeError(
            f"the value of ledger {header.ledger} is of kind {kind}, which is not valid in protocol "
            f"{own if previous is None else previous.protocol_version}"
        )


def _upgrades_protocol(header: LedgerHeader) -> bool:
    """Whether a value names an upgrade of the protocol's version."""
    data, at = header.content, _UPGRADES_AT
    (count,) = struct.unpack_from(">I", data, at)
    at += 4
    for _ in range(count):
        (size,) = struct.unpack_from(">I", data, at)
        if data[at + 4 : at + 8] == _PROTOCOL_UPGRADE:
            return True
        at += 4 + (size + 3 & ~3)
    return False
