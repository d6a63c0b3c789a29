"""The snippets do what they say against a tree that the job published, in a folder and over HTTP."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

from exporter import FORMAT
from exporter.stores.folder import FolderStore
from tests.history.frames import manifest_of
from tests.readers.snippets import DOCS, OTHER_PYTHON, SCRIPTS, TEMPLATES, ask, run_program, template
from tests.readers.trees import COLUMNS, Row, assert_found, expected_totals, rewrite_newest


def test_the_documentation_links_every_snippet() -> None:
    """docs/history.md links each snippet of the site's templates."""
    linked = re.findall(r"\(\.\./site_templates/snippets/([\w.]+)\.j2\)", DOCS.read_text())

    assert sorted(SCRIPTS.values()) == sorted(linked)
    assert sorted(SCRIPTS.values()) == sorted(path.name.removesuffix(".j2") for path in TEMPLATES.iterdir())


def test_rates_and_totals_of_a_folder(reader: str, published: Path, published_rows: list[Row]) -> None:
    """Each reader finds the rates and the exact totals in a folder, though superseded files lie next to them."""
    assert_found(ask(reader, template(reader, published)), published_rows)


OVER_HTTP = ["polars", *(pytest.param(name, marks=pytest.mark.slow) for name in ("duckdb", "pandas"))]


@pytest.mark.parametrize("reader", OVER_HTTP)
def test_readers_over_http(reader: str, url: str, published_rows: list[Row]) -> None:
    """The readers that can find the same behind `exporter serve`."""
    assert_found(ask(reader, template(reader, url)), published_rows)


def test_curl_makes_a_copy(url: str, published: Path, published_rows: list[Row], tmp_path: Path) -> None:
    """The copy has the files that the manifest names and no others, a second call fetches none, and readers read it.

    A file that is not the one of the manifest is named, and the copy's manifest is not replaced.
    """
    script, copy = template("curl", url), tmp_path / "lending-markets"
    first = run_program("curl", script, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in copy.rglob("*.parquet")}
    second = run_program("curl", script, tmp_path)

    assert (0, "", 0, "") == (first.returncode, first.stderr, second.returncode, second.stderr)
    assert "3 files up to ledger 65000004\n" == first.stdout
    assert {file.key for file in manifest_of(FolderStore(published)).files} == {
        path.relative_to(copy).as_posix() for path in copy.rglob("*.parquet")
    }
    assert times == {path: path.stat().st_mtime_ns for path in copy.rglob("*.parquet")}
    assert expected_totals(published_rows) == ask("duckdb", template("duckdb", copy))["totals"]

    (copy / "v1" / "history.json").write_text("as it was")
    damaged = manifest_of(FolderStore(published)).files[0].key
    (copy / damaged).write_bytes(b"PAR1")
    third = run_program("curl", script, tmp_path)
    assert (1, True) == (third.returncode, f"{damaged}: FAILED" in third.stdout)
    assert "as it was" == (copy / "v1" / "history.json").read_text()


@pytest.mark.parametrize("key", ["../../outside", "history/pools/date=2026-11-18/1.parquet\\nx  ../../outside"])
def test_curl_writes_nowhere_else(key: str, tmp_path: Path) -> None:
    """A manifest whose keys lead out of the copy is refused before anything is fetched."""
    (tmp_path / "tree" / "v1").mkdir(parents=True)
    entry = f'{{"key": "{key}", "sha256": "{"0" * 64}"}}'
    (tmp_path / "tree" / "v1" / "history.json").write_text(f'{{"observed_ledger": 1, "files": [{entry}]}}')

    done = run_program("curl", template("curl", (tmp_path / "tree").as_uri()), tmp_path)

    assert 0 != done.returncode
    assert "bad entry" in done.stderr
    assert [] == list((tmp_path / "lending-markets").rglob("*.parquet"))


def test_fetch_sums_with_bigint(url: str, published: Path, published_rows: list[Row], tmp_path: Path) -> None:
    """The snippet for JavaScript counts the history, and gives the totals of the newest ledger to the last digit."""
    totals: dict[str, int] = {}
    for token, _, _, total in expected_totals(published_rows):
        totals[token] = totals.get(token, 0) + int(total)
    ledger = manifest_of(FolderStore(published)).observed_ledger
    history = f"{len(published_rows)} rows in 3 Parquet files, up to ledger {ledger}"

    done = run_program("fetch", template("fetch", url), tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert [history, *(f"{token} {total}" for token, total in sorted(totals.items()))] == done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("change", "valid"), [(("", ""), True), (('"type":"boolean"', '"type":"integer"'), False)])
def test_frictionless_judges_the_package(published: Path, change: tuple[str, str], valid: bool, tmp_path: Path) -> None:
    """Every row of every table is as the data package says; of a package that says something else it is not."""
    program = OTHER_PYTHON.with_name("frictionless")
    if not program.is_file():
        pytest.skip("there is no build/readers with frictionless; scripts/suite readers makes it")
    for name in ("v1", "history"):
        (tmp_path / name).symlink_to(published / name)
    (tmp_path / "datapackage.json").write_text((published / "datapackage.json").read_text().replace(*change))
    command = [str(program), "validate", "datapackage.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert valid is (done.returncode == 0), done.stdout + done.stderr
    assert ("INVALID" in done.stdout) is not valid


# -- later versions: a new column breaks nobody, a new format stops everybody ------------------------------------------


def with_a_column(frame: pl.DataFrame) -> pl.DataFrame:
    """A file of a later version that adds a column; it may be null."""
    return frame.with_columns(pl.Series("later", [7, None] * (frame.height // 2), dtype=pl.Int64))


def renamed(frame: pl.DataFrame) -> pl.DataFrame:
    """A file of a later version that renames a column and gives another meaning to one."""
    return frame.rename({"total_collateral": "collateral"}).with_columns(pl.col("supply_apy_bps") * 100)


def test_every_digit_with_a_new_column(reader: str, extremes: tuple[Path, list[Row]]) -> None:
    """Numbers of 38 digits, nulls, times and sums are in each reader what they were in Python.

    A column that only the newest file has changes nothing in that.
    """
    folder, rows = extremes
    for change in (pl.DataFrame.clone, with_a_column):
        rewrite_newest(folder, change)
        found = ask(reader, template(reader, folder), COLUMNS)

        assert_found(found, rows)
        assert found["rows"]
        assert any(str(10**38 - 1) == total for *_, total in found["totals"])


def test_a_new_version_stops_the_reader(reader: str, extremes: tuple[Path, list[Row]]) -> None:
    """A file whose columns mean something else is not read as if they did not: the snippet says so and ends."""
    folder, _ = extremes
    rewrite_newest(folder, renamed, number=FORMAT + 1)

    assert "a newer format: see Evolution in docs/history.md" in ask(reader, template(reader, folder))["refused"]
