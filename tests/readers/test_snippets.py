"""The snippets do what they say against a tree that the job published, in a folder, over HTTP and over HTTPS.

nginx, which serves HTTPS, knows nothing but files: DuckDB and Polars fetch the parts that they need.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import polars as pl
import pytest

from exporter.history.parquet import column_names
from exporter.localnet.runner import running
from exporter.publishing.compaction import compact_history
from exporter.serve.preview import create_app
from exporter.stores.folder import FolderStore
from exporter.tree.values import ParquetType
from tests.history.frames import pools_frame
from tests.readers.snippets import DOCS, OTHER_PYTHON, SCRIPTS, TEMPLATES, ask, run_program, template
from tests.readers.trees import FIRST_LEDGER, LAST_DAY, Row, assert_found, expected_totals, manifest_of, record
from tests.readers.web_server import WebServer, https_server

pytestmark = pytest.mark.xdist_group("readers")  # the large history is made once

POOLS = 20_000


@pytest.fixture(scope="module")
def url(published: Path) -> Iterator[str]:
    with running(create_app(published)) as address:
        yield address


@pytest.fixture(scope="module")
def web(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """The published tree behind nginx."""
    with https_server(published, tmp_path_factory.mktemp("nginx")) as server:
        yield server


def test_the_documentation_links_every_snippet() -> None:
    """docs/history.md links each snippet of the site's templates."""
    linked = re.findall(r"\(\.\./site_templates/snippets/([\w.]+)\.j2\)", DOCS.read_text())

    assert sorted(SCRIPTS.values()) == sorted(linked)
    assert sorted(SCRIPTS.values()) == sorted(path.name.removesuffix(".j2") for path in TEMPLATES.iterdir())


def test_rates_and_totals_of_a_folder(reader: str, published: Path, published_rows: list[Row]) -> None:
    """Each reader finds the rates and the exact totals in a folder, though superseded files lie next to them."""
    assert_found(ask(reader, template(reader, published)), published_rows)


@pytest.mark.slow
def test_an_earlier_duckdb(published: Path, published_rows: list[Row]) -> None:
    """So does the DuckDB of the other Python, which has its extensions."""
    assert_found(ask("duckdb", template("duckdb", published), other=True), published_rows)


def test_polars_over_http(url: str, published_rows: list[Row]) -> None:
    """The snippet for Polars finds the same behind `exporter serve`."""
    assert_found(ask("polars", template("polars", url)), published_rows)


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
    assert {file.key for file in manifest_of(published).files} == {
        path.relative_to(copy).as_posix() for path in copy.rglob("*.parquet")
    }
    assert times == {path: path.stat().st_mtime_ns for path in copy.rglob("*.parquet")}
    assert expected_totals(published_rows) == ask("duckdb", template("duckdb", copy))["totals"]

    (copy / "v1" / "history.json").write_text("as it was")
    damaged = manifest_of(published).files[0].key
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
    history = f"{len(published_rows)} rows in 3 Parquet files, up to ledger {manifest_of(published).observed_ledger}"

    done = run_program("fetch", template("fetch", url), tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert [history, *(f"{token} {total}" for token, total in sorted(totals.items()))] == done.stdout.splitlines()


def test_polars_over_https(web: WebServer, published_rows: list[Row]) -> None:
    """The snippet for Polars finds the rates and totals over HTTPS, and nginx answered it with ranges."""
    before = len(web.parquet_asked())
    found = ask("polars", template("polars", web.url), web=web)

    assert_found(found, published_rows)
    assert {206} == {one["status"] for one in web.parquet_asked()[before:]}


def test_curl_and_fetch_over_https(web: WebServer, published_rows: list[Row], tmp_path: Path) -> None:
    """So do the snippets for curl and JavaScript; a client that does not know the certificate gets nothing."""
    copied = run_program("curl", template("curl", web.url), tmp_path, web.trust)
    fetched = run_program("fetch", template("fetch", web.url), tmp_path, web.trust)

    assert (0, "3 files up to ledger 65000004\n") == (copied.returncode, copied.stdout)
    assert 0 == fetched.returncode
    assert {total for *_, total in expected_totals(published_rows)} == {
        line.split()[1] for line in fetched.stdout.splitlines()[1:]
    }
    assert 60 == run_program("curl", template("curl", web.url), tmp_path).returncode


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["duckdb", "pandas", "pyspark"])
def test_others_over_https(reader: str, web: WebServer, published_rows: list[Row], tmp_path: Path) -> None:
    """So do the snippets for DuckDB and pandas; that for PySpark reads the copy that the one for curl made."""
    base: str | Path = web.url
    if reader == "pyspark":
        assert 0 == run_program("curl", template("curl", web.url), tmp_path, web.trust).returncode
        base = tmp_path / "lending-markets"

    assert_found(ask(reader, template(reader, base), web=web), published_rows)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of two large files, one of them compacted, most of whose bytes are random numbers."""
    random = Random(5)
    store = FolderStore(tmp_path_factory.mktemp("big") / "public")
    base = pools_frame([{}] * POOLS)
    for number, time in enumerate((LAST_DAY - 7200, LAST_DAY - 3600, LAST_DAY)):
        noise = {name: [random.randrange(10**30) for _ in range(POOLS)] for name in column_names(ParquetType.DECIMAL)}
        frame = base.with_columns(
            *(pl.Series(name, values, dtype=pl.Int128) for name, values in noise.items()),
            observed_ledger=pl.lit(FIRST_LEDGER + number, dtype=pl.Int64),
            ledger_close_time=pl.lit(time, dtype=pl.Int64),
        )
        record(store, frame, FIRST_LEDGER + number, time)
    compact_history(store)
    return store.root


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "most"), [("polars", 0.4), ("duckdb", 0.1)])  # Polars asks for the last 256 KiB
def test_columns_are_fetched_not_files(reader: str, most: float, big: Path, tmp_path: Path) -> None:
    """Of large files the rates and totals need a small share: each is read by ranges alone, of few columns."""
    with https_server(big, tmp_path / "nginx") as server:
        found = ask(reader, template(reader, server.url), web=server)
        gets = server.parquet_asked()

    assert 3 * POOLS == sum(observations for _, _, observations, *_ in found["rates"])
    assert {206} == {one["status"] for one in gets}
    for file in manifest_of(big).files:
        sent = sum(one["bytes"] for one in gets if one["path"] == f"/{file.key}")
        assert 0 < sent < most * file.bytes, (file.key, sent, file.bytes)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "valid"), [(("", ""), True), (('"type":"boolean"', '"type":"integer"'), False)])
def test_frictionless_judges_the_package(published: Path, change: tuple[str, str], valid: bool, tmp_path: Path) -> None:
    """Every row of every table is as the data package says; of a package that says something else it is not."""
    program = OTHER_PYTHON.with_name("frictionless")
    if not program.is_file():
        pytest.skip("there is no build/readers with frictionless; scripts/test-readers makes it")
    for name in ("v1", "history"):
        (tmp_path / name).symlink_to(published / name)
    (tmp_path / "datapackage.json").write_text((published / "datapackage.json").read_text().replace(*change))
    command = [str(program), "validate", "datapackage.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert valid is (done.returncode == 0), done.stdout + done.stderr
    assert ("INVALID" in done.stdout) is not valid
