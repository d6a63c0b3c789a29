"""A small history archive, written for a test: its buckets and headers, and who signed them, are the test's choice."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import ContractData, data_key, encode_contract_data, ttl_key
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import symbol
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import FolderFiles, bucket_name, records_name, state_name
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint import GENERALIZED_PROTOCOL, Checkpoint, HistoryArchive, empty_set
from exporter.past.archive.checkpoint_proof import make_proof
from exporter.past.archive.state_index import DEAD, LIVE
from exporter.past.archive.stellar_proof import read_trust
from tests.recorded_entries import decode_data_key

PASSPHRASE = "a simulated network"
CONTRACT = strkey.encode(strkey.CONTRACT, bytes(range(32)))
OTHER = strkey.encode(strkey.CONTRACT, bytes(32))
ONE, TWO, THREE = (data_key(CONTRACT, symbol(name)) for name in ("One", "Two", "Three"))
FOREIGN = data_key(OTHER, symbol("One"))
META = b"\xff\xff\xff\xff" + struct.pack(">II", 22, 0)


def live(key: bytes, value: ScVal, last_modified: int = 7, kind: bytes = LIVE) -> bytes:
    contract, own_key, durability, _ = decode_data_key(key)
    data = encode_contract_data(ContractData(contract, own_key, durability, value))
    return kind + struct.pack(">I", last_modified) + data + bytes(4)


def dead(key: bytes) -> bytes:
    return DEAD + key


def time_to_live(key: bytes, live_until: int) -> bytes:
    """The record of the TTL entry of a contract data or code entry."""
    return LIVE + struct.pack(">I", 7) + ttl_key(key) + struct.pack(">II", live_until, 0)


def marked(records: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">I", 0x80000000 | len(record)) + record for record in records)


TIME = 1_700_000_000
"""The close time of ledger 0; each ledger takes a second."""


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
    """An unpacked entries file with all that it can say about entries. An entry of None is stated as absent."""
    lines: list[list[object]] = [["ledger", passphrase, ledger, close_time]]
    for key, entry in sorted(entries.items()):
        name = b64encode(key).decode()
        if entry is None:
            lines.append(["absent", name])
        else:
            data = b64encode(entry.data).decode()
            lines.append(["entry", name, entry.last_modified, entry.live_until, data])
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def validators(organisations: int, each: int = 3) -> dict[str, list[SigningKey]]:
    return {
        f"organisation {at}": [SigningKey(bytes([at, of] * 16)) for of in range(each)] for at in range(organisations)
    }


ORGANISATIONS = validators(4)


def trust_document(organisations: dict[str, list[SigningKey]], network: str = PASSPHRASE) -> bytes:
    """The list that trusts these organisations."""
    listed = [
        {"name": name, "validators": [strkey.encode(strkey.ACCOUNT, bytes(key.verify_key)) for key in keys]}
        for name, keys in organisations.items()
    ]
    head = {"network": network, "date": "2026-01-02", "source": "a test"}
    return json.dumps({**head, "organisations": listed}).encode()


def tail(kind: int, previous: bytes, transactions: bytes) -> bytes:
    """The part of a close value after its kind. No network checks the validator's own signature in it."""
    signature = bytes(36) + struct.pack(">I", 64) + bytes(64) if kind else b""
    milliseconds = struct.pack(">Q", 1_700_000_128_000) if kind in (3, 4) else b""
    dropped = hashlib.sha256(transactions).digest() + previous + struct.pack(">I", 22) if kind in (2, 4) else b""
    return milliseconds + dropped + signature


def message(
    key: SigningKey, ledger: int, value: bytes, network: str = PASSPHRASE, quorum_set: bytes = bytes(32)
) -> bytes:
    """An SCPEnvelope that externalizes a value."""
    statement = bytes(4) + bytes(key.verify_key) + struct.pack(">QIII", ledger, 2, 1, len(value))
    statement += value + bytes(-len(value) % 4) + struct.pack(">I", 1) + quorum_set
    network_id = hashlib.sha256(network.encode()).digest()
    signed = key.sign(network_id + struct.pack(">I", 1) + statement).signature
    return statement + struct.pack(">I", 64) + signed


class SimulatedArchive:
    """An archive of a checkpoint, and of what follows it. ``buckets`` are lists of records, newest first.

    ``organisations`` of three validators sign two of the ledgers that follow. ``kind`` is of the close value of the
    first, ``envelopes`` are its transactions.
    """

    def __init__(
        self,
        folder: Path,
        buckets: Sequence[Sequence[bytes]],
        organisations: int = 4,
        *,
        hot: Sequence[Sequence[bytes]] | None = None,
        version: int = 22,
        kind: int = 1,
        envelopes: bytes = b"",
        checkpoint: int = 127,
        time: int = TIME,
        passphrase: str = PASSPHRASE,
    ) -> None:
        self.folder, self.checkpoint, self.next, self._passphrase = folder, checkpoint, checkpoint + 64, passphrase
        self.digests = [self.bucket(records) for records in buckets]
        self.hot_digests = None if hot is None else [self.bucket(records) for records in hot]
        list_hash = _list_hash(self.digests)
        if self.hot_digests is not None:
            list_hash = hashlib.sha256(list_hash + _list_hash(self.hot_digests)).digest()
        previous, records = bytes(32), []
        for ledger in range(checkpoint - 63, checkpoint + 1):
            records.append(header_record(header(ledger, previous, list_hash, version, time=time)))
            previous = records[-1][:32]
        self.write("ledger", checkpoint, records)
        self.write_state({})
        records, transactions, self.values = [], [], {}
        for ledger in range(checkpoint + 1, self.next + 1):
            content = empty_set(previous, version)
            if envelopes and ledger == checkpoint + 1:
                content += envelopes
                if version >= GENERALIZED_PROTOCOL:
                    stored = bytes(36) + struct.pack(">I", 1) + content
                else:
                    stored = previous + struct.pack(">I", 1) + envelopes + bytes(4)
                transactions.append(struct.pack(">I", ledger) + stored)
            at = kind if ledger == checkpoint + 1 else 1
            behind = struct.pack(">I", at) + tail(at, previous, content)
            made = header(ledger, previous, bytes(32), version, behind, time)
            set_hash = bytes(32) if at in (2, 4) else hashlib.sha256(content).digest()
            made = made[:36] + set_hash + made[68:]
            self.values[ledger] = made[36 : 36 + 44 + len(behind)]
            records.append(header_record(made))
            previous = records[-1][:32]
        self.write("ledger", self.next, records)
        self.write("transactions", self.next, transactions)
        self.organisations = validators(organisations)
        self.trust = read_trust(trust_document(self.organisations, passphrase))
        self.sign(*self.organisations)

    def sign(self, *names: str) -> None:
        """Write the scp file: all validators of these organisations externalize two of the ledgers."""
        keys = [key for name in names for key in self.organisations[name]]
        self.write_messages(
            {
                ledger: [message(key, ledger, self.values[ledger], self._passphrase) for key in keys]
                for ledger in (self.next - 63, self.next - 51)
            }
        )

    def write_messages(self, messages: dict[int, list[bytes]]) -> None:
        """Write the scp file with these messages, by ledger."""
        found = [
            struct.pack(">IIII", 0, 0, ledger, len(envelopes)) + b"".join(envelopes)
            for ledger, envelopes in messages.items()
        ]
        self.write("scp", self.next, found)

    def sign_trusting(self, stranger: SigningKey) -> None:
        """Write the scp file: all validators externalize the first ledger, with a quorum set that has a stranger."""
        keys = [key for each in self.organisations.values() for key in each]
        nodes = [struct.pack(">I", 0) + bytes(key.verify_key) for key in (*keys, stranger)]
        quorum_set = struct.pack(">II", len(nodes), len(nodes)) + b"".join(nodes) + bytes(4)
        digest, ledger = hashlib.sha256(quorum_set).digest(), self.next - 63
        said = [message(key, ledger, self.values[ledger], self._passphrase, digest) for key in keys]
        sets = struct.pack(">II", 0, 1) + quorum_set
        self.write("scp", self.next, [sets + struct.pack(">II", ledger, len(said)) + b"".join(said)])

    @property
    def archives(self) -> Archives:
        return Archives([HistoryArchive(FolderFiles(self.folder))])

    def proof(self, ledger: int = 127) -> tuple[Checkpoint, bytes]:
        """The checkpoint, and the content of a proof file that its organisations' messages make."""
        return make_proof(self.archives, ledger, self.trust)

    def bucket(self, records: Sequence[bytes]) -> bytes:
        """Store a bucket; gives its digest."""
        if not records:
            return bytes(32)
        content = marked([META, *records])
        digest = hashlib.sha256(content).digest()
        self.put(bucket_name(digest), gzip.compress(content, 1))
        return digest

    def write(self, category: str, checkpoint: int, records: Sequence[bytes]) -> None:
        """Store a file of records."""
        self.put(records_name(category, checkpoint), gzip.compress(marked(records), 1))

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
