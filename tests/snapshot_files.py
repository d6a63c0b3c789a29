"""Ledger snapshot files in the form that ``stellar snapshot create`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stellar_sdk import xdr

from exporter.deployments.networks import network_id
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import RawEntry
from exporter.localnet.network import LocalNetwork

SETTINGS = {"base_reserve": 5_000_000, "min_persistent_entry_ttl": 4096, "min_temp_entry_ttl": 16}


def snapshot_at(network: LocalNetwork, ledger: int) -> LedgerSnapshot:
    """The snapshot of a ledger that the chain still knows: all entries, and as in the tool's files no end of life."""
    entries = {
        key: RawEntry(entry.data, entry.last_modified, 2**32 - 1) for key, entry in network.chain.state(ledger).items()
    }
    close_time = network.chain.close_time(ledger)
    return LedgerSnapshot(network.protocol_version, ledger, close_time, network_id(network.passphrase), entries)


def write_snapshot(snapshot: LedgerSnapshot, path: Path) -> None:
    """Write the file, by ascending key, in the form of the tool's version 23 and later."""
    pairs = []
    for key, entry in sorted(snapshot.entries.items()):
        data = to_json("LedgerEntryData", entry.data)
        document = {"last_modified_ledger_seq": entry.last_modified, "data": data, "ext": "v0"}
        pairs.append([to_json("LedgerKey", key), [document, entry.live_until]])
    head = {
        "protocol_version": snapshot.protocol_version,
        "sequence_number": snapshot.ledger,
        "timestamp": snapshot.close_time,
        "network_id": snapshot.network_id,
    }
    path.write_text(json.dumps({**head, **SETTINGS, "max_entry_ttl": 6_312_000, "ledger_entries": pairs}), "ascii")


def to_json(kind: str, data: bytes) -> Any:
    """The XDR-JSON (version 2) of a type, as stellar-sdk writes it."""
    return getattr(xdr, kind).from_xdr_bytes(data).to_json_dict()
