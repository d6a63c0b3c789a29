"""Writes the golden file: what is published about every pool of the recorded network.

python -m tools.golden_rows
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from exporter.tables import PoolKey
from tests.protocols.world import World

PATH = Path(__file__).parent.parent / "tests" / "protocols" / "golden_rows.json"


def golden_rows() -> Iterator[dict[str, object]]:
    """The rows sixty ledgers on, in which only prices move, with parameters and the market's hash; no nulls."""
    network = RecordedNetwork()
    for _ in range(60):
        network.advance([])
    for protocol in sorted(PROTOCOLS):
        tables = World(protocol, network).compute()
        hashes = dict(tables.markets.select("market", "config_hash").iter_rows())
        for row in tables.pools.rows(named=True):
            shown = {item.name: item.value for item in tables.parameters[PoolKey(row["market"], row["pool"])]}
            yield {name: value for name, value in row.items() if value is not None} | {
                "config_hash": hashes[row["market"]],
                "parameters": shown,
            }


if __name__ == "__main__":
    PATH.write_text(json.dumps(list(golden_rows()), indent=1) + "\n")  # a line a field, so that a difference is legible
