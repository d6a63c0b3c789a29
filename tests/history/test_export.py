"""One file out of a published history: exact in every format, and never half."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from exporter.cli import main
from exporter.errors import ConfigError
from exporter.history.export import Moment, Selection, parse_moment, scan_history
from exporter.stores.folder import FolderStore
from exporter.tables import COLUMNS
from exporter.tree.documents import HistoryFile
from exporter.tree.families import HISTORY_MANIFEST_KEY
from tests.history import frames
from tests.history.frames import CLOSE_TIME, LEDGER, pools_frame
from tests.history.runs import places
from tests.publishing.held import compact_history
from tests.publishing.test_compaction import DAY, FIRST_DAY, every_row, keys_of, record, rewrite, without_terms
from tests.render.rendering import contract

pytestmark = pytest.mark.usefixtures("without_pages")

NAMES = [column.name for column in COLUMNS]
START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """A folder with five runs on three days; the first day is compacted."""
    store = FolderStore(tmp_path / "tree")
    record(store, [FIRST_DAY, FIRST_DAY + 60, FIRST_DAY + DAY, FIRST_DAY + DAY + 60, FIRST_DAY + 2 * DAY])
    compact_history(store, most=1)
    return store


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["history", *arguments])


def exported(store: FolderStore, target: Path, *arguments: str) -> pl.DataFrame:
    result = run("export", store.uri, "--out", str(target), *arguments)
    assert 0 == result.exit_code, result.output
    return pl.read_parquet(target)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_every_format_is_exact(store: FolderStore, tmp_path: Path, ending: str) -> None:
    """All rows are in the file with every digit, whichever format was asked for."""
    target = tmp_path / f"out.{ending}"
    result = run("export", store.uri, "--out", str(target))
    assert 0 == result.exit_code, result.output
    expected = every_row(store)

    if ending == "csv":
        with target.open(newline="") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: (row["market"], row["pool"], row["observed_ledger"]))
        assert NAMES == list(rows[0])
        assert [str(value) for value in expected["total_supplied"]] == [row["total_supplied"] for row in rows]
        assert any(Decimal(row["total_supplied"]) > 2**63 for row in rows)
        assert {"2026-11-01 00:00:00.000000Z"} <= {row["ledger_close_time"] for row in rows}
    else:
        read = pl.read_parquet(target) if ending == "parquet" else pl.read_ipc(target)
        assert expected.equals(read.sort("market", "pool", "observed_ledger"))


def test_a_spreadsheet_runs_no_cell(tmp_path: Path) -> None:
    """CSV marks a text that would be a formula as text; --raw and the other formats do not change it."""
    formulas = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "  =1+1", "\t=1+1", "\r\n=1+1", "\uff1d1+1"]
    symbols = [*formulas, "USD-C", "a=b", "'=", ""]
    store = FolderStore(tmp_path / "tree")
    frame = pools_frame([{"symbol": symbol, "total_supplied": -5} for symbol in symbols])
    frames.record(store, frame, LEDGER, CLOSE_TIME)

    def exported(name: str, *flags: str) -> list[dict[str, str]]:
        assert 0 == run("export", store.uri, "--out", str(tmp_path / name), *flags).exit_code
        with (tmp_path / name).open(newline="") as file:
            return list(csv.DictReader(file))

    marked = exported("a.csv")
    expected = [f"'{symbol}".replace("\n=", "\n'=") for symbol in formulas]  # a line begins a cell, too
    assert expected + symbols[len(formulas) :] == [row["symbol"] for row in marked]
    assert {"-5"} == {row["total_supplied"] for row in marked}  # a number, not a text
    assert symbols == [row["symbol"] for row in exported("b.csv", "--raw")]
    assert 0 == run("export", store.uri, "--out", str(tmp_path / "c.parquet")).exit_code
    assert symbols == pl.read_parquet(tmp_path / "c.parquet")["symbol"].to_list()


def test_an_export_of_a_part_reads_only_the_needed_files(store: FolderStore, tmp_path: Path) -> None:
    """An export of a range, a market and a token writes only these rows, and reads only files that can have them."""
    market, token = places(2, 2)[3]
    bounds = ("--from", "2026-11-01T00:01:00Z", "--to", "1003")
    frame = exported(store, tmp_path / "a.parquet", *bounds, "--market", market, "--token", token)

    assert [1001, 1002, 1003] == frame["observed_ledger"].to_list()
    assert {(market, token)} == set(frame.select("market", "token_address").iter_rows())
    nothing = exported(store, tmp_path / "nothing.parquet", "--market", contract(99))
    assert (NAMES, 0) == (nothing.columns, nothing.height)
    for option, day in (("--from", "2026-11-03"), ("--to", "2026-11-02T00:01:00Z")):  # of which the end is left out
        result = run("export", store.uri, "--out", str(tmp_path / "b.csv"), option, day, "--log-format", "json")
        said = json.loads(result.stderr.splitlines()[-1])
        assert {"--from": (4, 1), "--to": (12, 3)}[option] == (said["rows"], said["files"])


def test_files_of_other_versions(store: FolderStore, tmp_path: Path) -> None:
    """Rows of files of all versions are in one export and one scan: columns are null where they came later.

    Those that a later version has are left out.
    """
    rewrite(store, keys_of(store)[1], without_terms)
    rewrite(store, keys_of(store)[2], lambda frame: frame.with_columns(later=pl.lit(1)))
    found = exported(store, tmp_path / "a.parquet").sort("observed_ledger", "market", "pool")
    scanned = scan_history(store.uri).collect().sort("observed_ledger", "market", "pool")

    assert found.equals(scanned)
    assert (NAMES, 20) == (found.columns, found.height)
    assert {1002} == set(found.filter(pl.col("can_borrow").is_null())["observed_ledger"])


@pytest.mark.parametrize("damage", ["missing", "other"])
def test_damage_is_noticed(store: FolderStore, tmp_path: Path, damage: str) -> None:
    """A file that is missing or has another digest ends the export, and what was there under the name stays."""
    manifest = frames.manifest_of(store)
    path = Path(store.uri) / manifest.files[1].key
    data = path.read_bytes()
    path.unlink()
    if damage == "other":
        path.write_bytes(data[:-1] + b"x")
    target = tmp_path / "a.parquet"
    target.write_bytes(b"before")

    result = run("export", store.uri, "--out", str(target))

    assert 3 == result.exit_code
    assert manifest.files[1].key in result.stderr
    assert [b"before"] == [target.read_bytes()]
    assert [target] == [path for path in tmp_path.iterdir() if path.is_file()]


def test_what_is_refused(store: FolderStore, tmp_path: Path) -> None:
    """Arguments that cannot be meant, a folder that cannot be written to, and a tree without a history are named."""
    cases = [
        (("export", store.uri, "--out", str(tmp_path / "a.xlsx")), 2, "a.xlsx names no format"),
        (("export", store.uri, "--out", str(tmp_path / "a.parquet"), "--raw"), 2, "--raw is for CSV only"),
        (("export", store.uri, "--out", str(tmp_path / "a.csv"), "--from", "x"), 2, "--from: 'x' is neither"),
        (("export", store.uri, "--out", str(tmp_path / "no" / "a.csv")), 2, "cannot write"),
        (("export", str(tmp_path), "--out", str(tmp_path / "a.csv")), 3, f"has no {HISTORY_MANIFEST_KEY}"),
        (("list", str(tmp_path / "nowhere")), 3, "is not a folder"),
        (("compact", str(tmp_path / "nowhere")), 3, "nowhere is not a folder"),
    ]
    for arguments, code, text in cases:
        result = run(*arguments)
        assert (code, True) == (result.exit_code, text in result.stderr), result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_each_file_is_listed_with_its_ledgers_and_rows(store: FolderStore) -> None:
    """Each file is listed with its ledgers, rows and bytes; as JSON, one object a line."""
    result = run("list", store.uri)
    lines = result.stdout.splitlines()
    assert 4 + 2 == len(lines)
    assert ["1000", "1001", "8"] == lines[1].split()[:3]
    assert lines[-1].startswith("4 files, 20 rows, ")

    found = [
        json.loads(line) for line in run("list", store.uri, "--log-format", "json", "--to", "1002").stdout.splitlines()
    ]
    assert [1000, 1002] == [line["first_ledger"] for line in found[:-1]]
    assert 2 == found[-1]["files"]


def test_compaction_announces_its_work_and_then_finds_nothing_more(store: FolderStore) -> None:
    """Compaction says what it would do, does it, and then finds nothing more."""
    dry = run("compact", store.uri, "--dry-run")
    assert ["history/pools/date=2026-11-02/: 2 files, 8 rows", "1 file would be written"] == dry.stdout.splitlines()
    before = every_row(store)
    result = run("compact", store.uri)
    assert "files before 2, files after 1" in result.stderr
    assert before.equals(every_row(store))
    assert "0 files would be written" == run("compact", store.uri, "--dry-run").stdout.strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("55261759", Moment(ledger=55_261_759)),
        *(("020261121", Moment(ledger=20_261_121)), ("20261321", Moment(ledger=20_261_321))),
        ("2026-11-21", Moment(time=datetime(2026, 11, 21, tzinfo=UTC))),
        ("2026-11-21T10:30:00Z", Moment(time=datetime(2026, 11, 21, 10, 30, tzinfo=UTC))),
        ("2026-11-21T10:30:00+02:00", Moment(time=datetime(2026, 11, 21, 8, 30, tzinfo=UTC))),
        ("2026-11-21T10:30", Moment(time=datetime(2026, 11, 21, 10, 30, tzinfo=UTC))),
    ],
)
def test_a_number_is_a_ledger_all_else_a_time(text: str, expected: Moment) -> None:
    """A number is a ledger, everything else a time, in UTC unless it says otherwise."""
    assert expected == parse_moment(text, "--from")


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "4294967296", "-1", "tomorrow", "2026-13-01", "21.11.2026", "\uff11\uff12"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-01:00"),  # before the year 1 and after 9999, in UTC
    ],
)
def test_what_is_no_moment_is_refused_with_its_option(text: str) -> None:
    """Anything else is refused by the name of its option."""
    with pytest.raises(ConfigError, match=r"^--from: "):
        parse_moment(text, "--from")


@pytest.mark.parametrize(("text", "day"), [("20261121", "2026-11-21"), ("2026", "2026-01-01")])
def test_a_date_without_hyphens_is_no_ledger(text: str, day: str) -> None:
    """A number that may be a date or a ledger is refused with both ways of writing it."""
    with pytest.raises(ConfigError, match=f"^--to: {text} may be .*; write {day} for the date, 0{text} for the ledger"):
        parse_moment(text, "--to")


def test_impossible_selections_are_refused() -> None:
    """A range that ends before it begins, and what is not a contract, are refused."""
    with pytest.raises(ConfigError, match="--from 5 is after --to 4"):
        Selection(Moment(ledger=5), Moment(ledger=4))
    with pytest.raises(ConfigError, match=r"--from .* is after --to "):
        Selection(Moment(time=START), Moment(time=START - timedelta(days=1)))
    for name in ("market", "token"):
        with pytest.raises(ConfigError, match=f"--{name}: 'XLM' is not the address of a contract"):
            Selection(**{name: "XLM"})  # type: ignore[arg-type]


def file_of(key: str, first: int, last: int) -> HistoryFile:
    return HistoryFile(f"history/pools/{key}", "../x", 1, 1, "0" * 64, first, last)


moments = st.one_of(
    st.just(Moment()),
    st.integers(90, 200).map(lambda ledger: Moment(ledger=ledger)),
    st.integers(-40, 120).map(lambda days: Moment(time=START + timedelta(days=days, hours=7))),
)


@given(moments, moments, st.booleans())
def test_files_hold_every_row_that_is_selected(start: Moment, end: Moment, compacted: bool) -> None:
    """Whatever is asked for, every row of it is in one of the chosen files."""
    if (start.ledger or 0) > (end.ledger or 10**9) or (start.time and end.time and start.time > end.time):
        return
    selection = Selection(start, end)
    rows = [(100 + number, START + timedelta(days=number)) for number in range(90)]  # November to January
    frame = pl.DataFrame(
        rows, schema={"observed_ledger": pl.Int64(), "ledger_close_time": pl.Datetime("us", "UTC")}, orient="row"
    )
    months = {f"{time:%Y-%m}": [own for own, other in rows if f"{other:%Y-%m}" == f"{time:%Y-%m}"] for _, time in rows}
    files = [file_of(f"date={time:%Y-%m-%d}/{ledger}.parquet", ledger, ledger) for ledger, time in rows]
    if compacted:
        files = [
            file_of(f"month={name}/{own[0]}-{own[-1]}-{12 * 'a'}.parquet", own[0], own[-1])
            for name, own in months.items()
        ]

    chosen = selection.files(reversed(files))

    wanted = frame.filter(selection.rows())["observed_ledger"].to_list()
    covered = {ledger for file in chosen for ledger in range(file.first_ledger, file.last_ledger + 1)}
    assert set(wanted) <= covered
    assert chosen == sorted(chosen, key=lambda file: file.first_ledger)
    if not compacted:
        assert len(covered) <= len(wanted) + 2
