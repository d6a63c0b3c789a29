"""Ledger snapshot files of the embedded network, in the form that ``stellar snapshot create`` writes."""

from __future__ import annotations

import json
from pathlib import Path

from exporter.ledger.xdr_json_write import entry_data_to_json, ledger_key_to_json
from exporter.localnet.network import LocalNetwork
from exporter.networks import network_id


def snapshot_document(network: LocalNetwork, ledger: int) -> bytes:
    """The file of a ledger that the chain still knows, with every entry of it."""
    entries = [
        [
            ledger_key_to_json(key),
            [
                {
                    "last_modified_ledger_seq": entry.last_modified,
                    "data": entry_data_to_json(entry.data),
                    "ext": "v0",
                },
                2**32 - 1,
            ],
        ]
        for key, entry in network.chain.state(ledger).items()
    ]
    document = {
        "protocol_version": network.protocol_version,
        "sequence_number": ledger,
        "timestamp": network.chain.close_time(ledger),
        "network_id": network_id(network.passphrase),
        "base_reserve": 5_000_000,
        "min_persistent_entry_ttl": 4096,
        "min_temp_entry_ttl": 16,
        "max_entry_ttl": 6_312_000,
        "ledger_entries": entries,
    }
    return json.dumps(document).encode()


def write_snapshots(network: LocalNetwork, folder: Path, count: int) -> list[Path]:
    """One file a ledger, from the latest on; the network moves on after each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for _ in range(count):
        ledger = network.chain.latest
        path = folder / f"{ledger}.json"
        path.write_bytes(snapshot_document(network, ledger))
        paths.append(path)
        network.advance()
    return paths
