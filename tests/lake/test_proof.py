"""What contracts made of their pools, against what is computed from before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.archive.archive_files import FolderFiles
from exporter.archive.checkpoint import HistoryArchive
from exporter.lake.changes import LedgerChanges
from exporter.lake.close_meta import CREATED, UPDATED, Change
from exporter.lake.proof import Prover, Tally
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Change as Write
from exporter.localnet.made import SOME, MadeNetwork

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
V2_CODE = "a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"

Spoil = Callable[[bytes], bytes]


def proven(ledgers: int, spoil: Spoil = lambda data: data) -> Tally:
    """What so many ledgers of a made network prove, whose contracts compute apart from the exporter's math."""
    network = MadeNetwork(pools=12, others=SOME, close_seconds=600)
    chain = network.chain
    prover = Prover({key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None})

    def follow(ledger: int, close_time: int, writes: list[Write], *_: object) -> None:
        changes = [
            Change(UPDATED, write.key, bytes(4) + spoil(write.data) + bytes(4)) for write in writes if write.data
        ]
        prover.follow(LedgerChanges(ledger, close_time, 28, list(enumerate(changes))))

    chain.on_close = follow  # type: ignore[assignment]
    for _ in range(ledgers):
        network.advance()
    return prover.finish()


def test_the_contracts_of_the_embedded_network_confirm_the_math() -> None:
    """Every accrual of Blend, XOXNO, K2 and Slender gives what the exporter computes from the entries before."""
    tally = proven(60)

    assert {} == tally.differing
    assert {"blend", "k2", "slender", "xoxno"} == {name.split("/")[0] for name in tally.confirmed}
    assert all(count >= 20 for name, count in tally.confirmed.items() if not name.startswith("slender"))


def test_one_wrong_unit_is_told() -> None:
    """An index that is one off is a difference, named with its ledger, key, and both values."""

    def spoil(data: bytes) -> bytes:
        place = data.find(b"\0\0\0\x06d_rate") if b"ResData" in data else -1
        if place < 0:
            return data
        last = place + 12 + 4 + 15  # after the symbol: the kind, and the last byte of 16
        return data[:last] + bytes(((data[last] + 1) % 256,)) + data[last + 1 :]

    tally = proven(1, spoil)
    mismatch = tally.mismatches[0]

    assert {"blend"} == {name.split("/")[0] for name in tally.differing}
    assert "blend" not in {name.split("/")[0] for name in tally.confirmed}
    assert ("blend", "d_rate", 65_000_001) == (mismatch.protocol, mismatch.field, mismatch.ledger)
    assert 1 == abs(int(mismatch.computed) - int(mismatch.found)) % 255
    assert b"ResData" in bytes.fromhex(mismatch.key)


def test_the_accruals_of_a_real_pool(real_data: Path) -> None:
    """The three accruals of testnet's pool, out of its history archive, are exact in all twelve numbers."""
    folder = real_data / "archive-testnet"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    archive = HistoryArchive(FolderFiles(folder))
    times = {header.ledger: header.close_time for at in (575, 895, 959) for header in archive.headers(at)}
    prover = Prover({})
    for item in changes_between_checkpoints(archive, times):
        prover.follow(item)
    tally = prover.finish()

    assert ({f"blend/{V2_CODE}": 3}, {}) == (tally.confirmed, tally.differing)


def changes_between_checkpoints(archive: HistoryArchive, times: dict[int, int]) -> Iterator[LedgerChanges]:
    """The pool's entries as three checkpoints have them, each at the ledger of its last change."""
    known: dict[bytes, RawEntry] = {}
    for at in (575, 895, 959):
        found = archive.entries(archive.checkpoint(at), [POOL], code=False).entries
        fresh = [
            (entry.last_modified, key, entry)
            for key, entry in found.items()
            if key not in known or known[key].last_modified < entry.last_modified
        ]
        for order, (ledger, key, entry) in enumerate(sorted(fresh, key=lambda item: item[:2])):
            kind = UPDATED if key in known else CREATED
            change = Change(kind, key, bytes(4) + entry.data + bytes(4))
            yield LedgerChanges(ledger, times.get(ledger, 0), 22, [(order, change)])
        known |= found
