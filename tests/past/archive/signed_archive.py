"""Made organisations with validators, and an archive of a checkpoint that what they signed proves."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path

from nacl.signing import SigningKey

from exporter.ledger.codec import strkey
from exporter.past.archive.archive_files import records_name
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_records import GENERALIZED_PROTOCOL, empty_set
from tests.past.archive.simulated_archive import PASSPHRASE, TIME, MadeArchive, header, header_record, marked


def validators(organisations: int, each: int = 3) -> dict[str, list[SigningKey]]:
    return {
        f"organisation {at}": [SigningKey(bytes([at, of] * 16)) for of in range(each)] for at in range(organisations)
    }


def trust_document(organisations: dict[str, list[SigningKey]], network: str = PASSPHRASE) -> bytes:
    """The list that trusts these organisations."""
    return json.dumps(
        {
            "network": network,
            "date": "2026-01-02",
            "source": "a test",
            "organisations": [
                {"name": name, "validators": [strkey.encode(strkey.ACCOUNT, bytes(key.verify_key)) for key in keys]}
                for name, keys in organisations.items()
            ],
        }
    ).encode()


def tail(kind: int, previous: bytes, transactions: bytes) -> bytes:
    """What follows the kind of a close value: no network checks the validator's own signature in it."""
    signature = bytes(36) + struct.pack(">I", 64) + bytes(64)
    dropped = hashlib.sha256(transactions).digest() + previous + struct.pack(">I", 22)
    milliseconds = struct.pack(">Q", 1_700_000_128_000)
    return {
        0: b"",
        1: signature,
        2: dropped + signature,
        3: milliseconds + signature,
        4: milliseconds + dropped + signature,
    }[kind]


def message(
    key: SigningKey, ledger: int, value: bytes, network: str = PASSPHRASE, quorum_set: bytes = bytes(32), kind: int = 2
) -> bytes:
    """An SCPEnvelope that externalizes a value."""
    padded = value + bytes(-len(value) % 4)
    statement = (
        bytes(4)
        + bytes(key.verify_key)
        + struct.pack(">QIII", ledger, kind, 1, len(value))
        + padded
        + struct.pack(">I", 1)
        + quorum_set
    )
    network_id = hashlib.sha256(network.encode()).digest()
    signed = key.sign(network_id + struct.pack(">I", 1) + statement).signature
    return statement + struct.pack(">I", 64) + signed


class SignedArchive:
    """An archive of a checkpoint, and of what follows it. ``kind`` is of the close value of the ledger after it."""

    def __init__(
        self,
        folder: Path,
        buckets: Sequence[Sequence[bytes]],
        organisations: dict[str, list[SigningKey]],
        *,
        hot: Sequence[Sequence[bytes]] | None = None,
        version: int = 22,
        kind: int = 1,
        envelopes: bytes = b"",
        checkpoint: int = 127,
        time: int = TIME,
        passphrase: str = PASSPHRASE,
    ) -> None:
        self.archive = MadeArchive(
            folder, buckets, hot, version, checkpoint=checkpoint, time=time, passphrase=passphrase
        )
        self.next, self._passphrase = checkpoint + 64, passphrase
        previous = self._last_hash()
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
        self.archive.put(records_name("ledger", self.next), gzip.compress(marked(records)))
        self.archive.put(records_name("transactions", self.next), gzip.compress(marked(transactions)))
        self.sign(organisations)

    def sign(self, organisations: dict[str, list[SigningKey]]) -> None:
        """Write the scp file: all validators of these organisations externalize two of the ledgers."""
        self.write_messages(
            {
                ledger: [
                    message(key, ledger, self.values[ledger], self._passphrase)
                    for keys in organisations.values()
                    for key in keys
                ]
                for ledger in (self.next - 63, self.next - 51)
            }
        )

    def write_messages(self, messages: dict[int, list[bytes]]) -> None:
        """Write the scp file with these messages, by ledger."""
        found = [
            struct.pack(">IIII", 0, 0, ledger, len(envelopes)) + b"".join(envelopes)
            for ledger, envelopes in messages.items()
        ]
        self.archive.put(records_name("scp", self.next), gzip.compress(marked(found)))

    def archives(self, kept: Path) -> Archives:
        return Archives.open([str(self.archive.folder)], kept)

    def _last_hash(self) -> bytes:
        name = records_name("ledger", self.archive.checkpoint)
        content = gzip.decompress((self.archive.folder / name).read_bytes())
        length = int.from_bytes(content[:4], "big") - 0x80000000
        return content[-length:][:32]
