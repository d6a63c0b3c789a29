"""Makes exporter/past/lake/wrongly_archived.parquet from the list that CAP-76 publishes.

python -m tests.past.lake.make_wrongly_archived FILE.csv
"""

from __future__ import annotations

import base64
import csv
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.ledger.codec.entries import key_of_entry
from exporter.ledger.codec.xdr_walk import ledger_entry
from exporter.past.lake import replay


def packed(source: Path) -> bytes:
    """The file's bytes; each entry is checked to have the key that the list says."""
    rows = []
    with source.open(newline="") as file:
        for row in csv.DictReader(file):
            key, correct, archived = (
                base64.b64decode(row[name], validate=True) for name in ("ledger_key", "correct_entry", "archived_entry")
            )
            for entry in (correct, archived):
                if key_of_entry(entry) != key or ledger_entry(entry, 0, int.from_bytes(entry[4:8])) != len(entry):
                    raise ValueError(f"an entry has another key: {row['ledger_key']}")
            rows.append((int(row["evicted_ledger_seq"]), archived, correct))
    rows.sort(key=lambda row: (row[0], key_of_entry(row[1])))
    schema = pa.schema([("evicted", pa.uint32()), ("archived", pa.binary()), ("correct", pa.binary())])
    table = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=schema.names).cast(schema)
    target = io.BytesIO()
    pq.write_table(table, target, compression="zstd", compression_level=19, use_dictionary=False)
    return target.getvalue()


if __name__ == "__main__":
    place = Path(replay.__file__).with_name(replay.WRONGLY_ARCHIVED)
    place.write_bytes(packed(Path(sys.argv[1])))
    print(f"{place}: {place.stat().st_size:,} bytes")
