"""Walking a ledger's meta: real ledgers of real networks, streams of core's own tests, and damaged bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from stellar_sdk import xdr

from exporter.bounds import decompress
from exporter.errors import DecodeError
from exporter.ledger.codec.entries import data_key, key_of_entry
from exporter.ledger.codec.scval_encode import symbol
from exporter.localnet.chain import Chain
from exporter.localnet.lake_writer import LakeWriter
from exporter.past.lake.close_meta import (
    CREATED,
    EVICTED,
    REMOVED,
    RESTORED,
    STATE,
    UPDATED,
    Change,
    LedgerClose,
    header_of,
    walk,
)
from tests.ledger.codec.made_xdr import made
from tests.past.lake.real_ledgers import facts, frames, meta_of

DATA, CODE, TTL = 6, 7, 9
KINDS = {"created": CREATED, "updated": UPDATED, "removed": REMOVED, "restored": RESTORED}


def count_kinds(closes: list[LedgerClose], kind_of_entry: int) -> Counter[int]:
    """How many changes of each kind there are of entries of one kind."""
    return Counter(
        change.kind
        for close in closes
        for change in close.changes
        if struct.unpack_from(">I", change.key)[0] == kind_of_entry
    )


def test_ledgers_of_real_networks(real_data: Path) -> None:
    """Header, counts, and every changed contract data key with its last value are those that others decoded."""
    for fact in facts(real_data):
        close = walk(meta_of(real_data, fact["file"]))

        assert (fact["ledger"], fact["protocol"], fact["close_time"]) == (
            close.header.ledger,
            close.header.protocol_version,
            close.header.close_time,
        )
        assert fact["ledger_hash"] == close.header.hash.hex()
        assert fact["previous_ledger_hash"] == close.header.previous_hash.hex()
        assert fact["bucket_list_hash"] == close.header.bucket_list_hash.hex()
        last: dict[str, str | None] = {}
        for change in close.changes:
            if change.key[3] == DATA and change.kind not in (STATE, EVICTED):
                digest = None if change.entry is None else hashlib.sha256(change.entry).hexdigest()
                last[base64.b64encode(change.key).decode()] = digest
        assert {item["ledger_key"]: item["final_entry_sha256"] for item in fact["contract_data"]} == last
        if fact["contract_data"]:
            first = fact["contract_data"][0]
            assert first["ttl_key_hash"] == hashlib.sha256(base64.b64decode(first["ledger_key"])).hexdigest()


def test_streams_of_core(real_data: Path) -> None:
    """Every ledger that core's tests wrote is walked whole, follows the one before, and changes what it should."""
    path = real_data / "core-meta-facts.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    ledgers = 0
    for fact in json.loads(path.read_text())["files"]:
        closes: list[LedgerClose] = []
        for meta in frames(real_data / "core-meta" / fact["file"]):
            close = walk(meta)
            if closes and close.header.ledger == closes[-1].header.ledger + 1:
                assert closes[-1].header.hash == close.header.previous_hash
            closes.append(close)
        ledgers += len(closes)
        data, ttl, code = (count_kinds(closes, kind) for kind in (DATA, TTL, CODE))
        for name, kind in KINDS.items():
            assert fact["contract_data"][name] == data[kind], (fact["file"], name)
            assert fact["ttl"][name] == ttl[kind], (fact["file"], name)
        evicted = fact["evicted"]
        assert evicted["persistent"] + evicted["temporary"] == data[EVICTED], fact["file"]
        assert (evicted["code"], evicted["ttl"]) == (code[EVICTED], ttl[EVICTED]), fact["file"]

    assert ledgers > 2_000


def test_the_state_before_is_that_of_the_last_change(real_data: Path) -> None:
    """The first value before a change, of each key and ledger, is the value that the changes so far give."""
    compared = 0
    for path in sorted((real_data / "core-meta").glob("*/*.xdr")):
        state: dict[bytes, bytes | None] = {}
        for meta in frames(path):
            seen: set[bytes] = set()
            for change in walk(meta).changes:
                if change.kind == STATE:
                    if change.key not in seen and change.key in state:
                        assert state[change.key] == change.entry, path.name
                        compared += 1
                elif change.kind == UPDATED and change.key[3] == TTL and state.get(change.key) is not None:
                    # Transactions of one stage do not see each other's extensions (CAP-63): the longest counts.
                    now = state[change.key]
                    assert now is not None
                    assert change.entry is not None
                    state[change.key] = max(now, change.entry, key=lambda entry: entry[40:44])
                elif change.kind != EVICTED:
                    state[change.key] = change.entry
                seen.add(change.key)

    assert compared > 100


_NOTHING = bytes(4)


def word(number: int) -> bytes:
    return struct.pack(">I", number)


def with_upgrades(folder: Path, *upgrades: bytes) -> bytes:
    """The meta of a ledger without transactions, in which these upgrades happened, each with its changes."""
    chain = Chain({}, start_ledger=100, start_time=1_800_000_000)
    with LakeWriter(chain, "made", folder):
        chain.close([], close_time=1_800_000_005)
    meta = decompress(next(folder.rglob("*.xdr.zst")).read_bytes())[12:]
    behind = 4 + 8 + 4  # no consensus messages, the size of the live state, nothing evicted
    assert _NOTHING == meta[-behind - 4 : -behind]
    return meta[: -behind - 4] + word(len(upgrades)) + b"".join(upgrades) + meta[-behind:]


NEW_VALUE = {1: word(29), 2: word(200), 3: word(1_000), 4: word(5_000_000), 5: word(1), 6: bytes(64), 7: word(50)}
"""The part of an upgrade after its kind: a number, or the entry with the new settings."""
UPGRADED = data_key("CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA", symbol("upgraded"))


@pytest.mark.parametrize("kind", NEW_VALUE)
def test_an_upgrade_of_each_kind(tmp_path: Path, kind: int) -> None:
    """Whatever a network's upgrade changes, what follows it is read, and entries that it removed are changes."""
    upgrade = word(kind) + NEW_VALUE[kind]
    close = walk(with_upgrades(tmp_path, upgrade + _NOTHING, upgrade + word(1) + word(REMOVED) + UPGRADED))

    assert (101, (Change(REMOVED, UPGRADED, None),)) == (close.header.ledger, close.changes)


@pytest.mark.parametrize("kind", [0, 8])
def test_an_upgrade_of_an_unknown_kind(tmp_path: Path, kind: int) -> None:
    """How long it is cannot be known, so the ledger is refused, and the error says to update."""
    with pytest.raises(DecodeError, match=r"unknown kind of upgrade .*update the exporter"):
        walk(with_upgrades(tmp_path, word(kind) + word(1) + _NOTHING))


def contract_changes(value: object) -> Iterator[Change]:
    """The changes of contract state inside a value of stellar-sdk, in the order in which they are written."""
    if isinstance(value, xdr.LedgerEntryChange):
        entry = value.created or value.updated or value.state or value.restored
        if value.removed is not None and value.removed.type.value in (DATA, CODE, TTL):
            yield Change(REMOVED, value.removed.to_xdr_bytes(), None)
        elif entry is not None and entry.data.type.value in (DATA, CODE, TTL):
            yield Change(value.type.value, key_of_entry(entry.to_xdr_bytes()), entry.to_xdr_bytes())
    elif isinstance(value, list):
        for each in value:
            yield from contract_changes(each)
    elif not isinstance(value, Enum) and hasattr(value, "__dict__"):
        yield from contract_changes(list(vars(value).values()))


def made_close(version: int, seed: int) -> Any:
    """A ledger's meta of any version with transactions of every form, whose header has the hashes of its parts."""
    source = random.Random(seed)
    close = made(f"LedgerCloseMetaV{version}", source)
    results = "TransactionResultMeta" + ("V1" if version == 2 else "")
    close.tx_processing = [made(results, source, tx_apply_processing=meta) for meta in metas_of_transactions(source)]
    if version == 1:
        close.unused = []
    header = close.ledger_header.header
    header.scp_value.close_time = xdr.TimePoint(xdr.Uint64(1_700_000_000))
    header.scp_value.ext = made("StellarValueExt", source, v=xdr.StellarValueType.STELLAR_VALUE_SIGNED)
    tx_set = close.tx_set.to_xdr_bytes()
    content = tx_set[:32] + tx_set[36:] if version == 0 else tx_set  # the old form leaves out the number
    header.scp_value.tx_set_hash = xdr.Hash(hashlib.sha256(content).digest())
    pairs = word(len(close.tx_processing)) + b"".join(each.result.to_xdr_bytes() for each in close.tx_processing)
    header.tx_set_result_hash = xdr.Hash(hashlib.sha256(pairs).digest())
    close.ledger_header.hash = xdr.Hash(hashlib.sha256(header.to_xdr_bytes()).digest())
    return close


def metas_of_transactions(source: random.Random) -> list[Any]:
    """The meta of a transaction in each form that there is."""
    return [made("TransactionMeta", source, v=form) for form in range(5)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_metas_of_each_version(version: int) -> None:
    """Whatever the version of a ledger's meta and of its transactions', its changes are those that it was made of."""
    for seed in range(2):
        close = made_close(version, seed)
        applied = list(contract_changes(close.tx_processing if version < 2 else []))
        for each in close.tx_processing if version == 2 else ():
            applied += contract_changes([each.fee_processing, each.tx_apply_processing])
        if version == 2:
            applied += contract_changes([each.post_tx_apply_fee_processing for each in close.tx_processing])
        applied += contract_changes(close.upgrades_processing)
        evicted = (
            [] if version == 0 else [key.to_xdr_bytes() for key in close.evicted_keys if key.type.value in (6, 7, 9)]
        )

        done = walk(word(version) + close.to_xdr_bytes())

        assert [*applied, *(Change(EVICTED, key, None) for key in evicted)] == list(done.changes)
        assert close.ledger_header.hash.hash == done.header.hash


def test_damage_is_refused_or_harmless(real_data: Path) -> None:
    """Whatever byte is changed, wherever a ledger is cut: it is walked, or refused with one kind of error."""
    metas = [meta_of(real_data, fact["file"]) for fact in facts(real_data)]
    good = next(meta for meta in metas if len(meta) < 20_000)
    source = random.Random(7)
    refused = 0
    for _ in range(300):
        damaged = bytearray(good)
        if source.random() < 0.2:
            del damaged[source.randrange(len(damaged)) :]
        else:
            damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        try:
            walk(bytes(damaged))
        except DecodeError:
            refused += 1

    assert refused > 150
    with pytest.raises(DecodeError, match="4 bytes follow"):
        walk(good + b"\0\0\0\0")
    for read in (walk, header_of):
        with pytest.raises(DecodeError):
            read(b"\0\0\0\1")
