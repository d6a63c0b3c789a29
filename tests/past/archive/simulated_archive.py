"""A small history archive, written for a test: what its buckets and headers say is the test's choice."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exporter.ledger.codec.entries import ContractData, encode_contract_data, ttl_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import bucket_name, records_name, state_name
from exporter.past.archive.state_index import DEAD, LIVE
from tests.entries import decode_data_key

PASSPHRASE = "a simulated network"
META = b"\xff\xff\xff\xff" + struct.pack(">II", 22, 0)


def live(key: bytes, value: ScVal, last_modified: int = 7, kind: bytes = LIVE) -> bytes:
    contract, data_key, durability, _ = decode_data_key(key)
    data = encode_contract_data(ContractData(contract, data_key, durability, value))
    return kind + struct.pack(">I", last_modified) + data + bytes(4)


def dead(key: bytes) -> bytes:
    return DEAD + key


def time_to_live(key: bytes, live_until: int) -> bytes:
    """The record of the TTL entry of a contract data or code entry."""
    return LIVE + struct.pack(">I", 7) + ttl_key(key) + struct.pack(">II", live_until, 0)


def marked(records: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">I", 0x80000000 | len(record)) + record for record in records)


TIME = 1_700_000_000
"""When ledger 0 closed; each takes a second."""


def header(
    ledger: int, previous: bytes, list_hash: bytes, version: int = 22, value: bytes = bytes(4), time: int = TIME
) -> bytes:
    """A LedgerHeader. ``value`` is what follows the upgrades: the close value's kind and body."""
    return (
        struct.pack(">I", version)
        + previous
        + bytes(32)
        + struct.pack(">QI", time + ledger, 0)
        + value
        + bytes(32)
        + list_hash
        + struct.pack(">IqqIQIII", ledger, 1, 2, 3, 4, 100, 5_000_000, 6)
        + bytes(4 * 32)
        + bytes(4)
    )


def header_record(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content + bytes(4)


def entries_content(passphrase: str, ledger: int, close_time: int, entries: Mapping[bytes, RawEntry | None]) -> bytes:
    """An entries file, unpacked, with all that it can say of an entry. One that is None is said to be absent."""
    lines: list[list[object]] = [["ledger", passphrase, ledger, close_time]]
    for key, entry in sorted(entries.items()):
        name = b64encode(key).decode()
        if entry is None:
            lines.append(["absent", name])
        else:
            data = b64encode(entry.data).decode()
            lines.append(["entry", name, entry.last_modified, entry.live_until, data])
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


class MadeArchive:
    """An archive with one checkpoint. ``buckets`` are lists of records, newest first; the rest of the list is empty."""

    def __init__(
        self,
        folder: Path,
        buckets: Sequence[Sequence[bytes]],
        hot: Sequence[Sequence[bytes]] | None = None,
        version: int = 22,
        *,
        checkpoint: int = 127,
        time: int = TIME,
        passphrase: str = PASSPHRASE,
    ) -> None:
        self.folder = folder
        self.checkpoint = checkpoint
        self._passphrase = passphrase
        self.digests = [self.bucket(records) for records in buckets]
        self.hot_digests = None if hot is None else [self.bucket(records) for records in hot]
        list_hash = _list_hash(self.digests)
        if self.hot_digests is not None:
            list_hash = hashlib.sha256(list_hash + _list_hash(self.hot_digests)).digest()
        previous = bytes(32)
        headers = []
        for ledger in range(self.checkpoint - 63, self.checkpoint + 1):
            headers.append(header_record(header(ledger, previous, list_hash, version, time=time)))
            previous = headers[-1][:32]
        self.write_headers(headers)
        self.write_state({})

    def bucket(self, records: Sequence[bytes]) -> bytes:
        """Store a bucket; gives its digest."""
        if not records:
            return bytes(32)
        content = marked([META, *records])
        digest = hashlib.sha256(content).digest()
        self.put(bucket_name(digest), gzip.compress(content))
        return digest

    def write_headers(self, headers: Sequence[bytes]) -> None:
        """Store the ledger file of the checkpoint."""
        self.put(records_name("ledger", self.checkpoint), gzip.compress(marked(headers)))

    def write_state(self, changes: dict[str, Any]) -> None:
        """Store the state file of the checkpoint, with some fields changed."""
        document: dict[str, Any] = {
            "version": 1 if self.hot_digests is None else 2,
            "server": "a test",
            "currentLedger": self.checkpoint,
            "networkPassphrase": self._passphrase,
            "currentBuckets": levels(self.digests),
        }
        if self.hot_digests is not None:
            document["hotArchiveBuckets"] = levels(self.hot_digests)
        content = json.dumps({**document, **changes}).encode()
        self.put(state_name(self.checkpoint), content)
        self.put(".well-known/stellar-history.json", content)

    def put(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def levels(digests: Sequence[bytes]) -> list[dict[str, Any]]:
    """A bucket list as a state file has it, from the digests of its newest buckets."""
    padded = _padded(digests)
    return [
        {"curr": padded[at].hex(), "snap": padded[at + 1].hex(), "next": {"state": 0}}
        for at in range(0, len(padded), 2)
    ]


def _padded(digests: Sequence[bytes]) -> list[bytes]:
    return [*digests, *[bytes(32)] * (22 - len(digests))]


def _list_hash(digests: Sequence[bytes]) -> bytes:
    padded = _padded(digests)
    hashes = [hashlib.sha256(padded[at] + padded[at + 1]).digest() for at in range(0, len(padded), 2)]
    return hashlib.sha256(b"".join(hashes)).digest()
