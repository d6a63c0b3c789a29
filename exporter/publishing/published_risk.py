"""The risk document that a run shows: the newest of a checkpoint that is not after the run, and not too old."""

from __future__ import annotations

import hashlib
from datetime import datetime

import msgspec

from exporter.protocols.compute import Tables
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.families import RISK
from exporter.tree.risk import PublishedRisk, RiskDocument

MAX_AGE_SECONDS = 48 * 3600
"""Older figures are left out: prices and positions have moved on."""


def shown_risk(store: Store, tables: Tables, network: str) -> PublishedRisk | None:
    """The document that a run shows, from the tree that it goes into. None if there is none that is new enough.

    One that cannot be understood is passed over: it is of another version, and a census makes it again.
    """
    checkpoints = [
        int(found["checkpoint"])
        for info in store.list(RISK.prefix)
        if (found := RISK.pattern.fullmatch(info.key)) is not None and int(found["checkpoint"]) <= tables.ledger
    ]
    for checkpoint in sorted(checkpoints, reverse=True):
        key = RISK.key(checkpoint=checkpoint)
        stored = store.get(key)
        if stored is None:
            continue
        try:
            document = decode_json(stored.data, RiskDocument)
        except msgspec.DecodeError:
            continue
        closed = int(datetime.fromisoformat(document.checkpoint_close_time).timestamp())
        if document.network != network or document.checkpoint != checkpoint or closed > tables.close_time:
            continue
        if tables.close_time - closed > MAX_AGE_SECONDS:
            return None
        return PublishedRisk(key, hashlib.sha256(stored.data).hexdigest(), document)
    return None
