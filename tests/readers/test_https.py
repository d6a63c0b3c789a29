"""Over HTTPS from nginx, which knows nothing but files: DuckDB and Polars fetch the parts that they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import polars as pl
import pytest

from exporter.history.schema import column_names
from exporter.publishing.compaction import compact_history
from exporter.stores.folder import FolderStore
from exporter.tree.values import ParquetType
from tests.history.frames import pools_frame
from tests.readers.snippets import (
    Worker,
    other_python,
    run_program,
    skip_without_java,
    template,
    worker,
)
from tests.readers.trees import FIRST_LEDGER, LAST_DAY, Row, assert_found, expected_totals, manifest_of, record
from tests.readers.web_server import Asked, WebServer, https_server

pytestmark = pytest.mark.xdist_group("readers")  # the published tree is made once

POOLS = 20_000


@pytest.fixture(scope="module")
def web(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """The published tree behind nginx."""
    with https_server(published, tmp_path_factory.mktemp("nginx")) as server:
        yield server


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of two large files, one of them compacted, most of whose bytes are random numbers."""
    random = Random(5)
    store = FolderStore(tmp_path_factory.mktemp("big") / "public", durable=False)
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


def of_history(asked: list[Asked]) -> list[Asked]:
    """The requests for Parquet files that sent something."""
    return [one for one in asked if one.path.endswith(".parquet") and one.method == "GET"]


def assert_only_parts(asked: list[Asked], folder: Path, most: float) -> None:
    """Every file was read, by ranges alone, and of each no more than a share was sent."""
    gets = of_history(asked)
    assert {206} == {one.status for one in gets}
    for file in manifest_of(folder).files:
        sent = sum(one.bytes for one in gets if one.path == f"/{file.key}")
        assert 0 < sent < most * file.bytes, (file.key, sent, file.bytes)


def test_polars_reads_ranges(web: WebServer, published_rows: list[Row], tmp_path: Path) -> None:
    """The snippet for Polars finds the rates and totals over HTTPS, and nginx answered it with ranges."""
    before = len(web.asked())
    with worker(tmp_path, web.trust) as process:
        found = process.answer("polars", template("polars", web.url))

    assert_found(found, published_rows)
    assert {206} == {one.status for one in of_history(web.asked()[before:])}


def test_curl_and_fetch(web: WebServer, published_rows: list[Row], tmp_path: Path) -> None:
    """So do the snippets for curl and JavaScript, without the rules that the API has at the edge."""
    copied = run_program("curl", template("curl", web.url), tmp_path, web.trust)
    fetched = run_program("fetch", template("fetch", web.url), tmp_path, web.trust)

    assert (0, "3 files up to ledger 65000004\n") == (copied.returncode, copied.stdout)
    assert 0 == fetched.returncode
    assert {total for *_, total in expected_totals(published_rows)} == {
        line.split()[1] for line in fetched.stdout.splitlines()[1:]
    }


def test_nobody_reads_without_trust(web: WebServer, tmp_path: Path) -> None:
    """The certificate is really looked at: a client that does not know its authority gets nothing."""
    assert 60 == run_program("curl", template("curl", web.url), tmp_path).returncode


@pytest.mark.slow
def test_polars_fetches_columns_not_files(big: Path, tmp_path: Path) -> None:
    """Of large files the rates and totals need a small share: the columns that are asked for."""
    with https_server(big, tmp_path / "nginx") as server, worker(tmp_path, server.trust) as process:
        found = process.answer("polars", template("polars", server.url))
        asked = server.asked()

    assert 3 * POOLS == sum(observations for _, _, observations, *_ in found["rates"])
    assert_only_parts(asked, big, most=0.4)  # it asks for the last 256 KiB of a file each time


@pytest.mark.slow
def test_duckdb_fetches_columns_not_files(big: Path, others: Worker, tmp_path: Path) -> None:
    """So does DuckDB of large files fetch a small share."""
    with https_server(big, tmp_path / "nginx") as server:
        found = others.answer("duckdb", template("duckdb", server.url), trust=str(server.authority))
        asked = server.asked()

    assert 3 * POOLS == sum(observations for _, _, observations, *_ in found["rates"])
    assert_only_parts(asked, big, most=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["duckdb", "pandas", "pyspark"])
def test_others_over_https(reader: str, web: WebServer, published_rows: list[Row], tmp_path: Path) -> None:
    """So do the snippets for DuckDB and pandas; that for PySpark reads the copy that the one for curl made."""
    skip_without_java(reader)
    with other_python(tmp_path, web.trust if reader == "pandas" else None) as process:
        if reader == "pyspark":
            assert 0 == run_program("curl", template("curl", web.url), tmp_path, web.trust).returncode
        found = process.answer(reader, template(reader, web.url), trust=str(web.authority))

    assert_found(found, published_rows)
