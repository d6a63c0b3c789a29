"""Files of the history that show some readers other rows than those that their runs wrote."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from exporter.audit.history_files import check_as_written, rows_by_ledger
from exporter.errors import CheckError, SourceError
from exporter.publishing.compaction import joined_rows
from exporter.tree.documents import HistoryFile
from exporter.tree.families import HISTORY_MANIFEST_KEY
from tests.audit.trees import good_tree, status_of

NEVER_RAN = 12_345
"""A ledger of no run."""

Case = tuple[bytes, HistoryFile, str]


@pytest.fixture(scope="module")
def one() -> Case:
    """The file of one run, its entry in the manifest, and its network."""
    files = good_tree()
    entry = msgspec.convert(json.loads(files[HISTORY_MANIFEST_KEY])["files"][0], HistoryFile)
    return files[entry.key], entry, status_of(files)["network"]


@pytest.fixture(scope="module")
def joined() -> Case:
    """A file that joins the first two runs', as compaction writes it."""
    files = good_tree()
    first, second = msgspec.convert(json.loads(files[HISTORY_MANIFEST_KEY])["files"][:2], list[HistoryFile])
    network, last = status_of(files)["network"], second.last_ledger
    data = joined_rows([files[first.key], files[second.key]], network, first.first_ledger, last, {})
    key = f"history/pools/date=2025-01-01/{first.first_ledger}-{last}.parquet"
    return data, msgspec.structs.replace(first, key=key, last_ledger=last, rows=first.rows + second.rows), network


def of_ledger(table: pa.Table, ledger: int) -> pa.Table:
    """The table with all rows of another ledger."""
    at, column = table.column_names.index("observed_ledger"), table["observed_ledger"]
    return table.set_column(at, table.schema.field(at), pa.array([ledger] * len(table), column.type))


def metadata_of(data: bytes) -> dict[bytes, bytes]:
    """The footer's statements about the whole file, such as the version that wrote it, without the schema."""
    found: dict[bytes, bytes] = pq.ParquetFile(io.BytesIO(data)).metadata.metadata or {}
    return {name: value for name, value in found.items() if name != b"ARROW:schema"}


def in_groups(metadata: dict[bytes, bytes], *tables: pa.Table, write_statistics: bool = True) -> bytes:
    """A file with a row group for each table."""
    stream = io.BytesIO()
    plain = [table.replace_schema_metadata(None) for table in tables]
    with pq.ParquetWriter(stream, plain[0].schema, compression="zstd", write_statistics=write_statistics) as writer:
        for table in plain:
            writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    return stream.getvalue()


def claiming(data: bytes, ledger: int, instead: int) -> bytes:
    """The file with a footer whose statistics have one ledger in the place of another."""
    width = pq.ParquetFile(io.BytesIO(data)).schema_arrow.field("observed_ledger").type.bit_width // 8
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    old, new = (number.to_bytes(width, "little") for number in (ledger, instead))
    assert old in data[end:]
    return data[:end] + data[end:].replace(old, new)


def hidden_group(data: bytes) -> bytes:
    """A row group of a ledger that never ran, whose statistics say that it is of the file's own."""
    table = pq.read_table(io.BytesIO(data))
    own = table["observed_ledger"][0].as_py()
    return claiming(in_groups(metadata_of(data), table, of_ledger(table.slice(0, 1), NEVER_RAN)), NEVER_RAN, own)


def hidden_rows(data: bytes) -> bytes:
    """A footer that says that honest rows are of a ledger that nobody asks for."""
    return claiming(data, pq.read_table(io.BytesIO(data))["observed_ledger"][0].as_py(), NEVER_RAN)


def more_columns(data: bytes) -> bytes:
    """A column that no run writes."""
    table = pq.read_table(io.BytesIO(data))
    return in_groups(metadata_of(data), table.append_column("bad_debt", pa.array(["10"] * len(table))))


def no_statistics(data: bytes) -> bytes:
    """The rows without statistics."""
    return in_groups(metadata_of(data), pq.read_table(io.BytesIO(data)), write_statistics=False)


def other_order(data: bytes) -> bytes:
    """The rows in another order."""
    table = pq.read_table(io.BytesIO(data))
    return in_groups(metadata_of(data), table.take(pc.sort_indices(table, sort_keys=[("pool", "descending")])))


def other_network(data: bytes) -> bytes:
    """Metadata that name another network."""
    table = pq.read_table(io.BytesIO(data))
    return in_groups(metadata_of(data) | {b"network": b"another"}, table)


def cut(data: bytes) -> bytes:
    """A file that ends too early."""
    return data[:-5]


FORGERIES = [hidden_group, hidden_rows, more_columns, no_statistics, other_order, other_network, cut]


@pytest.mark.parametrize("kind", ["one", "joined"])
def test_what_a_run_or_compaction_wrote(request: pytest.FixtureRequest, kind: str) -> None:
    """A file of one run, and one that joins several, have the bytes that writing their rows gives."""
    data, entry, network = request.getfixturevalue(kind)

    assert check_as_written(data, entry, network)
    assert entry.rows == sum(rows_by_ledger(data).values())


@pytest.mark.parametrize("kind", ["one", "joined"])
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_file_that_was_forged(request: pytest.FixtureRequest, kind: str, forge: Callable[[bytes], bytes]) -> None:
    """Whatever a footer hides or adds is no file of the history, by name, as it would be if it were the rows' own."""
    data, entry, network = request.getfixturevalue(kind)
    forged = forge(data)

    assert forged != data
    with pytest.raises((CheckError, SourceError)) as caught:
        check_as_written(forged, entry, network)
    if forge is not cut:
        assert isinstance(caught.value, CheckError)
        assert entry.key in str(caught.value)


def test_rows_are_counted_whatever_the_footer_says(one: Case) -> None:
    """Statistics that say otherwise hide no ledger from the count of what is covered."""
    assert {NEVER_RAN, one[1].first_ledger} == set(rows_by_ledger(hidden_group(one[0])))
    assert {one[1].first_ledger} == set(rows_by_ledger(hidden_rows(one[0])))
