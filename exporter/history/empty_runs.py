"""Runs without rows: a run that could read no pool has no row in the history, but its ledger and close time count.

The file of such a run is empty, and its metadata states both, as that of every run's file does. The metadata of a file
that was joined from others lists all such runs of its parts.

Everything that asks of which ledgers a file is, and when they closed, asks here in addition to the rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow.parquet as pq

from exporter.errors import DecodeError
from exporter.tree.decoding import decode_json

LISTED = "runs_without_rows"
"""The name in the metadata of a joined file under which it lists these runs; missing if there are none."""

EmptyRuns = Mapping[int, int]
"""The close time of each run without rows, in unix seconds, keyed by its ledger."""


def empty_runs(file: pq.ParquetFile) -> dict[int, int]:
    """The runs without rows of a history file, ascending. Raises `DecodeError` if its metadata does not list them."""
    metadata: dict[bytes, bytes] = file.metadata.metadata or {}
    listed = metadata.get(LISTED.encode())
    try:
        if listed is not None:
            return dict(sorted(decode_json(listed, dict[int, int]).items()))
        if file.metadata.num_rows or b"observed_ledger" not in metadata:
            return {}
        return {int(metadata[b"observed_ledger"]): int(metadata[b"ledger_close_time"])}
    except (LookupError, ValueError, msgspec.DecodeError) as error:
        raise DecodeError(f"its metadata does not say of which ledgers it has no rows: {str(error)[:200]}") from None


def listed_in_metadata(runs: EmptyRuns) -> dict[str, str]:
    """What the metadata of a joined file has of these runs."""
    return {LISTED: msgspec.json.encode(dict(sorted(runs.items()))).decode()} if runs else {}
