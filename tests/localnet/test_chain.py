"""The versioned state of a chain, against a plain model of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.local import made_address
from exporter.ledger.codec.entries import PERSISTENT, TEMPORARY, data_key
from exporter.ledger.codec.scval_encode import symbol
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change, LedgerRangeError

CONTRACT = made_address("chain tests")
LASTING = data_key(CONTRACT, symbol("a"), PERSISTENT)
PASSING = data_key(CONTRACT, symbol("a"), TEMPORARY)
START = 100


def chain_of(*keys: bytes, live_until: int | None = 200, window: int = 1_000) -> Chain:
    """A chain at ledger 100 that has these keys, last changed at 90."""
    entries = {key: RawEntry(b"first", 90, live_until) for key in keys}
    return Chain(entries, start_ledger=START, start_time=1_000, window=window)


def test_a_write_is_seen_from_its_ledger_on() -> None:
    """Earlier ledgers keep the earlier value, and a write sets the last change to its ledger."""
    chain = chain_of(LASTING)

    assert 101 == chain.close([Change(LASTING, b"second", 300)], close_time=1_005)
    assert RawEntry(b"first", 90, 200) == chain.entry(LASTING, 100)
    assert RawEntry(b"second", 101, 300) == chain.entry(LASTING, 101)
    assert (100, 101) == (chain.oldest, chain.latest)
    assert [1_000, 1_005] == [chain.close_time(ledger) for ledger in (100, 101)]


def test_a_deleted_entry_is_absent_until_it_is_made_again() -> None:
    """A deletion leaves nothing, and what is made again is a new entry."""
    chain = chain_of(LASTING)
    chain.close([Change(LASTING, None)], close_time=1_005)
    chain.close([], close_time=1_010)
    chain.close([Change(LASTING, b"third", 400)], close_time=1_015)

    assert [b"first", None, None, b"third"] == [
        entry.data if (entry := chain.entry(LASTING, ledger)) else None for ledger in (100, 101, 102, 103)
    ]
    assert 103 == (chain.entry(LASTING, 103) or RawEntry(b"", 0, 0)).last_modified


def test_a_temporary_entry_vanishes_and_a_persistent_one_is_archived() -> None:
    """Live means live_until is at least the ledger; after that temporary is absent and persistent has 0."""
    chain = chain_of(LASTING, PASSING, live_until=101)
    for second in (5, 10):
        chain.close([], close_time=1_000 + second)

    assert 101 == (chain.entry(PASSING, 101) or RawEntry(b"", 0, 0)).live_until
    assert chain.entry(PASSING, 102) is None
    assert RawEntry(b"first", 90, 101) == chain.entry(LASTING, 101)
    assert RawEntry(b"first", 90, 0) == chain.entry(LASTING, 102)


def test_an_entry_without_a_life_does_not_expire() -> None:
    """An entry with no live_until, as classic ones are, is seen as it is."""
    chain = chain_of(LASTING, live_until=None)

    assert RawEntry(b"first", 90, None) == chain.entry(LASTING, 100)


def test_an_extension_changes_the_life_and_not_the_last_change() -> None:
    """A TTL extension is no write; it neither shortens a life nor brings anything back (docs/rpc.md, "The rule")."""
    chain = chain_of(LASTING, live_until=101)
    chain.close([], close_time=1_005, extensions={LASTING: 150, PASSING: 150})
    chain.close([], close_time=1_010, extensions={LASTING: 120})

    assert RawEntry(b"first", 90, 101) == chain.entry(LASTING, 100)
    assert RawEntry(b"first", 90, 150) == chain.entry(LASTING, 102)
    assert chain.entry(PASSING, 102) is None


def test_only_a_restoration_brings_back_what_is_archived() -> None:
    """An expired persistent entry is restored with its old last change; an expired temporary one is gone for good."""
    chain = chain_of(LASTING, PASSING, live_until=100)
    lives = {LASTING: 500, PASSING: 500}
    chain.close([], close_time=1_005, extensions=lives)

    assert RawEntry(b"first", 90, 0) == chain.entry(LASTING, 101)
    chain.close([], close_time=1_010, restorations=lives)
    assert RawEntry(b"first", 90, 500) == chain.entry(LASTING, 102)
    assert RawEntry(b"first", 90, 0) == chain.entry(LASTING, 101)
    assert chain.entry(PASSING, 102) is None


def test_the_window_bounds_what_is_answered_and_kept() -> None:
    """Ledgers before the window and after the latest are refused, and versions that nobody can see are dropped."""
    chain = chain_of(LASTING, window=3)
    for number in range(1, 11):
        chain.close([Change(LASTING, b"%d" % number, 1_000)], close_time=1_000 + number)
        assert 8 > len(chain._versions[LASTING])

    assert (108, 110) == (chain.oldest, chain.latest)
    assert [b"8", b"9", b"10"] == [
        (chain.entry(LASTING, ledger) or RawEntry(b"", 0, 0)).data for ledger in (108, 109, 110)
    ]
    for ledger in (107, 111):
        with pytest.raises(LedgerRangeError, match=f"ledger {ledger} is not between the oldest, 108"):
            chain.entry(LASTING, ledger)
        with pytest.raises(LedgerRangeError):
            chain.close_time(ledger)
    assert 5 > len(chain._close_times)


def test_a_chain_needs_a_first_ledger_and_a_window() -> None:
    """Ledger 0 and an empty window are refused."""
    with pytest.raises(ValueError, match="ledger 1 or later"):
        Chain(start_ledger=0, start_time=0)
    with pytest.raises(ValueError, match="one ledger or more"):
        Chain(start_ledger=1, start_time=0, window=0)


changes = st.lists(
    st.tuples(
        st.sampled_from(("write", "delete", "extend", "restore")),
        st.sampled_from((LASTING, PASSING)),
        st.integers(1, 12),
    ),
    max_size=3,
)


@given(st.lists(changes, max_size=20))
def test_every_ledger_agrees_with_a_model(ledgers: list[list[tuple[str, bytes, int]]]) -> None:
    """Whatever is written, deleted, extended and restored, each ledger's state is that of a model that is replayed."""
    chain = chain_of(LASTING, PASSING, live_until=103)
    model: dict[bytes, RawEntry] = {key: RawEntry(b"first", 90, 103) for key in (LASTING, PASSING)}
    states = [dict(model)]
    for ledger, happened in enumerate(ledgers, START + 1):
        arguments: dict[str, Any] = {"extensions": {}, "restorations": {}}
        writes = []
        for action, key, life in happened:
            if action == "write":
                writes.append(Change(key, b"at %d" % ledger, ledger + life))
            elif action == "delete":
                writes.append(Change(key, None))
            else:
                arguments["extensions" if action == "extend" else "restorations"][key] = ledger + life
        for key, live_until in arguments["extensions"].items():
            before = model.get(key)
            if before and before.live_until is not None and ledger <= before.live_until < live_until:
                model[key] = RawEntry(before.data, before.last_modified, live_until)
        for key, live_until in arguments["restorations"].items():
            before = model.get(key)
            if before and before.live_until is not None and before.live_until < ledger and key == LASTING:
                model[key] = RawEntry(before.data, before.last_modified, live_until)
        for change in writes:
            model.pop(change.key, None)
            if change.data is not None:
                model[change.key] = RawEntry(change.data, ledger, change.live_until)
        states.append(dict(model))
        chain.close(writes, close_time=1_000 + ledger, **arguments)

    for ledger, state in enumerate(states, START):
        expected = {
            key: entry if (entry.live_until or 0) >= ledger else RawEntry(entry.data, entry.last_modified, 0)
            for key, entry in state.items()
            if key == LASTING or (entry.live_until or 0) >= ledger
        }
        assert expected == chain.state(ledger)
