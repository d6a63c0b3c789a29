"""Reads the documents of a published tree, and its table of pools, to answer from them."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import polars as pl
from msgspec import DecodeError

from exporter.deployments.networks import native_contract, network_of
from exporter.errors import DecodeError as UnreadableError
from exporter.errors import SourceError
from exporter.parquet_bounds import POLARS_ERRORS, open_parquet
from exporter.render.lists import common_symbols
from exporter.serve.assistant.form import Json
from exporter.stores.tree_sources import TreeSource
from exporter.tables import POOLS_SCHEMA
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.families import LATEST_PARQUET, STATUS_KEY

MOMENT = ("observed_ledger", "ledger_close_time", "not_mainnet", "age")
"""The fields that every answer begins with, as far as `TreeReader.moment` has them."""

OLD = timedelta(days=1)
"""The age of a run's ledger from which answers say how old it is. Trees are usually made anew within an hour."""

MOST_BYTES = 256 * 2**20
"""The largest file that is read to answer, in bytes."""


class TreeReader:
    """Reads from one tree. Every method raises `SourceError` if a file is missing or cannot be understood."""

    def __init__(self, source: TreeSource) -> None:
        self._source = source

    async def document(self, key: str) -> Json:
        """A published document, unchanged. Raises `SourceError`."""
        data = await self._file(key)
        try:
            if key == STATUS_KEY:
                refuse_other_format(f"{self._source.uri}: {key}", data)
            return decode_json(data, Json)
        except DecodeError as error:
            raise SourceError(f"{self._source.uri}: {key} cannot be understood: {error}") from error

    async def moment(self, now: datetime | None = None) -> Json:
        """What an answer is of: ledger and close time; the network, unless it is mainnet; the age, if that is a day.

        A question says "now" and means the time of the question. An old tree, or one of a network for tests, would
        answer it with numbers that look no different.
        """
        status = await self.document(STATUS_KEY)
        moment = {"observed_ledger": status["observed_ledger"], "ledger_close_time": status["ledger_close_time"]}
        if network_of(status["network"]).name != "mainnet":
            moment["not_mainnet"] = f"of the network {status['network']!r}, not of Stellar's public one: say so"
        age = (now or datetime.now(UTC)) - datetime.fromisoformat(status["ledger_close_time"])
        if age >= OLD:
            moment["age"] = f"the ledger closed {age.days} day{'s' * (age.days > 1)} before this question: say so"
        return moment

    async def pools(self) -> pl.DataFrame:
        """The table of the published run; columns that an older exporter did not write are null.

        The column ``common_symbol`` is not in the tree: it has the symbols that people use.
        """
        native = await self.native()  # which refuses a tree of another format
        data = await self._file(LATEST_PARQUET.only_key)
        try:
            open_parquet(data)
            table = pl.read_parquet(io.BytesIO(data))
        except (UnreadableError, *POLARS_ERRORS) as error:
            raise SourceError(f"{self._source.uri}: {LATEST_PARQUET.only_key} cannot be read: {error}") from error
        lacking = {name: dtype for name, dtype in POOLS_SCHEMA.items() if name not in table.columns}
        table = table.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in lacking.items())
        return with_common_symbols(table, native)

    async def native(self) -> str | None:
        """The contract of the network's own asset; None if it is not known."""
        return native_contract((await self.document(STATUS_KEY))["network"])

    async def _file(self, key: str) -> bytes:
        data = await self._source.get(key, MOST_BYTES)
        if data is None:
            raise SourceError(f"{self._source.uri} has no {key}, so that is not known there")
        return data


def with_common_symbols(pools: pl.DataFrame, native: str | None) -> pl.DataFrame:
    """The pools with the symbols that people use, in a column ``common_symbol``."""
    return pools.with_columns(pl.Series("common_symbol", common_symbols(pools, native), pl.String))
