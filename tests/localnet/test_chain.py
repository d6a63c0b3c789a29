"""The versioned state of a chain, against a plain model of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.deployments.networks import derived_address
from exporter.ledger.codec.entries import PERSISTENT, TEMPORARY, data_key
from exporter.ledger.codec.scval_encode import symbol
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change, LedgerRangeError

CONTRACT = derived_address("chain tests")
LASTING = data_key(CONTRACT, symbol("a"), PERSISTENT)
PASSING = data_key(CONTRACT, symbol("a"), TEMPORARY)
START = 100


def chain_of(*keys: bytes, live_until: int | None = 200, window: int = 1_000) -> Chain:
    """A chain at ledger 100 that has these keys, last changed at 90."""
    entries = {key: RawEntry(b"first", 90, live_until) for key in keys}
    return Chain(entries, start_ledger=START, start_time=1_000, window=window)


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


writes = st.dictionaries(st.sampled_from((LASTING, PASSING)), st.none() | st.integers(1, 12))


@given(st.lists(writes, max_size=20))
def test_every_ledger_agrees_with_a_model(ledgers: list[dict[bytes, int | None]]) -> None:
    """Whatever is written and deleted, each ledger's state is that of a model that is replayed."""
    chain = chain_of(LASTING, PASSING, live_until=103)
    model: dict[bytes, RawEntry] = {key: RawEntry(b"first", 90, 103) for key in (LASTING, PASSING)}
    states = [dict(model)]
    for ledger, lives in enumerate(ledgers, START + 1):
        data = b"at %d" % ledger
        for key, life in lives.items():
            model.pop(key, None)
            if life is not None:
                model[key] = RawEntry(data, ledger, ledger + life)
        states.append(dict(model))
        changes = [
            Change(key, None) if life is None else Change(key, data, ledger + life) for key, life in lives.items()
        ]
        chain.close(changes, close_time=1_000 + ledger)

    for ledger, state in enumerate(states, START):
        expected = {
            key: entry if (entry.live_until or 0) >= ledger else RawEntry(entry.data, entry.last_modified, 0)
            for key, entry in state.items()
            if key == LASTING or (entry.live_until or 0) >= ledger
        }
        assert expected == chain.state(ledger)
