"""What one answer says about a key or a call, and about which ledgers."""

from __future__ import annotations

import pytest
from hypothesis import given

from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import encode_scval, i128, symbol, u32
from exporter.ledger.observation import (
    MAX_REASON_LENGTH,
    CallObservation,
    CallResult,
    Entry,
    Interval,
    KeyObservation,
)
from exporter.ledger.source import RawEntry, SimulationAnswer
from tests.ledger.codec.scval_cases import scvals
from tests.protocols.made_ledger import contract, entry


def present(last_modified: int, live_until: int | None = None, data: bytes = b"") -> Entry:
    return Entry(b"key", RawEntry(data, last_modified, live_until))


def answer(ledger: int, footprint: tuple[bytes, ...] = (), result: bytes | None = None) -> SimulationAnswer:
    return SimulationAnswer(ledger, encode_scval(u32(1)) if result is None else result, None, footprint, "here")


@given(scvals)
def test_the_xdr_of_a_value_is_a_part_of_the_entry(value: ScVal) -> None:
    """It is what the value would be encoded to, whatever the value is."""
    key, data = entry(contract("owner"), symbol("Key"), value)

    assert encode_scval(value) == Entry(key, RawEntry(data, 1, None)).value_xdr


def test_the_xdr_of_another_entry_is_refused() -> None:
    """What is under another key has no value here."""
    _, data = entry(contract("owner"), symbol("Key"), u32(1))
    with pytest.raises(DecodeError):
        _ = Entry(entry(contract("owner"), symbol("Other"), u32(1))[0], RawEntry(data, 1, None)).value_xdr


class TestInterval:
    def test_intersect(self) -> None:
        """The ledgers that are in both; none when they do not meet."""
        assert Interval(5, 7) == Interval(1, 7).intersect(Interval(5, 9))
        assert Interval(1, 4).intersect(Interval(5, 9)).empty

    def test_ends_are_inside(self) -> None:
        """Both ends belong to it."""
        assert [False, True, True, False] == [ledger in Interval(5, 6) for ledger in (4, 5, 6, 7)]
        assert not Interval(5, 5).empty


class TestEntry:
    def test_value(self) -> None:
        """The value is decoded once, and remembered."""
        key, data = entry(contract("pool"), symbol("ResList"), u32(3))
        found = Entry(key, RawEntry(data, 1, None))

        assert u32(3) == found.value
        assert found.contract_data() is found.contract_data()

    def test_undecodable(self) -> None:
        """Bytes that are no entry raise each time they are looked at."""
        found = present(1, data=b"\xff" * 8)

        for _ in range(2):
            with pytest.raises(DecodeError, match="unknown kind 4294967295"):
                found.contract_data()

    @pytest.mark.parametrize("other", ["another contract", "another key"])
    def test_another_entry_than_was_asked_for(self, other: str) -> None:
        """An entry that belongs under another key is never taken for the one that was asked for."""
        key, _ = entry(contract("pool"), symbol("ResList"), u32(3))
        _, data = entry(
            contract("pool" if other == "another key" else "other"),
            symbol("Other" if other == "another key" else "ResList"),
            u32(3),
        )

        with pytest.raises(DecodeError, match="is under another key"):
            Entry(key, RawEntry(data, 1, None)).contract_data()

    @pytest.mark.parametrize(("live_until", "archived"), [(None, False), (0, True), (1, False)])
    def test_archived(self, live_until: int | None, archived: bool) -> None:
        """Only a ``live_until`` of 0 means archived."""
        assert archived == present(1, live_until).archived


class TestKeyObservation:
    @pytest.mark.parametrize(
        ("held", "raw", "changed", "interval"),
        [
            (present(90), None, True, Interval(110, 110)),
            (None, RawEntry(b"", 105, None), True, Interval(105, 110)),
            (None, None, False, Interval(110, 110)),
            (present(90, 500), RawEntry(b"", 90, 900), False, Interval(90, 110)),
            (present(90, 500), RawEntry(b"", 90, 0), True, Interval(110, 110)),
            (present(90, 0), RawEntry(b"", 90, 700), True, Interval(90, 110)),
            (present(90, 0), RawEntry(b"", 90, 0), False, Interval(110, 110)),
            (present(90), RawEntry(b"new", 101, None), True, Interval(101, 110)),
        ],
        ids=["deleted", "created", "still absent", "extended", "archived", "restored", "still archived", "written"],
    )
    def test_later_answer(self, held: Entry | None, raw: RawEntry | None, changed: bool, interval: Interval) -> None:
        """What a later answer changes, and where the key is then known."""
        seen = KeyObservation(held, 100)

        assert changed == seen.update(b"key", raw, 110)
        assert interval == seen.interval
        assert int(changed) == seen.changes

    def test_answer_of_an_older_ledger(self) -> None:
        """A node that lags behind what is known changes nothing."""
        seen = KeyObservation(present(95), 100)

        assert not seen.update(b"key", RawEntry(b"old", 80, None), 90)
        assert Interval(95, 100) == seen.interval

    def test_busy(self) -> None:
        """Busy is what changed lately, changed while it was read, or is known at one ledger only."""
        assert [True, False] == [KeyObservation(present(modified), 100).busy for modified in (98, 97)]
        assert KeyObservation(None, 100).busy
        changed = KeyObservation(present(10), 100)
        changed.update(b"key", RawEntry(b"new", 101, None), 150)
        assert changed.busy


class TestCallObservation:
    def test_holds_as_long_as_its_footprint(self) -> None:
        """A result holds over all ledgers at which everything it looked at is known to have been the same."""
        keys = {b"a": KeyObservation(present(90), 120), b"b": KeyObservation(present(95), 110)}

        assert Interval(95, 110) == CallObservation(answer(100, (b"a", b"b"))).interval(keys)

    @pytest.mark.parametrize(
        ("ledger", "footprint"),
        [(100, ()), (100, (b"a", b"unknown")), (80, (b"a",)), (121, (b"a",))],
        ids=["no footprint", "a key that was not read", "before the change", "after the reading"],
    )
    def test_else_at_its_own_ledger(self, ledger: int, footprint: tuple[bytes, ...]) -> None:
        """Without such knowledge the result is known at the ledger it was simulated at alone."""
        keys = {b"a": KeyObservation(present(90), 120)}

        assert Interval(ledger, ledger) == CallObservation(answer(ledger, footprint)).interval(keys)

    def test_must_repeat(self) -> None:
        """A call is repeated where what it looked at changed after it, or where reading more cannot widen it."""
        keys = {b"a": KeyObservation(present(90), 120), b"gone": KeyObservation(None, 120)}

        assert CallObservation(answer(80, (b"a",))).must_repeat(keys)
        assert CallObservation(answer(100, ())).must_repeat(keys)
        assert CallObservation(answer(120, (b"gone",))).must_repeat(keys)
        assert not CallObservation(answer(100, (b"a",))).must_repeat(keys)
        assert not CallObservation(answer(100, (b"unknown",))).must_repeat(keys)

    def test_failed_call_binds_nothing(self) -> None:
        """A call that failed gives no number, so it does not matter where that holds."""
        failed = CallObservation(SimulationAnswer(100, None, "trapped", (), "here"))

        assert not failed.binding
        assert CallResult(None, "trapped", 100) == failed.result()

    def test_undecodable_result(self) -> None:
        """A result that is not a value is an error of that call."""
        result = CallObservation(answer(100, result=b"\xff\xff\xff\xff")).result()

        assert result.value is None
        assert result.error is not None
        assert result.error.startswith("the result cannot be decoded")

    def test_result(self) -> None:
        """A result is decoded."""
        assert i128(-3) == CallObservation(answer(100, result=encode_scval(i128(-3)))).result().value


class TestReason:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            ("HostError: Error(Contract, #2)", "HostError: Error(Contract, #2)"),
            ("HostError: Error(Contract, #2) Event log (newest first): 0: x", "HostError: Error(Contract, #2)"),
            ("HostError: Error(Contract, #2)\n\nEvent log (newest first):\n   0: x", "HostError: Error(Contract, #2)"),
            (None, "no result"),
        ],
    )
    def test_without_the_event_log(self, error: str | None, reason: str) -> None:
        """The event log behind an error is the node's own, and is cut off."""
        assert reason == CallResult(None, error, 1).reason

    def test_bounded(self) -> None:
        """A longer error is cut, and shows that it was."""
        reason = CallResult(None, "x" * 10_000, 1).reason

        assert MAX_REASON_LENGTH == len(reason)
        assert reason.endswith("…")
