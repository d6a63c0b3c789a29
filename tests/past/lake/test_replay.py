"""Carrying contract state from ledger to ledger."""

from __future__ import annotations

import base64
import csv
import struct
from pathlib import Path

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.errors import LakeError
from exporter.ledger.codec.entries import ARCHIVED, TEMPORARY, data_key, ttl_key
from exporter.ledger.codec.ledger_header import LedgerHeader
from exporter.ledger.codec.scval import ScVal
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
    LedgerClose,
    walk,
)
from exporter.past.lake.replay import ReplayedState, WronglyArchived, wrongly_archived
from tests.past.lake.real_ledgers import frames

CONTRACT = encode_contract(b"\x05" * 32)
KEY = data_key(CONTRACT, symbol("State"))
PASSING = data_key(CONTRACT, symbol("State"), TEMPORARY)


def close(ledger: int, *changes: Change, protocol: int = 23) -> LedgerClose:
    header = LedgerHeader(
        b"", bytes(32), ledger, protocol, bytes(32), 1_700_000_000, 1, bytes(32), bytes(32), bytes(32)
    )
    return LedgerClose(header, changes)


def value(kind: int, content: ScVal, ledger: int, key: bytes = KEY) -> Change:
    data = b"\0\0\0\6\0\0\0\0" + key[4:] + encode_scval(content)
    return Change(kind, key, struct.pack(">I", ledger) + data + bytes(4))


def life(kind: int, until: int, key: bytes = KEY) -> Change:
    own = ttl_key(key)
    return Change(kind, own, struct.pack(">II", 1, 9) + own[4:] + struct.pack(">II", until, 0))


def content(entry: RawEntry | None, key: bytes = KEY) -> bytes | None:
    """The value in an entry, as XDR."""
    return None if entry is None else entry.data[8 + len(key) - 4 :]


def apply(replayed: ReplayedState, close: LedgerClose) -> None:
    replayed.take(close.header.ledger, close.header.protocol_version, close.changes)


def state(*closes: LedgerClose, wrong: dict[bytes, WronglyArchived] | None = None) -> ReplayedState:
    replayed = ReplayedState({}, 0, wrong=wrong)
    for item in closes:
        apply(replayed, item)
    return replayed


def test_the_last_change_in_a_ledger_counts() -> None:
    """Changes are taken in order; what a value was before is not a change."""
    seen = state(
        close(5, value(CREATED, u32(1), 5), life(CREATED, 100), value(STATE, u32(9), 5), value(UPDATED, u32(2), 5))
    ).entry(KEY)

    assert encode_scval(u32(2)) == content(seen)
    assert (5, 100) == (seen and seen.last_modified, seen and seen.live_until)


def test_lives_only_grow_until_they_are_removed() -> None:
    """Of two extensions the longer one counts, whatever their order; a new life may be shorter."""
    begun = close(5, value(CREATED, u32(1), 5), life(CREATED, 50))
    extended = state(begun, close(6, life(UPDATED, 900), life(UPDATED, 800))).entry(KEY)
    renewed = close(
        7, Change(REMOVED, ttl_key(KEY), None), Change(REMOVED, KEY, None), value(CREATED, u32(3), 7), life(CREATED, 60)
    )
    shorter = state(begun, close(6, life(UPDATED, 900)), renewed).entry(KEY)

    assert 900 == (extended and extended.live_until)
    assert 60 == (shorter and shorter.live_until)


@pytest.mark.parametrize(("ledger", "alive"), [(50, True), (51, False)])
def test_what_becomes_of_entries_when_their_time_is_over(ledger: int, alive: bool) -> None:
    """A temporary entry is gone, a persistent one archived, without a word in the meta."""
    replayed = state(
        close(5, value(CREATED, u32(1), 5), life(CREATED, 50)),
        close(6, value(CREATED, u32(1), 6, PASSING), life(CREATED, 50, PASSING)),
        close(ledger),
    )
    kept = replayed.entry(KEY)

    assert (50 if alive else ARCHIVED) == (kept and kept.live_until)
    assert alive == (replayed.entry(PASSING) is not None)


def test_eviction_keeps_the_last_value_and_restoring_gives_what_it_gives() -> None:
    """An evicted entry stays archived with its value; a restored one is what the change says."""
    begun = close(5, value(CREATED, u32(1), 5), life(CREATED, 50))
    evicted = state(begun, close(60, Change(EVICTED, KEY, None), Change(EVICTED, ttl_key(KEY), None)))
    archived = evicted.entry(KEY)
    apply(evicted, close(70, value(RESTORED, u32(1), 70), life(RESTORED, 500)))
    restored = evicted.entry(KEY)

    assert (encode_scval(u32(1)), ARCHIVED) == (content(archived), archived and archived.live_until)
    assert (70, 500) == (restored and restored.last_modified, restored and restored.live_until)


def test_a_removed_entry_is_absent() -> None:
    """What a transaction removes is gone, also right after it was restored."""
    replayed = state(
        close(5, value(CREATED, u32(1), 5), life(CREATED, 50)),
        close(60, value(RESTORED, u32(1), 5), life(RESTORED, 90), Change(REMOVED, KEY, None)),
    )

    assert replayed.entry(KEY) is None
    assert {} == replayed.stored()


def test_the_wrong_values_of_protocol_23() -> None:
    """A listed entry is archived with its listed value, and has the right one from protocol 24 on (CAP-76)."""
    old, right = (value(UPDATED, u32(number), number).entry or b"" for number in (1, 2))
    wrong = {KEY: WronglyArchived(60, old, right)}
    replayed = state(
        close(5, value(CREATED, u32(2), 5), life(CREATED, 50)), close(60, Change(EVICTED, KEY, None)), wrong=wrong
    )
    during = replayed.entry(KEY)
    apply(replayed, close(61, protocol=24))
    after = replayed.entry(KEY)

    assert encode_scval(u32(1)) == content(during)
    assert encode_scval(u32(2)) == content(after)


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
            apply(replayed, ledger)
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
    key = next(iter(found))
    assert {key: found[key]} == wrongly_archived(MAINNET, lambda item: item == key)


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
