"""Sequences of transactions through the deployed code: what our math makes of every state that they lead to."""

from __future__ import annotations

import random

import pytest

from tests.host.blend_judge import Sample, compare
from tests.host.blend_world import Player, World

PARTS = 8
STEPS = 60


def play(world: World, seed: int) -> tuple[int, list[Sample]]:
    """One sequence from the archive's state on: how many steps succeeded, and samples after each of those.

    A sample is taken of every reserve that the step wrote and of one more, some time later; of one of them the
    contract's own totals, too.
    """
    world.restart()
    player = Player(world, seed)
    aside = random.Random(f"samples {seed}")
    succeeded, samples = 0, []
    for number in range(STEPS):
        step = player.step()
        outcome = world.transact(step)
        if outcome.error is None:
            succeeded += 1
            assets = list(dict.fromkeys([*world.touched(outcome), aside.choice(world.assets)]))
            where = f"seed {seed}, step {number} ({step.function})"
            samples += world.samples(player.pause(), where, assets, aside.choice(assets))
    return succeeded, samples


@pytest.mark.parametrize("part", range(PARTS))
def test_every_state_that_transactions_lead_to_is_projected_as_the_contract_does(
    world: World, states: int, part: int
) -> None:
    """Many users, months of time, liquidations, defaults, configurations at their bounds: every field is equal."""
    reached, seed = 0, part
    while reached < states / PARTS:
        succeeded, samples = play(world, seed)
        assert [] == compare(samples)[:10]
        reached += succeeded
        seed += PARTS
