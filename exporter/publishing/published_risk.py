"""Finds the risk document that a run shows: the newest one that is not later than the run, and not too old."""

from __future__ import annotations

import hashlib
from datetime import datetime

import msgspec

from exporter.protocols.compute import Tables
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.families import RISK
from exporter.tree.risk_documents import PublishedRisk, RiskDocument

MAX_AGE_SECONDS = 48 * 3600
"""Largest age of a risk document that a run still shows. In two days prices and positions have moved too far."""


def shown_risk(store: Store, tables: Tables, network: str) -> PublishedRisk | None:
    """The risk document that a run of this network shows, out of the store that the run is published to.

    Returns None if no document is new enough. A document that cannot be understood is passed over: another version
    wrote it, and the next census writes one that this version understands.
    """
    matches = [RISK.pattern.fullmatch(info.key) for info in store.list(RISK.prefix)]
    checkpoints = [int(match["checkpoint"]) for match in matches if match is not None]
    for checkpoint in sorted((each for each in checkpoints if each <= tables.ledger), reverse=True):
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
