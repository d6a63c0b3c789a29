"""Carrying contract state from ledger to ledger."""

from __future__ import annotations

import base64
import csv
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.errors import LakeError
from exporter.ledger.codec.entries import ARCHIVED, TEMPORARY, data_key, ttl_key
from exporter.ledger.codec.scval_encode import encode_scval, symbol, u32
from exporter.ledger.codec.strkey import encode_contract
from exporter.ledger.source import RawEntry
from exporter.past.lake.close_meta import (
    CREATED,
    EVICTED,
    REMOVED,
    RESTORED,
    STATE,
    UPDATED,
    Change,
    walk,
)
from exporter.past.lake.replay import ReplayedState, WronglyArchived, wrongly_archived
from tests.past.lake.real_ledgers import frames

CONTRACT = encode_contract(b"\x05" * 32)
KEY = data_key(CONTRACT, symbol("State"))
PASSING = data_key(CONTRACT, symbol("State"), TEMPORARY)


Close = tuple[int, int, Sequence[Change]]
"""A ledger, its protocol, and its changes."""


def close(ledger: int, *changes: Change, protocol: int = 23) -> Close:
    return ledger, protocol, changes


def value(kind: int, number: int, ledger: int, key: bytes = KEY) -> Change:
    data = b"\0\0\0\6\0\0\0\0" + key[4:] + encode_scval(u32(number))
    return Change(kind, key, struct.pack(">I", ledger) + data + bytes(4))


def life(kind: int, until: int, key: bytes = KEY) -> Change:
    own = ttl_key(key)
    return Change(kind, own, struct.pack(">II", 1, 9) + own[4:] + struct.pack(">II", until, 0))


def number_in(entry: RawEntry | None) -> int | None:
    return None if entry is None else int.from_bytes(entry.data[-4:], "big")


def state(*closes: Close, wrong: dict[bytes, WronglyArchived] | None = None) -> ReplayedState:
    replayed = ReplayedState({}, 0, wrong=wrong)
    for item in closes:
        replayed.take(*item)
    return replayed


BEGUN = close(5, value(CREATED, 1, 5), life(CREATED, 50))
GONE, ENDED = Change(REMOVED, KEY, None), Change(REMOVED, ttl_key(KEY), None)
EXTENDED, REMADE = close(6, life(UPDATED, 900)), close(7, ENDED, GONE, value(CREATED, 3, 7), life(CREATED, 60))
OUT = close(60, Change(EVICTED, KEY, None), Change(EVICTED, ttl_key(KEY), None))


@pytest.mark.parametrize(
    ("closes", "number", "last_modified", "live_until"),
    [
        # The last change in a ledger counts, and what a value was before is not a change.
        ([close(5, value(CREATED, 1, 5), life(CREATED, 100), value(STATE, 9, 5), value(UPDATED, 2, 5))], 2, 5, 100),
        # The longer of two extensions counts, whatever their order; a new life may be shorter.
        ([BEGUN, close(6, life(UPDATED, 900), life(UPDATED, 800))], 1, 5, 900),
        ([BEGUN, EXTENDED, REMADE], 3, 7, 60),
        # A persistent entry whose time is over is archived, without a word in the meta.
        ([BEGUN, close(50)], 1, 5, 50),
        ([BEGUN, close(51)], 1, 5, ARCHIVED),
        # An evicted one stays archived with its value; a restored one is what the change says.
        ([BEGUN, OUT], 1, 5, ARCHIVED),
        ([BEGUN, OUT, close(70, value(RESTORED, 1, 70), life(RESTORED, 500))], 1, 70, 500),
    ],
)
def test_an_entry_as_a_reader_sees_it(closes: list[Close], number: int, last_modified: int, live_until: int) -> None:
    """Value, last change and end of life follow from the changes, in their order."""
    seen = state(*closes).entry(KEY)

    assert seen is not None
    assert (number, last_modified, live_until) == (number_in(seen), seen.last_modified, seen.live_until)


def test_what_is_gone() -> None:
    """An entry that a transaction removes is absent, even right after a restoration; so is an expired temporary one."""
    removed = state(BEGUN, close(60, value(RESTORED, 1, 5), life(RESTORED, 90), GONE))
    passing = state(close(6, value(CREATED, 1, 6, PASSING), life(CREATED, 50, PASSING)))
    passing.take(*close(50, value(STATE, 1, 6, PASSING)))

    assert removed.entry(KEY) is None
    assert {} == removed.stored()
    assert 1 == number_in(passing.entry(PASSING))
    passing.take(*close(51))
    assert passing.entry(PASSING) is None


def test_the_wrong_values_of_protocol_23() -> None:
    """A listed entry is archived with its listed value, and has the right one from protocol 24 on (CAP-76)."""
    old, right = (value(UPDATED, number, number).entry or b"" for number in (1, 2))
    wrong = {KEY: WronglyArchived(60, old, right)}
    replayed = state(close(5, value(CREATED, 2, 5), life(CREATED, 50)), OUT, wrong=wrong)

    assert 1 == number_in(replayed.entry(KEY))
    replayed.take(*close(61, protocol=24))
    assert 2 == number_in(replayed.entry(KEY))


def test_ledgers_go_forward() -> None:
    """A ledger is replayed once."""
    with pytest.raises(LakeError, match="ledger 5 cannot be replayed over ledger 5"):
        state(close(5), close(5))


def test_evicted_and_restored_by_core(real_data: Path) -> None:
    """Whatever core's tests restore had, as archived, exactly the value that comes back."""
    restored = 0
    for path in sorted((real_data / "core-meta").glob("*/*.xdr")):
        replayed = ReplayedState({}, 0)
        for meta in frames(path):
            ledger = walk(meta)
            if ledger.header.ledger <= replayed.ledger:
                replayed = ReplayedState({}, 0)
            for change in ledger.changes:
                before = replayed.entry(change.key) if change.kind == RESTORED and change.key[3] != 9 else None
                if before is not None and change.entry is not None:
                    assert before.data == change.entry[4:-4], path.name
                    restored += 1
            replayed.take(ledger.header.ledger, ledger.header.protocol_version, ledger.changes)
    if not restored:
        pytest.skip("there is no core-meta in the folder of real data")

    assert restored > 50


MAINNET, TESTNET = (NETWORKS[name].passphrase for name in ("mainnet", "testnet"))


def test_only_mainnet_has_such_entries() -> None:
    """There are 478 on mainnet, evicted from ledger 58,774,258 to 59,301,970, and none elsewhere."""
    found = wrongly_archived(MAINNET)
    evicted = [entry.evicted for entry in found.values()]

    assert (478, 58_774_258, 59_301_970) == (len(found), min(evicted), max(evicted))
    assert {} == wrongly_archived(TESTNET)


def test_they_are_those_of_the_published_list(real_data: Path) -> None:
    """Keys, ledgers, and both values are those that CAP-76 lists."""
    path = real_data / "cap-0076-corrupted-hot-archive-entries.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    found = wrongly_archived(MAINNET)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            entry = found.pop(base64.b64decode(row["ledger_key"]))
            assert int(row["evicted_ledger_seq"]) == entry.evicted
            assert base64.b64decode(row["archived_entry"]) == entry.archived
            assert base64.b64decode(row["correct_entry"]) == entry.correct

    assert {} == found
