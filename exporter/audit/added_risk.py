"""Adds the risk document of a checkpoint, and its rows in the table of risk, to a published tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress

import msgspec

from exporter.console import Console
from exporter.errors import DecodeError, pluralize
from exporter.history.risk_table import checkpoints_in, with_checkpoints
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import encode
from exporter.tree.families import RISK, RISK_TABLE
from exporter.tree.read_back import parse_back
from exporter.tree.risk_documents import RiskDocument


def add_risk(store: Store, risk: RiskDocument, console: Console) -> None:
    """Add the risk document of a checkpoint and its rows in the table of risk, unless the checkpoint has a document.

    A document never changes once it is there, although other markets may be listed today. Raises `CheckError` if the
    document does not read back, and `StoreError` if it cannot be written.
    """
    key = RISK.key(checkpoint=risk.checkpoint)
    data = encode(risk)
    parse_back(key, data)
    if store.get(key) is None:
        stored = store.get(RISK_TABLE.only_key)
        table = None if stored is None else stored.data
        try:
            present = checkpoints_in(table)
        except DecodeError as error:
            console.warning(f"history/risk.parquet cannot be read: {error}")
            table, present = None, set()
        lacking = list(_risk_not_in(store, present))
        if lacking:
            counted = pluralize(len(lacking), "checkpoint")
            console.warning(f"history/risk.parquet lacked {counted}; their rows are made again from v1/risk/")
        store.put(RISK_TABLE.only_key, with_checkpoints(table, [*lacking, risk]))
        store.put(key, data)  # last, because a census that finds no document writes both


def _risk_not_in(store: Store, checkpoints: Collection[int]) -> Iterator[RiskDocument]:
    """The risk documents of other checkpoints that have rows for the table.

    So a table that was lost, or of which somebody put an older copy back, becomes whole. A document that cannot be
    understood is passed over, as a run does.
    """
    for key in sorted(info.key for info in store.list(RISK.prefix)):
        named = RISK.pattern.fullmatch(key)
        stored = None if named is None or int(named["checkpoint"]) in checkpoints else store.get(key)
        with suppress(msgspec.DecodeError):
            document = None if stored is None else decode_json(stored.data, RiskDocument)
            if document is not None and document.data:
                yield document
