"""Tests which ledgers touch watched entries, recognized in raw bytes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from exporter.ledger.codec.entries import ttl_key
from exporter.past.lake.close_meta import walk
from exporter.past.lake.watch import Watch
from tests.past.lake.real_ledgers import facts, frames, meta_of

NOBODY = b"\x77" * 32


def test_every_changed_contract_is_recognised(real_data: Path) -> None:
    """Each contract whose state a real ledger changed is seen in its raw bytes, and one that is not there is not."""
    for fact in facts(real_data):
        raw = meta_of(real_data, fact["file"])
        keys = [base64.b64decode(item["ledger_key"]) for item in fact["contract_data"]]

        assert not Watch(frozenset([NOBODY])).touched_by(raw)
        for key in keys:
            assert Watch(frozenset([key[8:40]])).touched_by(raw)
            assert Watch(keys=frozenset([key])).touched_by(raw)


def test_changes_of_times_to_live_alone_are_recognised(real_data: Path) -> None:
    """A ledger that extends or evicts an entry names its key, so it is seen although no value changes."""
    seen = 0
    for path in sorted((real_data / "core-meta").glob("*/*.xdr")):
        known: dict[bytes, bytes] = {}
        for meta in frames(path):
            changes = walk(meta).changes
            known |= {ttl_key(change.key): change.key for change in changes if change.key[3] == 6}
            for change in changes:
                owner = known.get(change.key)
                if change.key[3] == 9 and owner is not None:
                    assert Watch(frozenset([owner[8:40]])).touched_by(meta), path.name
                    seen += 1
    if not seen:
        pytest.skip("there is no core-meta in the folder of real data")

    assert seen > 500


def test_busy_contracts_are_watched_by_key() -> None:
    """If a contract is watched by key, another key of it touches nothing."""
    key, other = (b"\0\0\0\6\0\0\0\1" + NOBODY + b"\0\0\0\3" + last + b"\0\0\0\1" for last in (b"aaaa", b"bbbb"))
    watch = Watch(keys=frozenset([key]))

    assert watch.touched_by(b"...." + key + b"....")
    assert not watch.touched_by(b"...." + other + b"....")
    assert watch.touched_by(other + key)
    assert [True, False] == [watch.wants(name) for name in (key, other)]
