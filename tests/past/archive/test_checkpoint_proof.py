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
from tests.past.archive.signed_archive import SignedArchive, message, trust_document, validators
from tests.past.archive.simulated_archive import live, marked, time_to_live
from tests.past.archive.test_checkpoint import ONE

BUCKETS = [[live(ONE, u32(1)), time_to_live(ONE, 900)]]


@pytest.mark.parametrize(
    ("version", "kind"), [(8, 0), (19, 1), (22, 1), (23, 1), (28, 2), (30, 3), (30, 4)], ids=lambda item: str(item)
)
def test_a_checkpoint_of_each_kind_of_header_is_proven(tmp_path: Path, version: int, kind: int) -> None:
    """Bucket lists before and after protocol 23, sets of both forms, values of all five kinds up to protocol 30."""
    organisations = validators(4)
    made = SignedArchive(
        tmp_path / "archive",
        BUCKETS,
        organisations,
        hot=[[]] if version >= 23 else None,
        version=version,
        kind=kind,
    )
    trust = read_trust(trust_document(organisations))
    checkpoint, content = make_proof(made.archives(tmp_path), 127, trust)
    proven = check_proof(content, trust)

    assert checkpoint.header.hash == proven.hash
    assert (127, version, 1_700_000_127, 128) == (
        proven.ledger,
        checkpoint.header.protocol_version,
        proven.closed[127],
        proven.signed_ledger,
    )
    assert dict.fromkeys(organisations, 3) == proven.signed
    assert list(checkpoint.state.live) == proven.live


@pytest.mark.parametrize("version", [12, 22])
def test_a_large_set_is_left_out_where_a_later_ledger_proves_the_same(tmp_path: Path, version: int) -> None:
    """Of the ledgers that were signed the one is taken that makes the smallest proof, with the headers between."""
    organisations = validators(1)
    trust = read_trust(trust_document(organisations))
    signed_ledgers = []
    for name, envelopes in (("small", bytes(400)), ("large", bytes(40_000))):
        made = SignedArchive(tmp_path / name, BUCKETS, organisations, version=version, envelopes=envelopes)
        _, content = make_proof(made.archives(tmp_path), 127, trust)
        signed_ledgers.append(check_proof(content, trust).signed_ledger)

    assert [128, 140] == signed_ledgers


def test_the_newest_checkpoint_cannot_be_proven_yet(tmp_path: Path) -> None:
    """What proves a checkpoint comes with the next one; until then it is said when, and an older one is taken."""
    organisations = validators(1)
    made = SignedArchive(tmp_path / "archive", BUCKETS, organisations)
    trust = read_trust(trust_document(organisations))
    (made.archive.folder / records_name("ledger", 191)).unlink()

    with pytest.raises(NotProvableError, match=r"127 cannot be proven yet: .* with checkpoint 191, 64 ledgers later"):
        make_proof(made.archives(tmp_path), 127, trust)
    with pytest.raises(NotProvableError, match="cannot be proven yet"):
        newest_proof(made.archives(tmp_path), trust)


def test_too_few_signatures_do_not_make_a_proof(tmp_path: Path) -> None:
    """An archive whose messages are those of too few organisations proves nothing, and how many are missing is said."""
    organisations = validators(4)
    made = SignedArchive(tmp_path / "archive", BUCKETS, organisations)
    made.sign({name: keys for name, keys in organisations.items() if name in ("organisation 0", "organisation 1")})

    with pytest.raises(NotProvableError, match="2 of 4 organisations signed ledger 128, 3 must"):
        make_proof(made.archives(tmp_path), 127, read_trust(trust_document(organisations)))


def test_archives_that_saw_different_validators_complete_each_other(tmp_path: Path) -> None:
    """Each archive has the messages that its node saw; together they are a quorum, and a damaged one costs nothing."""
    organisations = validators(3)
    trust = read_trust(trust_document(organisations))
    places = []
    for name in organisations:
        made = SignedArchive(tmp_path / name.replace(" ", ""), BUCKETS, organisations)
        made.sign({name: organisations[name]})
        places.append(str(made.archive.folder))
        with pytest.raises(NotProvableError, match="1 of 3 organisations signed"):
            make_proof(made.archives(tmp_path), 127, trust)
    broken = SignedArchive(tmp_path / "broken", BUCKETS, organisations)
    for category in ("ledger", "scp", "transactions"):
        broken.archive.put(records_name(category, 191), gzip.compress(b"\x80\0\0\x09 nonsense"))
    archives = Archives.open([str(broken.archive.folder), *places], tmp_path)
    _, content = make_proof(archives, 127, trust)

    assert dict.fromkeys(organisations, 3) == check_proof(content, trust).signed


def test_false_messages_of_an_archive_do_not_spoil_a_proof(tmp_path: Path) -> None:
    """Messages of another value or with a wrong signature are left out, whichever archive they come from."""
    organisations = validators(1)
    made = SignedArchive(tmp_path / "archive", BUCKETS, organisations)
    key, *others = organisations["organisation 0"]
    value = made.values[128]
    true = [message(each, 128, value) for each in others]
    forged = message(others[0], 128, value)[:-1] + b"\0"
    made.write_messages({128: [forged, message(key, 128, value[:-1] + b"\1"), *true]})
    trust = read_trust(trust_document(organisations))
    _, content = make_proof(made.archives(tmp_path), 127, trust)

    assert {"organisation 0": 2} == check_proof(content, trust).signed


def test_a_list_of_trust_that_grew_old_is_seen(tmp_path: Path) -> None:
    """Validators that the trusted ones name in their own quorum sets, and the list does not have, are counted."""
    organisations = validators(2)
    made = SignedArchive(tmp_path / "archive", BUCKETS, organisations)
    keys = [key for each in organisations.values() for key in each]
    stranger = SigningKey(bytes([9] * 32))
    nodes = [struct.pack(">I", 0) + bytes(key.verify_key) for key in (*keys[1:], stranger)]
    inner = struct.pack(">II", 2, 3) + b"".join(nodes[:3]) + bytes(4)
    quorum_set = struct.pack(">II", 2, 3) + b"".join(nodes[3:]) + struct.pack(">I", 1) + inner
    digest = hashlib.sha256(quorum_set).digest()
    said = [message(key, 128, made.values[128], quorum_set=digest) for key in (keys[0], stranger)]
    record = struct.pack(">II", 0, 1) + quorum_set + struct.pack(">II", 128, 2) + b"".join(said)
    made.archive.put(records_name("scp", 191), gzip.compress(marked([record])))
    archives = made.archives(tmp_path)
    newer = {**organisations, "stranger": [stranger]}

    assert 1 == unlisted_validators(archives, 127, read_trust(trust_document(organisations)))
    assert 0 == unlisted_validators(archives, 127, read_trust(trust_document(newer)))


def test_archives_of_two_networks_are_not_mixed(tmp_path: Path) -> None:
    """Ledgers after a checkpoint that do not follow its header are refused."""
    organisations = validators(1)
    made = SignedArchive(tmp_path / "archive", BUCKETS, organisations)
    other = SignedArchive(tmp_path / "other", [[live(ONE, u32(2)), time_to_live(ONE, 900)]], organisations)
    name = records_name("ledger", 191)
    made.archive.put(name, (other.archive.folder / name).read_bytes())

    with pytest.raises(ArchiveError, match=r"are not its own|do not follow its header"):
        make_proof(made.archives(tmp_path), 127, read_trust(trust_document(organisations)))
