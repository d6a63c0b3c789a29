"""The data package: types that its readers, which go through pandas, take for valid."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.check.trees import small_tree


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small published tree."""
    folder = tmp_path_factory.mktemp("package")
    for key, data in small_tree().items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def test_an_integer_is_one_in_pandas_too(folder: Path) -> None:
    """A column is called integer only if it has 64 bits and no null: pandas makes floats of the others."""
    fields = json.loads((folder / "datapackage.json").read_bytes())["resources"][0]["schema"]["fields"]
    types = {field["name"]: field["type"] for field in fields}
    table = pq.read_table(folder / "v1" / "latest.parquet", partitioning=None)

    for column in table.schema:
        if types[column.name] == "integer":
            assert column.type == pa.int64()
            assert table[column.name].null_count == 0
        if pa.types.is_decimal(column.type):
            assert types[column.name] == "number"
    assert "integer" in types.values()
