"""What others extracted, read as changes: real lines of stellar-etl, and tables that cannot be true."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from exporter.deployments.local import made_address
from exporter.deployments.networks import NETWORKS
from exporter.errors import ConfigError
from exporter.ledger.codec.scval_encode import symbol, u32, vec
from exporter.localnet.contracts import stored_entry
from exporter.past.lake.change_files import read_changes, read_ledgers
from exporter.past.lake.close_meta import CREATED, REMOVED, UPDATED, Change
from exporter.past.lake.extract import Extracted, RangeOfLedgers
from exporter.past.lake.extracted_tables import DataRow, LifeRow, Tables, extract_rows

Rows = dict[str, list[dict[str, Any]]]
FIRST, LAST = 100, 104


def rows_of(ledger: int, value: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of contract_data and one of ttl: an entry got a value in a ledger."""
    key, data = stored_entry(made_address("tables"), vec(symbol("Value")), u32(value))
    same = {
        "ledger_sequence": ledger, "closed_at": f"2026-01-01T00:00:{ledger - FIRST:02}Z",
        "last_modified_ledger": ledger, "ledger_entry_change": UPDATED, "deleted": False,
    }  # fmt: skip
    xdr = {"contract_data_xdr": data[4:], "ledger_key_hash_base_64": key}
    encoded = {name: base64.b64encode(each).decode() for name, each in xdr.items()}
    return {**same, **encoded}, {**same, "key_hash": hashlib.sha256(key).hexdigest(), "live_until_ledger_seq": 10**6}


def made() -> Rows:
    """Five ledgers, with an entry that changes in each."""
    pairs = [rows_of(ledger, ledger) for ledger in range(FIRST, LAST + 1)]
    ledgers = [
        {"sequence": row["ledger_sequence"], "closed_at": row["closed_at"], "protocol_version": 23,
         "ledger_hash": f"{place + 1:064}", "previous_ledger_hash": f"{place:064}"}
        for place, (row, _) in enumerate(pairs)
    ]  # fmt: skip
    return {"data": [data for data, _ in pairs], "lives": [life for _, life in pairs], "ledgers": ledgers}


def written(folder: Path, rows: Rows) -> Tables:
    """The tables as JSON lines, opened; one without rows has no file."""
    folder.mkdir(exist_ok=True)
    for name, items in rows.items():
        (folder / f"{FIRST}-{LAST}-{name}.txt").write_text("".join(json.dumps(item) + "\n" for item in items))
    return Tables.open(folder)


def extracted(tables: Tables, contracts: frozenset[bytes]) -> Extracted:
    passphrase = NETWORKS["mainnet"].passphrase
    return extract_rows(tables, RangeOfLedgers("", None, passphrase, *tables.span(), contracts, frozenset()))


def contracts_of(rows: Rows) -> frozenset[bytes]:
    return frozenset(base64.b64decode(row["ledger_key_hash_base_64"])[8:40] for row in rows["data"])


def test_parquet_and_lines_are_the_same(tmp_path: Path) -> None:
    """The same rows give the same bytes in both forms, in any order and any number of files, and said twice."""
    rows = made()
    lines = extracted(written(tmp_path / "lines", rows), contracts_of(rows))
    folder = tmp_path / "parquet"
    folder.mkdir()
    for name, items in rows.items():
        typed = pl.DataFrame(items).with_columns(pl.col("closed_at").str.to_datetime(time_zone="UTC"))
        typed[2:].write_parquet(folder / f"{name}-0.parquet")
        typed[:3].reverse().write_parquet(folder / f"{name}-1.parquet")
    tables = Tables.open(folder)
    parquet = extracted(tables, contracts_of(rows))

    assert (lines.changes, read_ledgers(lines.ledgers)) == (parquet.changes, read_ledgers(parquet.ledgers))
    assert list(range(FIRST, LAST + 1)) == [ledger for ledger, _ in read_changes(lines.changes)]
    assert (1767225600, 23) == read_ledgers(lines.ledgers)[FIRST]
    assert ((), f"{0:064}", f"{5:064}") == (lines.facts.gaps, lines.facts.previous_hash, lines.facts.last_hash)
    unwatched = [
        change.key[:4]
        for _, each in read_changes(extracted(Tables.open(folder), frozenset()).changes)
        for _, change in each
    ]
    assert {b"\0\0\0\x09"} == set(unwatched)  # whose times to live these are, nothing tells


@pytest.mark.parametrize(
    ("table", "place", "wrong", "reason"),
    [
        ("data", 2, {"ledger_entry_change": 7}, "ledger_entry_change 7 with deleted False is no change"),
        ("data", 2, {"deleted": True}, "ledger_entry_change 1 with deleted True is no change"),
        ("data", 2, {"contract_data_xdr": "AAAA"}, "contract_data_xdr is not of the key"),
        ("data", 2, {"contract_data_xdr": "!"}, "contract_data_xdr is no base64"),
        ("data", 2, {"closed_at": "2026-01-01T00:01:00Z"}, "two close times"),
        ("data", 1, {"ledger_sequence": FIRST + 2, "closed_at": "2026-01-01T00:00:02Z"}, "two rows of the key"),
        ("lives", 2, {"key_hash": "00"}, "is no time to live"),
        ("ledgers", 2, {"previous_ledger_hash": "0"}, "it does not follow ledger 101"),
    ],
)
def test_rows_that_cannot_be_true_are_a_gap(
    tmp_path: Path, table: str, place: int, wrong: dict[str, Any], reason: str
) -> None:
    """The ledger of such a row is not known, with the reason; the others are."""
    rows = made()
    rows[table][place] |= wrong
    found = extracted(written(tmp_path, rows), contracts_of(rows))

    assert [(FIRST + 2, FIRST + 2)] == [(gap.first, gap.last) for gap in found.facts.gaps]
    assert reason in found.facts.gaps[0].reason
    assert {FIRST, 101, 103, LAST} == set(read_ledgers(found.ledgers))


def test_a_ledger_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    """What history_ledgers does not have is not known, whatever the other tables say of it."""
    rows = made()
    del rows["ledgers"][1:3]
    found = extracted(written(tmp_path, rows), contracts_of(rows))

    assert [(101, 102)] == [(gap.first, gap.last) for gap in found.facts.gaps]
    assert [FIRST, 103, LAST] == [ledger for ledger, _ in read_changes(found.changes)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("100-104-lives.txt", "", "has no rows of ttl: without them nothing tells what is archived"),
        ("100-104-ledgers.txt", "", "has no rows of history_ledgers"),
        ("accounts.txt", '{"account_id": "G"}', "accounts.txt has none of the columns contract_data_xdr"),
        ("more.txt", '{"contract_data_xdr": ""}', "more.txt lacks the column ledger_sequence"),
        ("more.txt", "{", "more.txt, line 1: "),
        ("more.parquet", "PAR1", "more.parquet is neither Parquet nor JSON lines"),
    ],
)
def test_what_is_no_table_is_refused_by_name(tmp_path: Path, name: str, content: str, message: str) -> None:
    """A file that is none of the tables, and a table that is missing, are errors that say what to do."""
    written(tmp_path, made())
    (tmp_path / name).write_text(content)

    with pytest.raises(ConfigError, match="has the SQL") as error:
        Tables.open(tmp_path)
    assert message in str(error.value)


def test_real_lines(real_data: Path, tmp_path: Path) -> None:
    """Lines that stellar-etl made of 101 ledgers of mainnet become the changes that they say."""
    folder = real_data / "stellar-etl"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    data, lives = ((folder / f"{name}.golden").read_bytes().splitlines() for name in ("contract_data", "ttl"))
    rows = [msgspec.json.decode(line) for line in data]
    closes = {row["ledger_sequence"]: row["closed_at"] for row in rows}
    ledgers = [{"sequence": each, "closed_at": at, "protocol_version": 20} for each, at in sorted(closes.items())]
    (tmp_path / "contract_data.txt").write_bytes(b"\n".join(data))
    (tmp_path / "ttl.txt").write_bytes(b"\n".join(lives))
    (tmp_path / "ledgers.txt").write_text("\n".join(map(json.dumps, ledgers)))
    found = extracted(Tables.open(tmp_path), contracts_of({"data": rows}))
    changes: list[Change] = [change for _, each in read_changes(found.changes) for _, change in each]

    assert {CREATED: 64, UPDATED: 18, REMOVED: 2} == Counter(change.kind for change in changes)
    assert {row["ledger_key_hash"] for row in rows} == {hashlib.sha256(change.key).hexdigest() for change in changes}
    without = [
        msgspec.structs.replace(msgspec.json.decode(line, type=DataRow), ledger_key_hash_base_64=None) for line in data
    ]
    assert Counter(row.change() for row in without) == Counter(changes)  # the key follows from the entry as well
    assert 52_677_120 == int.from_bytes(
        (msgspec.json.decode(lives[0], type=LifeRow).change().entry or b"")[40:44], "big"
    )
