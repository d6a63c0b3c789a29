"""Tests of making proofs from archives, and of all kinds of headers and close values in them."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from exporter.errors import ArchiveError
from exporter.ledger.codec.scval_encode import u32
from exporter.past.archive.archive_files import records_name
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_proof import NotProvableError, make_proof, newest_proof, unlisted_validators
from exporter.past.archive.stellar_proof import check_proof, read_trust
from tests.past.archive.simulated_archive import (
    ONE,
    ORGANISATIONS,
    SimulatedArchive,
    live,
    message,
    time_to_live,
    trust_document,
)

BUCKETS = [[live(ONE, u32(1)), time_to_live(ONE, 900)]]


@pytest.mark.parametrize(
    ("version", "kind"), [(8, 0), (19, 1), (22, 1), (23, 1), (28, 2), (30, 3), (30, 4)], ids=lambda item: str(item)
)
def test_a_checkpoint_of_each_kind_of_header_is_proven(tmp_path: Path, version: int, kind: int) -> None:
    """Bucket lists before and after protocol 23, sets of both forms, values of all five kinds up to protocol 30."""
    made = SimulatedArchive(tmp_path, BUCKETS, hot=[[]] if version >= 23 else None, version=version, kind=kind)
    checkpoint, content = made.proof()
    proven = check_proof(content, made.trust)

    assert checkpoint.header.hash == proven.hash
    assert (127, version, 1_700_000_127, 128) == (
        proven.ledger,
        checkpoint.header.protocol_version,
        proven.closed[127],
        proven.signed_ledger,
    )
    assert dict.fromkeys(ORGANISATIONS, 3) == proven.signed
    assert list(checkpoint.live) == proven.live


@pytest.mark.parametrize("version", [12, 22])
@pytest.mark.parametrize(("size", "signed_ledger"), [(400, 128), (40_000, 140)])
def test_a_large_set_is_left_out_where_a_later_ledger_proves_the_same(
    tmp_path: Path, version: int, size: int, signed_ledger: int
) -> None:
    """The signed ledger is taken that makes the smallest proof, with the headers between."""
    made = SimulatedArchive(tmp_path, BUCKETS, version=version, envelopes=bytes(size))

    assert signed_ledger == check_proof(made.proof()[1], made.trust).signed_ledger


def test_the_newest_checkpoint_cannot_be_proven_yet(tmp_path: Path) -> None:
    """The proof of a checkpoint comes with the next one; until then an older one is taken, and the error says when."""
    made = SimulatedArchive(tmp_path, BUCKETS)
    (tmp_path / records_name("ledger", 191)).unlink()

    with pytest.raises(NotProvableError, match=r"127 cannot be proven yet: .* with checkpoint 191, 64 ledgers later"):
        made.proof()
    with pytest.raises(NotProvableError, match="cannot be proven yet"):
        newest_proof(made.archives, made.trust)


def test_archives_that_saw_different_validators_complete_each_other(tmp_path: Path) -> None:
    """Each archive has the messages that its node saw; together they are a quorum, and a damaged one costs nothing."""
    places = [SimulatedArchive(tmp_path / f"{at}", BUCKETS, 3) for at in range(4)]
    broken, *others = places
    for made, name in zip(others, broken.organisations, strict=True):
        made.sign(name)
        with pytest.raises(NotProvableError, match="1 of 3 organisations signed ledger 128, 3 must"):
            made.proof()
    for category in ("ledger", "scp", "transactions"):
        broken.put(records_name(category, 191), gzip.compress(b"\x80\0\0\x09 nonsense"))
    archives = Archives([archive for made in places for archive in made.archives.each])
    _, content = make_proof(archives, 127, broken.trust)

    assert dict.fromkeys(broken.organisations, 3) == check_proof(content, broken.trust).signed


def test_false_messages_of_an_archive_do_not_spoil_a_proof(tmp_path: Path) -> None:
    """Messages of another value or with a wrong signature are left out, whichever archive they come from."""
    made = SimulatedArchive(tmp_path, BUCKETS, 1)
    key, *others = made.organisations["organisation 0"]
    value = made.values[128]
    true = [message(each, 128, value) for each in others]
    forged = message(others[0], 128, value)[:-1] + b"\0"
    made.write_messages({128: [forged, message(key, 128, value[:-1] + b"\1"), *true]})

    assert {"organisation 0": 2} == check_proof(made.proof()[1], made.trust).signed


def test_a_list_of_trust_that_grew_old_is_seen(tmp_path: Path) -> None:
    """Validators that the trusted ones name in their own quorum sets, and the list does not have, are counted."""
    made = SimulatedArchive(tmp_path, BUCKETS, 2)
    keys = [key for each in made.organisations.values() for key in each]
    stranger = SigningKey(bytes([9] * 32))
    nodes = [struct.pack(">I", 0) + bytes(key.verify_key) for key in (*keys[1:], stranger)]
    inner = struct.pack(">II", 2, 3) + b"".join(nodes[:3]) + bytes(4)
    quorum_set = struct.pack(">II", 2, 3) + b"".join(nodes[3:]) + struct.pack(">I", 1) + inner
    digest = hashlib.sha256(quorum_set).digest()
    said = [message(key, 128, made.values[128], quorum_set=digest) for key in (keys[0], stranger)]
    made.write("scp", 191, [struct.pack(">II", 0, 1) + quorum_set + struct.pack(">II", 128, 2) + b"".join(said)])
    newer = read_trust(trust_document({**made.organisations, "stranger": [stranger]}))

    assert [1, 0] == [unlisted_validators(made.archives, 127, trust) for trust in (made.trust, newer)]


def test_archives_of_two_networks_are_not_mixed(tmp_path: Path) -> None:
    """Ledgers after a checkpoint that do not follow its header are refused."""
    made = SimulatedArchive(tmp_path / "archive", BUCKETS)
    other = SimulatedArchive(tmp_path / "other", [[live(ONE, u32(2)), time_to_live(ONE, 900)]])
    name = records_name("ledger", 191)
    made.put(name, (other.folder / name).read_bytes())

    with pytest.raises(ArchiveError, match=r"are not its own|do not follow its header"):
        made.proof()
