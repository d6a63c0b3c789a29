"""Archives that lie: whatever file of one is changed, no other state than the network's is proven."""

from __future__ import annotations

import gzip
import random
import zlib
from functools import partial
from pathlib import Path

import pytest

from exporter.errors import ArchiveError
from exporter.ledger.codec.scval_encode import u32
from exporter.past.archive.archive_files import bucket_name, records_name, state_name
from exporter.past.archive.stellar_proof import bucket_records, check_entries, check_proof, read_claims
from tests.past.archive.simulated_archive import (
    ONE,
    PASSPHRASE,
    TWO,
    SimulatedArchive,
    entries_content,
    live,
    time_to_live,
)
from tests.past.archive.test_stellar_proof import value

BUCKETS = [
    [live(ONE, u32(2)), time_to_live(ONE, 900)],
    [],
    [live(ONE, u32(1)), live(TWO, u32(5)), time_to_live(TWO, 800)],
]


def forge(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Change files of an archive at random; gives how many forgeries of each were believed for another state."""
    made = SimulatedArchive(folder, BUCKETS, hot=[[]], version=23, envelopes=bytes(200))
    true, _ = made.proof()
    claims = read_claims(
        entries_content(PASSPHRASE, 127, 1_700_000_127, {ONE: value(ONE, 2), TWO: value(TWO, 5, 7, 800)})
    )
    source = partial(bucket_records, str(made.folder))
    names = [
        state_name(127),
        bucket_name(made.digests[0]),
        bucket_name(made.digests[2]),
        *(records_name(category, made.next) for category in ("ledger", "transactions", "scp")),
        records_name("ledger", 127),
    ]
    chance, believed = random.Random(seed), dict.fromkeys(names, 0)
    for at in range(count):
        name = names[at % len(names)]
        path = made.folder / name
        kept = path.read_bytes()
        content = bytearray(gzip.decompress(kept) if name.endswith(".gz") else kept)
        if chance.random() < 0.8:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        else:
            start = chance.randrange(len(content))
            del content[start : start + chance.randrange(1, 200)]
        path.write_bytes(gzip.compress(bytes(content), 1) if name.endswith(".gz") else bytes(content))
        try:
            checkpoint, proof = made.proof()
            proven = check_proof(proof, made.trust)
            confirmed = check_entries(claims, proven, [source])["confirmed"]
            believed[name] += (
                checkpoint != true
                or len(confirmed) != 2
                or (proven.hash, proven.live) != (true.header.hash, list(true.live))
            )
        except (ArchiveError, OSError, zlib.error):
            pass
        path.write_bytes(kept)
    return believed


@pytest.mark.parametrize("count", [70, pytest.param(3_500, marks=pytest.mark.slow)])
def test_no_changed_file_of_an_archive_is_believed(tmp_path: Path, count: int) -> None:
    """State file, headers, links, sets of transactions, messages, buckets: it is refused, or nothing that counts."""
    assert {0} == set(forge(tmp_path, count, count).values())
