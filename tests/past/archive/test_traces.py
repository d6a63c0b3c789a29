"""What buckets say about entries that are gone: honest claims are never refused, invented ones never confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random

import pytest

from exporter.ledger.codec.entries import data_key
from exporter.ledger.codec.scval_encode import symbol
from exporter.past.archive.stellar_proof import (
    Entry,
    RefusedError,
    bucket_spans,
    check_entries,
)
from tests.past.archive.bucket_list_model import KEYS, BucketList, Held, Network, data, source
from tests.past.archive.simulated_archive import OTHER

INVENTED = data_key(OTHER, symbol("invented"))


def network(seed: int, checkpoint: int, *, hot: bool) -> Network:
    made = Network(Random(seed), hot=hot)
    for ledger in range(1, checkpoint + 1):
        made.close(ledger)
    return made


@pytest.mark.parametrize("checkpoint", [63, 127, 191, 575])
def test_the_spans_are_those_of_a_bucket_list(checkpoint: int) -> None:
    """If each ledger writes one key, each bucket holds the keys of its span, at every ledger to a checkpoint."""
    buckets = BucketList()
    for ledger in range(1, checkpoint + 1):
        buckets.add(ledger, {b"%d" % ledger: b"LIVE"})
        spans = bucket_spans(ledger)
        found = [sorted(int(key) for key in bucket) for bucket in buckets.buckets()]

        assert [list(range(max(first, 1), last + 1)) for first, last in spans] == found


def test_the_newest_levels_hold_84_ledgers_of_any_checkpoint() -> None:
    """The newest levels have the tombstone of everything that is deleted between a run and its checkpoint."""
    assert {84} == {ledger - bucket_spans(ledger)[5][0] + 1 for ledger in range(127, 10**6, 64)}


def judged(seed: int, checkpoint: int, *, hot: bool) -> Counter[str]:
    """How often each verdict was given on honest claims, none of which is refused, and on forged ones."""
    made, chance = network(seed, checkpoint, hot=hot), Random(seed)
    proven, stored = made.proven(checkpoint)
    read, verdicts = [partial(source, stored)], Counter[str]()
    for at in range(checkpoint - 63, checkpoint + 1):
        for newest in (False, True):
            honest = check_entries(made.claims(at), proven, read, newest)
            verdicts.update({reason: len(keys) for reason, keys in honest.items()})
        for key in KEYS:
            other: Entry | None = made.truth[chance.randrange(1, at + 1)][key]
            if chance.random() < 0.5:
                held = Held(chance.randrange(1000), chance.randrange(1, at + 1), 0, 0)
                other = (data(key, held), held.changed, chance.choice((None, 0, at + 50)))
            true = made.truth[at][key]
            if other == true or (other and true and other == (*true[:2], None) and true[2] != 0):
                continue
            newest = chance.random() < 0.5
            try:
                found = check_entries(made.claims(at, {key: other}), proven, read, newest)
            except RefusedError:
                verdicts["refused"] += 1
            else:
                assert [] == found["confirmed"], (at, key, other, true)
    return verdicts


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("seeds", [(1, 5, 7), pytest.param(range(100), marks=pytest.mark.slow)])
def test_honest_claims_are_never_refused_and_forged_ones_never_confirmed(seeds: Sequence[int], hot: bool) -> None:
    """Whatever lived how short, of every ledger before a checkpoint, with all levels and with the newest."""
    verdicts = Counter[str]()
    for seed in seeds:
        verdicts += judged(seed, 191 if seed % 2 else 127, hot=hot)

    assert {"confirmed", "changed", "not_looked_up", "absent", "short_lived", "refused"} == verdicts.keys()


def test_an_entry_that_never_was_is_refused_unless_it_could_have_gone_without_a_trace() -> None:
    """An invented entry is a contradiction from the last change on that its creator can choose; inside, unproven."""
    checkpoint = 191
    made = network(1, checkpoint, hot=True)
    proven, stored = made.proven(checkpoint)
    read = [partial(source, stored)]
    for at in (checkpoint - before for before in (63, 52, 51, 20, 19, 12, 4, 3, 2, 1)):  # the beginnings of spans
        since = min(next(first for first, _ in bucket_spans(checkpoint) if first <= at + 1), at + 1)
        for last in range(1, at + 1):
            claim: Entry = (b"", last, None)
            for newest in (False, True):
                try:
                    found = check_entries(made.claims(at, {INVENTED: claim}), proven, read, newest)
                except RefusedError as error:
                    verdict = str(error)
                    assert "nothing says that it ever was" in verdict
                    verdict = "refused"
                else:
                    (verdict,) = (reason for reason, keys in found.items() if keys)
                beyond = newest and last < checkpoint - 83
                assert ("not_looked_up" if beyond else "short_lived" if last >= since else "refused") == verdict
