"""The log of the history as a Delta table: how it is written and read, and what a version of it holds.

The log stands beside the Parquet files and names them relative to their folder, so the table moves with the folder.
Its version n is `commit_key(n)`, lines of JSON that say which files came and went. A checkpoint holds all of a
version, so that a reader begins there, and what is before it can go. Of the protocol
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md) this is reader version 1 and writer version 2, without any
table feature: every reader of Delta tables knows it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from exporter.errors import StoreError
from exporter.history.schema import HISTORY_COLUMNS, ParquetType
from exporter.stores.store import Store, read_many
from exporter.tree.decoding import decode_json
from exporter.tree.documents import EXPORTER_VERSION, HistoryFile, HistoryManifest
from exporter.tree.families import HISTORY_PREFIX, LOG_CHECKPOINT, LOG_COMMIT, LOG_PREFIX

_COLUMN_TYPES = {
    ParquetType.UTF8: "string",
    ParquetType.BOOLEAN: "boolean",
    ParquetType.INT64: "long",
    ParquetType.DECIMAL: "decimal(38,0)",
    ParquetType.TIMESTAMP: "timestamp",
}
_LEDGER = "observed_ledger"


class DamagedLogError(StoreError):
    """A version of the log cannot be told: a part of it is missing, or is none."""


class Add(Struct, frozen=True, rename="camel"):
    """A file that is part of the table."""

    path: str
    size: int
    modification_time: int
    data_change: bool
    stats: str
    partition_values: dict[str, str] = {}


class Remove(Struct, frozen=True, rename="camel"):
    """A file that is no part of the table any more."""

    path: str
    deletion_timestamp: int
    data_change: bool


class _Format(Struct, frozen=True):
    provider: str = "parquet"
    options: dict[str, str] = {}


class MetaData(Struct, frozen=True, rename="camel"):
    """What the table is: its identity and its columns."""

    id: str
    schema_string: str
    created_time: int
    name: str = "pools"
    format: _Format = _Format()
    partition_columns: list[str] = []
    configuration: dict[str, str] = {}


class _Protocol(Struct, frozen=True, rename="camel"):
    min_reader_version: int = 1
    min_writer_version: int = 2


class _CommitInfo(Struct, frozen=True, rename="camel"):
    timestamp: int
    operation: str
    user_metadata: str
    engine_info: str


class _Action(Struct, frozen=True, omit_defaults=True, rename="camel"):
    commit_info: _CommitInfo | None = None
    protocol: _Protocol | None = None
    meta_data: MetaData | None = None
    remove: Remove | None = None
    add: Add | None = None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What the table is at a version; -1 before the first."""

    number: int = -1
    meta: MetaData | None = None
    files: Mapping[str, Add] = field(default_factory=dict)

    def sizes(self) -> dict[str, int]:
        """How many bytes each of its files has, by the file's key in the tree."""
        return {HISTORY_PREFIX + path: add.size for path, add in self.files.items()}


@dataclass(frozen=True, slots=True)
class Commit:
    """A version on its way into the log."""

    key: str
    data: bytes
    after: TableVersion


def schema_string() -> str:
    """The columns of the history, as the log gives them."""
    fields = [
        {"name": column.name, "type": _COLUMN_TYPES[column.type], "nullable": column.nullable, "metadata": {}}
        for column in HISTORY_COLUMNS
    ]
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()


def next_commit(before: TableVersion, manifest: HistoryManifest, moment: datetime) -> Commit | None:
    """The version that brings the table to a manifest; None where it is there already.

    Args:
        before: the newest version.
        manifest: the history, of at least one file.
        moment: the wall clock.
    """
    wanted = {file.key.removeprefix(HISTORY_PREFIX): file for file in manifest.files}
    came = [wanted[path] for path in wanted.keys() - before.files.keys()]
    went = [before.files[path] for path in sorted(before.files.keys() - wanted.keys())]
    if before.meta is not None and not came and not went and before.meta.schema_string == schema_string():
        return None
    milliseconds = int(moment.timestamp() * 1000)
    rearranged = set(_rearranged(came, went))
    meta = MetaData(
        before.meta.id if before.meta else str(uuid5(NAMESPACE_URL, manifest.files[0].sha256)),
        schema_string(),
        before.meta.created_time if before.meta else milliseconds,
    )
    adds = [
        Add(path, file.bytes, milliseconds, path not in rearranged, _stats(file))
        for file in sorted(came, key=lambda file: file.first_ledger)
        for path in [file.key.removeprefix(HISTORY_PREFIX)]
    ]
    removes = [Remove(add.path, milliseconds, add.path not in rearranged) for add in went]
    engine = f"lending-markets-exporter/{EXPORTER_VERSION}"
    told = _CommitInfo(milliseconds, "WRITE", f"{_LEDGER}={manifest.observed_ledger}", engine)
    actions = [_Action(commit_info=told)]
    if before.meta is None:
        actions.append(_Action(protocol=_Protocol()))
    if meta != before.meta:
        actions.append(_Action(meta_data=meta))
    actions += [_Action(remove=remove) for remove in removes]
    actions += [_Action(add=add) for add in adds]
    gone = {remove.path for remove in removes}
    kept = {path: add for path, add in before.files.items() if path not in gone}
    after = TableVersion(before.number + 1, meta, kept | {add.path: add for add in adds})
    return Commit(commit_key(after.number), b"\n".join(map(_encode, actions)) + b"\n", after)


_encode = msgspec.json.Encoder().encode


def _stats(file: HistoryFile) -> str:
    """What a reader passes files over by."""
    told = {
        "numRecords": file.rows,
        "minValues": {_LEDGER: file.first_ledger},
        "maxValues": {_LEDGER: file.last_ledger},
        "nullCount": {_LEDGER: 0},
    }
    return _encode(told).decode()


class _Ledger(Struct):
    observed_ledger: int


class _Stats(Struct, rename="camel"):
    num_records: int
    min_values: _Ledger
    max_values: _Ledger


def _rearranged(came: Iterable[HistoryFile], went: Iterable[Add]) -> Iterator[str]:
    """The paths of files that hold the same rows as those that went, and of these: nobody has to read them again."""
    parts = []
    for add in went:
        with suppress(msgspec.DecodeError):  # of a file that says nothing of its rows nothing is claimed
            parts.append((add, decode_json(add.stats.encode(), _Stats)))
    for file in came:
        inside = [
            (add, stats)
            for add, stats in parts
            if file.first_ledger <= stats.min_values.observed_ledger
            and stats.max_values.observed_ledger <= file.last_ledger
        ]
        if inside and file.rows == sum(stats.num_records for _, stats in inside):
            yield file.key.removeprefix(HISTORY_PREFIX)
            yield from (add.path for add, _ in inside)


def commit_key(version: int) -> str:
    """The key of a version's own lines."""
    return LOG_COMMIT.key(version=f"{version:020d}")


def checkpoint_key(version: int) -> str:
    """The key of the file that holds all of a version."""
    return LOG_CHECKPOINT.key(version=f"{version:020d}")


_TEXTS = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
        "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}),
    }
)


def checkpoint(version: TableVersion) -> bytes:
    """All of a version."""
    adds = [_Action(add=version.files[path]) for path in sorted(version.files)]
    rows = [_Action(protocol=_Protocol()), _Action(meta_data=version.meta), *adds]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(map(msgspec.to_builtins, rows)), _CHECKPOINT), buffer)
    return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Log:
    """A log: the versions that have lines, and those that have a checkpoint, ascending; and what gives their bytes."""

    commits: tuple[int, ...]
    checkpoints: tuple[int, ...]
    read: Callable[[Sequence[str]], Mapping[str, bytes | None]]

    @classmethod
    def of(cls, keys: Iterable[str], read: Callable[[Sequence[str]], Mapping[str, bytes | None]]) -> Log:
        """The log of which these are the keys."""
        keys = list(keys)
        commits, checkpoints = (
            sorted(int(it["version"]) for it in map(family.pattern.fullmatch, keys) if it)
            for family in (LOG_COMMIT, LOG_CHECKPOINT)
        )
        return cls(tuple(commits), tuple(checkpoints), read)

    @classmethod
    def standing(cls, store: Store) -> Log:
        """The log in a store. Raises `StoreError`."""

        def read(keys: Sequence[str]) -> dict[str, bytes | None]:
            return {key: None if stored is None else stored.data for key, stored in read_many(store, keys)}

        return cls.of((info.key for info in store.list(LOG_PREFIX)), read)

    @property
    def newest(self) -> int:
        """The newest version; -1 where there is none."""
        return max(*self.commits, *self.checkpoints, -1, -1)

    def version(self, number: int) -> TableVersion:
        """What the table is at a version.

        Raises:
            DamagedLogError: the log does not tell it.
            StoreError: the store cannot be read.
        """
        begin = max((known for known in self.checkpoints if known <= number), default=-1)
        keys = [commit_key(between) for between in range(begin + 1, number + 1)]
        if begin >= 0:
            keys.append(checkpoint_key(begin))
        found = self.read(keys)
        meta: MetaData | None = None
        files: dict[str, Add] = {}
        for key in sorted(keys, key=lambda key: (key != checkpoint_key(begin), key)):
            for action in _actions(key, found[key]):
                meta = action.meta_data or meta
                if action.remove is not None:
                    files.pop(action.remove.path, None)
                if action.add is not None:
                    files[action.add.path] = action.add
        if number >= 0 and meta is None:
            raise DamagedLogError(f"{LOG_PREFIX} does not say what columns the table has")
        return TableVersion(number, meta, files)

    def made_at(self, version: int) -> int:
        """When a version was made, in milliseconds. Raises as `version`."""
        key = commit_key(version)
        for action in _actions(key, self.read([key])[key]):
            if action.commit_info is not None:
                return action.commit_info.timestamp
        raise DamagedLogError(f"{key} does not say when it was made")


def _actions(key: str, data: bytes | None) -> list[_Action]:
    if data is None:
        raise DamagedLogError(f"{key} is missing")
    try:
        if not key.endswith(".parquet"):
            return [decode_json(line, _Action) for line in data.splitlines()]
        rows = pq.read_table(pa.BufferReader(data), partitioning=None).to_pylist(maps_as_pydicts="strict")
        return [msgspec.convert({name: it for name, it in row.items() if it is not None}, _Action) for row in rows]
    except (msgspec.MsgspecError, pa.ArrowException, OSError) as error:
        raise DamagedLogError(f"{key} is no part of a log: {error}") from error
