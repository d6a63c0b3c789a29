"""The entries of mainnet that protocol 23's first software archived with an old value (CAP-76).

``wrongly_archived.parquet`` has for each its eviction's ledger, and as LedgerEntry XDR what was archived and what
should have been. `tests/past/lake/make_wrongly_archived.py` makes it from the list that CAP-76 publishes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec.entries import key_of_entry
from exporter.past.lake.replay import WronglyArchived

DATA = "wrongly_archived.parquet"


def wrongly_archived(
    passphrase: str,
    wanted: Callable[[bytes], bool] = lambda key: True,  # noqa: ARG005
) -> dict[bytes, WronglyArchived]:
    """The entries of a network by key, those alone whose key is wanted; only mainnet has any."""
    if passphrase != NETWORKS["mainnet"].passphrase:
        return {}
    table = pq.read_table(pa.BufferReader(files("exporter.past.lake").joinpath(DATA).read_bytes()))
    columns = (table.column(name).to_pylist() for name in ("evicted", "archived", "correct"))
    found = {key_of_entry(row[2]): WronglyArchived(*row) for row in zip(*columns, strict=True)}
    return {key: entry for key, entry in found.items() if wanted(key)}
