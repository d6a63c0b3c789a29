"""Reads Blend pools with `exporter.read`.

    python exporter_read.py URL MARKETS PASSPHRASE

MARKETS is a file of lines, each a generation (v1 or v2) and the address of a pool. It prints a line of JSON for each
reserve, and last the peak of this process's memory in kB.
"""

import json
import re
import sys
from pathlib import Path

import exporter

COLUMNS = {
    "market": "market",
    "token_address": "token",
    "oracle_price": "price",
    "supply_index": "supply_index",
    "borrow_index": "borrow_index",
    "total_supplied": "supplied",
    "total_borrowed": "borrowed",
}


def main(url: str, markets_file: str, passphrase: str) -> None:
    """Read the markets and print what was read."""
    markets = [
        {"protocol": "blend", "address": line.split()[1]} for line in Path(markets_file).read_text().splitlines()
    ]
    settings = exporter.load_settings(
        None,
        {"network.name": "local", "network.passphrase": passphrase, "discovery.enabled": False, "markets": markets},
    )
    pools = exporter.read(url, settings).tables.pools
    for row in pools.select(*COLUMNS).rows():
        print(json.dumps(dict(zip(COLUMNS.values(), map(str, row), strict=True))))
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(peak[1] if peak else 0)


main(*sys.argv[1:])
