"""Checks whether a network could have agreed on the value that a ledger closed with.

Each value has the signature of the validator that proposed it. The signature covers the network's id. So it shows for
which network a header was made, but not that the network agreed on the header. CAP-83 and CAP-88 define the kinds of
values.
"""

from __future__ import annotations

import struct
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from exporter.errors import DecodeError
from exporter.ledger.codec.ledger_header import LedgerHeader

MILLISECONDS_PROTOCOL: Final = 30
"""The first protocol after which values have their close time in milliseconds, too (CAP-88)."""

SOROBAN_PROTOCOL: Final = 20
"""The first protocol with contracts. Since then, a value without a signature is not valid."""

_SIGNED_WITH: Final = b"\0\0\0\4"  # ENVELOPE_TYPE_SCPVALUE
_UNSIGNED, _DROPPED, _WITH_MILLISECONDS = 0, (2, 4), (3, 4)
_SIGNATURE_BYTES, _VALIDATOR_BYTES, _DROPPED_BYTES = 64, 104, 172
"""Distances from the end of a value: to the signature, to the validator, and to the dropped proposal."""

_milliseconds: Final = struct.Struct(">Q").unpack_from
_UPGRADES_OFFSET: Final = 76
_PROTOCOL_UPGRADE: Final = b"\0\0\0\1"


def check_closing_value(header: LedgerHeader, network: bytes, previous: LedgerHeader | None = None) -> None:
    """Check the kind, the times and the signature of the value in a header.

    ``network`` is the id of the network. ``previous`` is the header of the ledger before, if it is known: its protocol
    decides which kinds are valid.

    Raises:
        DecodeError: the value is not valid at this ledger, or nobody signed it for this network.
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
    """Raise `DecodeError` if a value is of a kind that is not valid.

    The protocol of the previous ledger decides. If it is not known, it is that of the header, unless the header
    upgrades the protocol: then any earlier one is possible.
    """
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
    """Whether the value in a header upgrades the protocol."""
    data, position = header.content, _UPGRADES_OFFSET
    (count,) = struct.unpack_from(">I", data, position)
    position += 4
    for _ in range(count):
        (size,) = struct.unpack_from(">I", data, position)
        if data[position + 4 : position + 8] == _PROTOCOL_UPGRADE:
            return True
        position += 4 + (size + 3 & ~3)  # an upgrade is padded to a multiple of four bytes
    return False
