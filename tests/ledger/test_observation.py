"""Tests of what one answer says about a key or a call, and about which ledgers."""

from __future__ import annotations

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec.scval_encode import encode_scval, symbol, u32
from exporter.ledger.observation import (
    MAX_REASON_LENGTH,
    CallObservation,
    CallResult,
    Entry,
    KeyObservation,
)
from exporter.ledger.source import RawEntry, SimulationAnswer
from tests.protocols.made_ledger import contract, entry


def present(last_modified: int, live_until: int | None = None, data: bytes = b"") -> Entry:
    return Entry(b"key", RawEntry(data, last_modified, live_until))


def answer(ledger: int, footprint: tuple[bytes, ...] = (), result: bytes | None = None) -> SimulationAnswer:
    return SimulationAnswer(ledger, encode_scval(u32(1)) if result is None else result, None, footprint, "here")


class TestEntry:
    @pytest.mark.parametrize(("label", "name"), [("other", "ResList"), ("pool", "Other")])
    def test_another_entry_than_was_asked_for(self, label: str, name: str) -> None:
        """An entry that belongs under another key is never taken for the one that was asked for."""
        key, _ = entry(contract("pool"), symbol("ResList"), u32(3))
        _, data = entry(contract(label), symbol(name), u32(3))

        with pytest.raises(DecodeError, match="is under another key"):
            Entry(key, RawEntry(data, 1, None)).contract_data()


class TestCallObservation:
    def test_a_call_is_repeated_if_its_entries_changed_later(self) -> None:
        """A call is repeated if what it looked at changed after it, or if reading more cannot widen its interval."""
        keys = {b"a": KeyObservation(present(90), 120), b"gone": KeyObservation(None, 120)}

        assert CallObservation(answer(80, (b"a",))).must_repeat(keys)
        assert CallObservation(answer(100, ())).must_repeat(keys)
        assert CallObservation(answer(120, (b"gone",))).must_repeat(keys)
        assert not CallObservation(answer(100, (b"a",))).must_repeat(keys)
        assert not CallObservation(answer(100, (b"unknown",))).must_repeat(keys)

    def test_an_undecodable_result_is_an_error_of_that_call(self) -> None:
        """A result that is not a value is an error of that call."""
        result = CallObservation(answer(100, result=b"\xff\xff\xff\xff")).result

        assert result.value is None
        assert result.error is not None
        assert result.error.startswith("the result cannot be decoded")


class TestReason:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            ("HostError: Error(Contract, #2)", "HostError: Error(Contract, #2)"),
            ("HostError: Error(Contract, #2) Event log (newest first): 0: x", "HostError: Error(Contract, #2)"),
            ("HostError: Error(Contract, #2)\n\nEvent log (newest first):\n   0: x", "HostError: Error(Contract, #2)"),
            (None, "no result"),
            ("x" * 10_000, "x" * (MAX_REASON_LENGTH - 1) + "…"),
        ],
    )
    def test_without_the_event_log(self, error: str | None, reason: str) -> None:
        """The event log behind an error is the node's own, and is cut off; so is the rest of a longer error."""
        assert reason == CallResult(None, error, 1).reason
