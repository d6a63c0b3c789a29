"""The tables that others would make of a made lake: a row a key and ledger, without events and evictions."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from exporter.past.lake.close_meta import CREATED, EVICTED, REMOVED, RESTORED, STATE, UPDATED, Change, header_of, walk
from exporter.past.lake.extract import split
from exporter.past.lake.objects import Lake

_DATA, _TTL = b"\0\0\0\x06", b"\0\0\0\x09"


def write_tables(lake: Path, first: int, last: int, folder: Path) -> Path:
    """Write what lies between two ledgers: contract_data as Parquet, as Hubble has it, the others as JSON lines."""
    rows: dict[str, list[dict[str, Any]]] = {"contract_data": [], "ttl": [], "ledgers": []}
    for batch in Lake.open(str(lake)).batches(first, last):
        for meta, ledger in split(batch):
            header = header_of(meta)
            closed = datetime.fromtimestamp(header.close_time, UTC)
            rows["ledgers"].append(
                {
                    "sequence": ledger, "closed_at": closed, "protocol_version": header.protocol_version,
                    "ledger_hash": header.hash.hex(), "previous_ledger_hash": header.previous_hash.hex(),
                }
            )  # fmt: skip
            for change, entry in compacted(walk(meta).changes):
                table, row = _row(change, entry)
                rows[table].append(
                    {"ledger_sequence": ledger, "closed_at": closed, "ledger_entry_change": change.kind,
                     "deleted": change.kind == REMOVED, **row}
                )  # fmt: skip
    folder.mkdir(parents=True)
    pl.DataFrame(rows["contract_data"]).write_parquet(folder / "contract_data-000.parquet")
    for name in ("ttl", "ledgers"):
        lines = (json.dumps({**row, "closed_at": f"{row['closed_at']:%Y-%m-%dT%H:%M:%SZ}"}) for row in rows[name])
        (folder / f"{first}-{last}-{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def compacted(changes: Iterable[Change]) -> Iterator[tuple[Change, bytes]]:
    """One change a key, as stellar-etl's compactor makes it, with the entry, also of what was removed."""
    net: dict[bytes, Change] = {}
    entries: dict[bytes, bytes] = {}
    for change in changes:
        if change.kind == EVICTED or change.key[:4] not in (_DATA, _TTL):
            continue
        if change.entry is not None:
            entries[change.key] = change.entry
        if change.kind == STATE:
            continue
        known = net.get(change.key)
        kind = change.kind
        if known is not None:
            if known.kind == CREATED and kind == REMOVED:
                del net[change.key]
                continue
            if known.kind in (CREATED, RESTORED) and kind == UPDATED:
                kind = known.kind
            elif known.kind == REMOVED:
                kind = UPDATED
        net[change.key] = Change(kind, change.key, change.entry)
    for key, change in net.items():
        yield change, entries[key]


def _row(change: Change, entry: bytes) -> tuple[str, dict[str, Any]]:
    modified = int.from_bytes(entry[:4], "big")
    if change.key[:4] == _TTL:
        until = int.from_bytes(entry[40:44], "big")
        return "ttl", {
            "key_hash": change.key[4:].hex(), "live_until_ledger_seq": until, "last_modified_ledger": modified,
        }  # fmt: skip
    return "contract_data", {
        "contract_data_xdr": base64.b64encode(entry[8:-4]).decode(),
        "last_modified_ledger": modified,
        "ledger_key_hash": hashlib.sha256(change.key).hexdigest(),
        "ledger_key_hash_base_64": base64.b64encode(change.key).decode(),
    }
