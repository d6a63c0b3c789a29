"""What ``simulateTransaction`` is sent and what it answers with, in XDR.

A simulated read needs an envelope with exactly one InvokeHostFunction operation, no memo, no signature and any
source account: the host checks neither that the account exists nor its sequence (facts/stellar-rpc.md 2).
"""

from __future__ import annotations

import struct

from exporter.errors import DecodeError
from exporter.ledger.entries import ledger_key_end
from exporter.ledger.scval_encode import encode_address, encode_opaque, encode_scval
from exporter.ledger.source import ContractCall

MAX_FOOTPRINT = 1000
"""No network allows more entries in a footprint (400 in facts/stellar-rpc.md 2); more is refused unread."""

_BEFORE_CALL = struct.pack(
    ">II32sIqIIIIII",
    2,  # envelope type: transaction
    0,  # source account: ed25519 ...
    bytes(32),  # ... the all-zero key GAAAA...WHF, which nobody can hold
    100,  # fee in stroops; never charged
    0,  # sequence number
    0,  # preconditions: none
    0,  # memo: none
    1,  # one operation
    0,  # with the transaction's source
    24,  # invoke host function
    0,  # invoke contract
)
_AFTER_CALL = struct.pack(">III", 0, 0, 0)  # no authorization, no transaction extension, no signature


def invocation_envelope(call: ContractCall) -> bytes:
    """The TransactionEnvelope XDR that asks for one call of a contract function."""
    arguments = struct.pack(">I", len(call.arguments)) + b"".join(encode_scval(value) for value in call.arguments)
    return (
        _BEFORE_CALL
        + encode_address(call.contract)
        + encode_opaque(call.function.encode("ascii"))
        + arguments
        + _AFTER_CALL
    )


def footprint_keys(transaction_data: bytes) -> tuple[bytes, ...]:
    """The LedgerKey XDR of everything in a SorobanTransactionData's footprint, read-only keys first.

    Raises `DecodeError` when the bytes are something else.
    """
    read, written = footprint_parts(transaction_data)
    return read + written


def footprint_parts(transaction_data: bytes) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """As `footprint_keys`, but apart: what is only read, and what is written (an archived entry by restoring it)."""
    try:
        (extension,) = struct.unpack_from(">I", transaction_data, 0)
        position = 4
        if extension == 1:  # indexes of archived entries that the call would restore
            (count,) = struct.unpack_from(">I", transaction_data, position)
            position += 4 + 4 * count
        elif extension != 0:
            raise DecodeError(f"unknown extension of transaction data: {extension}")
        keys: list[bytes] = []
        read_only = 0
        for _ in ("read only", "read write"):
            read_only = len(keys)
            (count,) = struct.unpack_from(">I", transaction_data, position)
            position += 4
            if len(keys) + count > MAX_FOOTPRINT:
                raise DecodeError(f"a footprint announces more than {MAX_FOOTPRINT} keys")
            for _ in range(count):
                end = ledger_key_end(transaction_data, position)
                keys.append(transaction_data[position:end])
                position = end
    except struct.error:
        raise DecodeError("the bytes end inside the transaction data") from None
    if len(transaction_data) - position != 4 + 4 + 4 + 8:  # instructions, read bytes, write bytes, resource fee
        raise DecodeError("transaction data of an unknown layout")
    return tuple(keys[:read_only]), tuple(keys[read_only:])
