"""Sequences of transactions through the deployed code: what our math makes of every state that they lead to."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.ledger.codec.fields import Fields
from tests.host.blend_judge import Difference, Sample, compare
from tests.host.blend_world import Player, Step, World, sequence_text

PARTS = 8
STEPS = 60
_REPLAYED = os.environ.get("CONTRACT_HOST_REPLAY")


def play(world: World, seed: int) -> tuple[list[Step], int, list[Sample]]:
    """One sequence from the archive's state on: its steps, how many succeeded, and samples after each of those.

    A sample is taken of every reserve that the step wrote and of one more, some time later; of one of them the
    contract's own totals, too.
    """
    world.restart()
    player = Player(world, seed)
    aside = random.Random(f"samples {seed}")
    steps, succeeded, samples = [], 0, []
    for number in range(STEPS):
        step = player.step()
        steps.append(step)
        outcome = world.transact(step)
        if outcome.error is None:
            succeeded += 1
            assets = list(dict.fromkeys([*world.touched(outcome), aside.choice(world.assets)]))
            where = f"seed {seed}, step {number} ({step.function})"
            samples += world.samples(player.pause(), where, assets, aside.choice(assets))
    return steps, succeeded, samples


def repeatable(differences: list[Difference], seed: int, steps: list[Step], folder: Path) -> str:
    """What is wrong, and the sequence that leads there."""
    text = sequence_text(seed, steps)
    path = folder / f"sequence-{seed}.jsonl"
    path.write_text(text + "\n")
    shown = "\n".join(map(str, differences[:10]))
    return f"{shown}\nrepeat it with scripts/test-host --replay {path}; the sequence:\n{text}"


def bounds(sample: Sample) -> Iterator[str]:
    """Which bounds a reserve is at."""
    if sample.answer is None:
        return
    data = Fields.of(sample.answer, "get_reserve").struct("data")
    supplied = data.i128("b_supply") * data.i128("b_rate") // 10**12
    borrowed = -(-data.i128("d_supply") * data.i128("d_rate") // 10**12)
    states = {
        "modifier lowest": data.i128("ir_mod") == 10**6,
        "modifier highest": data.i128("ir_mod") == 10**8,
        "nothing supplied": supplied == 0,
        "nothing borrowed": borrowed == 0,
        "above 95% utilization": supplied * 95 < borrowed * 100,
        "more borrowed than supplied": supplied <= borrowed != 0,
        "supply shares worth less than at first": data.i128("b_rate") < 10**12,
        "debt doubled": data.i128("d_rate") > 2 * 10**12,
    }
    yield from (name for name, holds in states.items() if holds)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_state_that_transactions_lead_to_is_projected_as_the_contract_does(
    world: World, states: int, part: int, tmp_path_factory: pytest.TempPathFactory, count: Callable[[str, int], None]
) -> None:
    """Many users, months of time, liquidations, defaults, configurations at their bounds: every field is equal."""
    reached = 0
    seed = part
    before = dict(world.outcomes)
    while reached < states / PARTS:
        steps, succeeded, samples = play(world, seed)
        compared, differences = compare(samples)
        assert not differences, repeatable(differences, seed, steps, tmp_path_factory.mktemp("sequence"))
        reached += succeeded
        seed += PARTS
        count("transactions run", len(steps))
        count("states compared", succeeded)
        count("calls compared", len(samples))
        count("of these with the contract's totals", sum(sample.free is not None for sample in samples))
        count("fields compared", compared)
        for name, number in Counter(name for sample in samples for name in bounds(sample)).items():
            count(f"reserves at a bound: {name}", number)
    for what, number in world.outcomes.items():
        if what.endswith(" done"):
            count(f"transactions: {what.removesuffix(' done')}", number - before.get(what, 0))

    assert reached >= states / PARTS


def test_the_same_seed_gives_the_same_sequence(world: World) -> None:
    """A sequence that failed somewhere can be played again."""
    assert play(world, 3) == play(world, 3)


def test_a_printed_sequence_leads_to_the_same_state(world: World) -> None:
    """The JSON lines that a failure prints lead to the entries that the failure had."""
    steps, _, _ = play(world, 1)
    expected = dict(world.entries)
    lines = sequence_text(1, steps).splitlines()
    world.restart()
    for line in lines[1:]:
        world.transact(Step.from_json(json.loads(line)))

    assert expected == world.entries


@pytest.mark.skipif(not _REPLAYED, reason="scripts/test-host --replay FILE names a sequence to repeat")
def test_replay(world: World) -> None:
    """Repeats a printed sequence, and compares every reserve after each of its steps."""
    world.restart()
    lines = Path(str(_REPLAYED)).read_text().splitlines()
    samples = []
    for number, line in enumerate(lines[1:]):
        step = Step.from_json(json.loads(line))
        if world.transact(step).error is None:
            for seconds in (0, 5, 3_600, 86_400, 90 * 86_400):
                samples += world.samples(seconds, f"step {number} ({step.function})", world.assets, world.assets[0])
    _, differences = compare(samples)

    assert [] == differences
