"""Proofs of real checkpoints: a testnet of 2025 and mainnet of 2017."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.past.archive.archive_places import Archives
from exporter.past.archive.checkpoint_proof import NotProvableError, make_proof, newest_proof, unlisted_validators
from exporter.past.archive.stellar_proof import (
    INIT,
    LIVE,
    RefusedError,
    bucket_records,
    bucket_spans,
    check_entries,
    check_proof,
    number,
    read_claims,
)
from exporter.past.archive.trusted_organisations import trust_of
from tests.past.archive.archive_snapshot import archive_snapshot
from tests.past.archive.simulated_archive import entries_content
from tests.past.archive.test_checkpoint import POOL

TESTNET, MAINNET = NETWORKS["testnet"].passphrase, NETWORKS["mainnet"].passphrase


@pytest.fixture(scope="module")
def testnet(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Archives:
    return opened(real_data, "archive-testnet", tmp_path_factory.mktemp("kept"))


def opened(real_data: Path, name: str, kept: Path) -> Archives:
    if not (real_data / name).is_dir():
        pytest.skip(f"{name} is not in the folder of real ledger data")
    return Archives.open([str(real_data / name)], kept)


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_every_testnet_checkpoint_that_a_next_one_follows_is_proven(testnet: Archives, step: int) -> None:
    """The organisation's three validators signed each ledger; the last is not signed yet, and the error says so."""
    trust = trust_of(TESTNET)
    proven = [check_proof(make_proof(testnet, ledger, trust)[1], trust) for ledger in range(63, 10_047, 64 * step)]

    assert 156 // step == len(proven)
    assert {3} == {count for each in proven for count in each.signed.values()}
    with pytest.raises(NotProvableError, match=r"10047 cannot be proven yet: .* with checkpoint 10111"):
        make_proof(testnet, 10_047, trust)


def test_the_newest_that_can_be_proven_is_the_last_but_one(testnet: Archives) -> None:
    """An archive's own newest checkpoint never is; and another network's signatures are none."""
    trust = trust_of(TESTNET)

    assert 9_983 == newest_proof(testnet, trust)[0].header.ledger
    assert 0 == unlisted_validators(testnet, 9_983, trust)
    with pytest.raises(NotProvableError, match=r"does not have its signature|0 of 7 organisations"):
        make_proof(testnet, 959, trust_of(MAINNET))


def test_mainnet_of_2017_is_not_proven_by_the_organisations_of_today(real_data: Path, tmp_path: Path) -> None:
    """The archive has signatures of one organisation's validators of that time; the error says so."""
    archives = opened(real_data, "archive-pubnet", tmp_path)

    with pytest.raises(NotProvableError, match="0 of 7 organisations signed ledger 12000000, 5 must"):
        make_proof(archives, 11_999_999, trust_of(MAINNET))


@pytest.mark.parametrize("ledger", [959, 9_983])
def test_the_real_pools_entries_are_confirmed_by_the_real_buckets(
    testnet: Archives, real_data: Path, ledger: int
) -> None:
    """All entries of the pool are; an older value of one, a value of another one or one left from before is not."""
    trust = trust_of(TESTNET)
    proven = check_proof(make_proof(testnet, ledger, trust)[1], trust)
    archive = testnet.each[0]
    snapshot, before = (archive_snapshot(archive, at, [POOL]) for at in (ledger, 639))
    source = partial(bucket_records, str(real_data / "archive-testnet"))
    head = TESTNET, ledger, snapshot.close_time
    claims = read_claims(entries_content(*head, snapshot.entries))

    assert sorted(snapshot.entries) == sorted(check_entries(claims, proven, [source])["confirmed"])
    changed = {key: entry for key, entry in before.entries.items() if snapshot.entries[key] != entry}
    assert changed
    for key, entry in changed.items():
        older = read_claims(entries_content(*head, {key: entry}))
        with pytest.raises(RefusedError, match=f"the entry {key.hex()[:160]} "):
            check_entries(older, proven, [source])


@pytest.mark.parametrize("step", [26, pytest.param(1, marks=pytest.mark.slow)])
def test_real_buckets_hold_the_ledgers_of_their_spans(testnet: Archives, step: int) -> None:
    """Every entry in every bucket of testnet's checkpoints was last changed in the span that its place says."""
    archive, seen = testnet.each[0], 0
    for ledger in range(63, 10_048, 64 * step):
        digests = archive.checkpoint(ledger).live
        for digest, (first, last) in zip(digests, bucket_spans(ledger), strict=True):
            if digest != bytes(32):
                changed = {number(record, 4) for record in archive.bucket(digest) if record[:4] in (LIVE, INIT)}
                seen += len(changed)
                outside = {at for at in changed if not first <= at <= last}
                assert not outside, (ledger, first, last)

    assert seen > 1000
