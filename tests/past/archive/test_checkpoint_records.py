"""Tests of ledger headers."""

from __future__ import annotations

import struct

import pytest

from exporter.errors import DecodeError
from exporter.past.archive.checkpoint_records import checked_chain, decode_ledger_header
from tests.past.archive.simulated_archive import header, header_record


def test_a_header_that_was_changed_is_refused() -> None:
    """One changed byte, or one too many, does not have the hash that is before it."""
    record = header_record(header(1, bytes(32), bytes(32)))

    with pytest.raises(DecodeError, match="the header of ledger 1 has the hash"):
        decode_ledger_header(record[:150] + b"\1" + record[151:])
    with pytest.raises(DecodeError, match="has the hash"):
        decode_ledger_header(header_record(header(1, bytes(32), bytes(32)) + bytes(4)))
    with pytest.raises(DecodeError, match="unknown kind of ledger header: 9"):
        decode_ledger_header(header_record(header(1, bytes(32), bytes(32), value=struct.pack(">I", 9))))
    for cut in (0, 35, 40, 200, 300):
        with pytest.raises(DecodeError):
            decode_ledger_header(header_record(record[32:-4][:cut]))


def test_headers_form_one_chain() -> None:
    """A header that does not name the hash of the one before it, or leaves a ledger out, is refused."""
    first = decode_ledger_header(header_record(header(1, bytes(32), bytes(32))))
    second = decode_ledger_header(header_record(header(2, first.hash, bytes(32))))
    other = decode_ledger_header(header_record(header(2, bytes(32), bytes(32))))
    extended = header(1, bytes(32), bytes(32))[:-4] + struct.pack(">III", 1, 7, 0)
    assert 1 == decode_ledger_header(header_record(extended)).ledger
    third = decode_ledger_header(header_record(header(3, first.hash, bytes(32))))

    assert [first, second] == checked_chain([first, second])
    for wrong in (other, third):
        with pytest.raises(DecodeError, match=f"ledger {wrong.ledger} does not follow ledger 1"):
            checked_chain([first, wrong])
