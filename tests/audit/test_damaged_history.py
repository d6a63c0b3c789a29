"""Checking the history: its manifest, its Parquet files, and the pools' histories in buckets."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.audit.published_tree import check_files
from exporter.history.parquet import run_file_of_latest
from exporter.publishing.faults import TreeFaultsError
from exporter.publishing.sweep_state import SWEEP_STATE_KEY
from exporter.tree.families import INTENT_KEY
from tests.audit.trees import (
    Files,
    assert_named,
    change,
    check,
    encoded,
    faults,
    keys,
    lie,
    seal,
    small_tree,
    status_of,
)
from tests.render.whole_tree import publish_tree

MANIFEST, PACKAGE, LATEST = "v1/history.json", "datapackage.json", "v1/latest.parquet"


def parquet(files: Files, position: int) -> str:
    return str(json.loads(files[MANIFEST])["files"][position]["key"])


def rewrite(files: Files, position: int, how: Callable[[pa.Table], pa.Table]) -> str:
    """Change a Parquet file, and make the manifests agree with it."""
    key = parquet(files, position)
    file = pq.ParquetFile(io.BytesIO(files[key]))
    metadata = {name: value for name, value in file.metadata.metadata.items() if name != b"ARROW:schema"}
    buffer = io.BytesIO()
    pq.write_table(how(file.read()).replace_schema_metadata(metadata), buffer)
    files[key] = buffer.getvalue()

    def describe(manifest: Any) -> None:
        digest = hashlib.sha256(files[key]).hexdigest()
        manifest["files"][position].update(bytes=len(files[key]), sha256=digest)

    change(files, MANIFEST, describe)
    seal(files)
    return key


def test_a_copy_without_an_extension_is_named(files: Files) -> None:
    """A check names each object below v1/ whose name has no extension: no version writes one any more."""
    files["v1/changes"] = files["v1/changes.json"]
    assert_named(files, "v1/changes", "has no extension")


def test_parquet_files_that_are_not_of_the_history_are_named(files: Files) -> None:
    """A check names each other Parquet file below history/, because whoever reads the whole folder reads it, too.

    If the record of undone runs is missing, it warns that a file of a run may be of one of these.
    """
    foreign = ["history/copy.parquet", "history/mine/copy.parquet", "history/pools/date=2026-11-21/copy.parquet"]
    left = "history/pools/date=2026-11-21/5.parquet"
    files |= dict.fromkeys([*foreign, left], files[parquet(files, 0)])
    files.pop(SWEEP_STATE_KEY, None)

    for key in foreign:
        assert_named(files, key, "is no file of a history")
    assert_named(files, left, f"{SWEEP_STATE_KEY} is missing, which names the files of undone runs")


@pytest.mark.parametrize(
    ("later", "replaces", "said"),
    [
        (1, False, "run again"),
        (-1, True, "run again with --replace-ledger {}"),
        (-1, False, None),
    ],
)
def test_a_run_that_died_explains_other_faults(later: int, replaces: bool, said: str | None) -> None:
    """A run that undoes others explains the faults of a tree even if its own ledger is below the published one."""
    files = dict(small_tree())
    published = status_of(files)["observed_ledger"]
    intent = json.loads(files[INTENT_KEY])
    died = {"run_id": f"{published + later}-x", "observed_ledger": published + later}
    files[INTENT_KEY] = encoded(intent | died | ({"replaced_ledger": published} if replaces else {}))
    del files["v1/markets.json"]
    explained = [fault for fault in faults(files, 1) if fault.startswith(INTENT_KEY)]

    begun = f"{INTENT_KEY}: a run at ledger {published + later} began to replace documents and has not finished; "
    expected = [] if said is None else [begun + said.format(published)]
    assert expected == explained


def test_the_newest_run_and_the_package(files: Files) -> None:
    """The lasting name has the newest run's rows; the package has every file once, its own columns, and no others."""
    package = json.loads(files[PACKAGE])
    tables = {resource["name"]: resource for resource in package["resources"]}
    latest, history = tables["latest"], tables["history"]
    kinds = {
        "string": pa.types.is_large_string,
        "integer": pa.types.is_int64,
        "number": _is_number,  # decimals, doubles, and what may be null: pandas makes floats of it
        "datetime": pa.types.is_timestamp,
        "boolean": pa.types.is_boolean,
    }

    assert files[parquet(files, -1)] == run_file_of_latest(files[LATEST])
    assert [LATEST] == latest["path"]
    assert [file["key"] for file in json.loads(files[MANIFEST])["files"]] == history["path"]
    for resource in tables.values():
        columns = pq.ParquetFile(io.BytesIO(files[resource["path"][0]])).schema_arrow
        fields = resource["schema"]["fields"]
        assert columns.names == [field["name"] for field in fields]
        assert all(kinds[field["type"]](columns.field(field["name"]).type) for field in fields)
        rows = pa.concat_tables(
            [pq.read_table(io.BytesIO(files[path]), partitioning=None) for path in resource["path"]],
            promote_options="default",
        )
        primary = rows.select(resource["schema"]["primaryKey"])
        assert len({tuple(row.values()) for row in primary.to_pylist()}) == rows.num_rows
        required = [field["name"] for field in fields if field["constraints"]["required"]]
        assert {field["name"] for field in fields if field["type"] == "integer"} <= {*required}
        assert 0 == sum(rows.column(name).null_count for name in required)
    lie(files, PACKAGE, lambda package: package["resources"][0]["path"].append("v1/nothing.parquet"))
    assert_named(files, PACKAGE, "leads to v1/nothing.parquet, which is not there")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_decimal128(kind) or pa.types.is_float64(kind))


def test_a_file_that_the_manifest_names_must_be_there(files: Files) -> None:
    """The Parquet files that the manifest names must be there, also those of earlier runs, and so must the manifest."""
    lost = [parquet(files, position) for position in (0, -1)]
    for key in lost:
        del files[key]
        assert_named(files, key, "is missing, though the history's manifest lists it")

    assert f"{lost[0]}: is missing" in faults(files, sample=100)
    del files[MANIFEST]
    assert_named(files, MANIFEST, "is missing")


def test_every_field_of_an_entry_matches_its_file(files: Files) -> None:
    """Every field of an entry is compared with the file; each case has an entry of its own."""
    cases = (
        ("rows", 1, "rows, but 1 in the history's manifest"),
        ("bytes", 17, "does not have the bytes"),
        ("sha256", "0" * 64, "does not have the bytes"),
    )
    for position, (name, value, _) in enumerate(cases, 1):
        change(files, MANIFEST, lambda manifest: manifest["files"][position].update({name: value}))  # noqa: B023

    for position, (_, _, said) in enumerate(cases, 1):
        assert_named(files, parquet(files, position), said)


def test_a_manifest_with_contradictory_ledgers_is_named(files: Files) -> None:
    """No ledger is in two files, keys say the ledgers of files, and the history reaches to the run and no further."""

    for how, said in (
        (lambda manifest: manifest["files"].append(manifest["files"][0]), "have ledgers in common"),
        (
            lambda manifest: manifest["files"][0].update(first_ledger=1),
            "is not the key of a file with the ledgers 1 to",
        ),
    ):
        own = small_tree()
        change(own, MANIFEST, how)
        assert_named(own, MANIFEST, said)

    change(files, MANIFEST, lambda manifest: manifest["files"].pop())
    change(files, MANIFEST, lambda manifest: manifest.update(observed_ledger=65_000_002))
    assert_named(files, MANIFEST, "files reaches to ledger 65000006, but the run is of ledger 65000007")
    assert_named(files, MANIFEST, "observed_ledger reaches to ledger 65000002")


def filled(column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        position = table.schema.get_field_index(column)
        field = table.schema.field(position)
        return table.set_column(position, column, pa.array([value] * table.num_rows, field.type))

    return change


def test_rows_that_contradict_the_manifest_are_named(files: Files) -> None:
    """Rows that are not those of the manifest are named."""
    wrong: list[tuple[int, Callable[[pa.Table], pa.Table], str]] = [
        (0, filled("observed_ledger", 65_000_007), "has runs of ledgers 65000007 to 65000007"),
        (1, lambda table: table.drop_columns(["observed_ledger"]), "pyarrow cannot read it"),
        (-1, lambda table: table.slice(1), "rows, but"),
    ]
    named = [(rewrite(files, position, how), said) for position, how, said in wrong]
    for key, said in named:
        assert_named(files, key, said)


def head(files: Files) -> str:
    """A newest page that has older ones before it."""
    return next(key for key in keys(files, "v1/assets/C", "/history/1h.json") if json.loads(files[key])["next_cursor"])


def test_older_pages_are_followed(files: Files) -> None:
    """Older pages, which no manifest lists, are read as far back as they go; one that is missing is named."""
    older = f"v1/buckets/{json.loads(files[head(files)])['next_cursor']}.json"
    oldest = f"v1/buckets/{json.loads(files[older])['next_cursor']}.json"
    assert oldest in files
    del files[oldest]

    assert_named(files, oldest, "is missing")
    assert_named(files, older, "next_cursor leads to .*, which is not there")


def test_pages_of_five_minutes_expire(files: Files) -> None:
    """A page of five minutes may be gone, because the sweep removes it after a day; another page may not."""
    five, hour = (keys(files, "v1/assets/C", f"/history/{bucket}.json")[0] for bucket in ("5m", "1h"))
    lie(files, five, lambda history: history.update(next_cursor=f"5m-{22 * 'a'}"))
    lie(files, hour, lambda history: history.update(next_cursor=22 * "a"))

    assert_named(files, hour, "next_cursor leads to .*, which is not there")
    with pytest.raises(TreeFaultsError) as caught:
        check(files)
    assert not any("5m-" in fault.text for fault in caught.value.faults)


def test_a_compacted_history(tmp_path: Path) -> None:
    """The job compacts days that closed, and the tree has no fault; a file in the folder of another day is named."""
    folder = tmp_path / "tree"
    publish_tree(folder, "alula", runs=5, pages=False)  # five hours apart: a day that closed, and an open one
    files = json.loads((folder / MANIFEST).read_bytes())["files"]
    spans = [file["last_ledger"] - file["first_ledger"] for file in files]
    assert 5 == sum(spans) + len(files)
    assert (1, 0) == (sum(span > 0 for span in spans[:-1]), spans[-1])
    assert len(files) == check_files(str(folder)).history_files

    key = str(files[0]["key"])
    moved = key.replace(key.split("/")[2], "month=2026-10")
    (folder / MANIFEST).write_text((folder / MANIFEST).read_text().replace(key, moved))
    (folder / moved).parent.mkdir()
    (folder / key).rename(folder / moved)
    with pytest.raises(TreeFaultsError) as caught:
        check_files(str(folder))
    assert any(fault.key == moved and "another day or month" in fault.text for fault in caught.value.faults)
