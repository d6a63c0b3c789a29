"""The judge is judged: small changes in our math, each of which the deployed code's answers must expose."""

from __future__ import annotations

import ast
import inspect
import random
from types import ModuleType

import pytest

from exporter.protocols.blend import math
from exporter.protocols.blend.layout import reserve_config_key, reserve_data_key
from tests.host.blend_judge import Sample, compare
from tests.host.blend_world import POOL, World
from tests.host.test_blend_numbers import made_up
from tests.past.archive.archive_snapshot import CheckpointState

MUTATIONS = (
    ("rates_of", "multiply_divide_floor", "multiply_divide_ceil"),
    ("total_liabilities", "multiply_divide_ceil", "multiply_divide_floor"),
    ("utilization", "multiply_divide_ceil", "multiply_divide_floor"),
    ("utilization", "liabilities >= supply", "supply == 0"),
    ("borrow_rate", "utilization <= _STEEP_UTILIZATION", "utilization <= 9000000"),
    ("borrow_rate", "utilization <= target", "utilization <= 5000000"),
    ("borrow_rate", "part = exact.multiply_divide_ceil", "part = exact.multiply_divide_floor"),
    ("borrow_rate", "exact.multiply_divide_ceil(part", "exact.multiply_divide_floor(part"),
    ("borrow_rate", "return exact.multiply_divide_ceil", "return exact.multiply_divide_floor"),
    ("borrow_rate", "modified = exact.multiply_divide_ceil", "modified = exact.multiply_divide_floor"),
    ("borrow_rate", "(r_base + r_one + r_two, ir_mod", "(r_base + r_two, ir_mod"),
    ("accrue", "seconds <= 0", "seconds <= 1"),
    ("accrue", " or stored.utilization == 0", ""),
    ("accrue", " or data.b_supply == 0", ""),
    ("accrue", "d_rate = exact.multiply_divide_ceil", "d_rate = exact.multiply_divide_floor"),
    ("accrue", "exact.subtract(borrowed, stored.borrowed)", "exact.subtract(borrowed, data.d_supply)"),
    ("accrue", "gain <= 0", "gain < 0"),
    ("accrue", "credit = exact.multiply_divide_floor", "credit = exact.multiply_divide_ceil"),
    ("accrue", "b_rate = exact.multiply_divide_floor", "b_rate = exact.multiply_divide_ceil"),
    ("accrue", "gain - credit", "gain"),
    ("next_modifier", "multiply_divide_truncate", "multiply_divide_floor"),
    ("next_modifier", "modifier_scale // 10", "modifier_scale // 20"),
    ("next_modifier", "modifier_scale * 10", "modifier_scale * 20"),
    ("next_modifier", "utilization - target", "utilization"),
    ("loan_accrual", "SECONDS_PER_YEAR", "31557600"),
    ("loan_accrual", "multiply_divide_floor", "multiply_divide_ceil"),
    ("loan_accrual", "multiply_divide_ceil", "multiply_divide_floor"),
)
"""(function, what it has, what is put in its place), in the form that `ast.unparse` gives the source."""


def mutant(function: str, old: str, new: str) -> ModuleType:
    """A copy of `math` in which one thing is different."""
    tree = ast.parse(inspect.getsource(math))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            text = ast.unparse(node)
            assert old in text, f"{function} has changed and {old!r} is not in it any more: adjust the mutation"
            node.body = ast.parse(text.replace(old, new)).body[0].body  # type: ignore[attr-defined]
    module = ModuleType("mutant")
    exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def samples(world: World, archive_state: CheckpointState) -> list[Sample]:
    """States of any numbers."""
    world.restart()
    chance = random.Random(7)
    asset = world.assets[0]
    config, data = (archive_state.entries[key(POOL, asset)] for key in (reserve_config_key, reserve_data_key))
    made = [made_up(world.machine, chance, asset, config, data) for _ in range(600)]
    world.restart()
    return made


@pytest.mark.parametrize(("function", "old", "new"), MUTATIONS, ids=lambda text: str(text)[:60])
def test_a_small_change_in_our_math_is_caught(samples: list[Sample], function: str, old: str, new: str) -> None:
    """Another rounding, bound, condition or term does not give the deployed code's answers any more."""
    differences = compare(samples, mutant(function, old, new))

    assert differences


def test_without_a_change_nothing_differs(samples: list[Sample]) -> None:
    """The same states show no difference to the unchanged math."""
    assert [] == compare(samples)[:5]
    assert [] == compare(samples, mutant("accrue", "gain", "gain"))[:5]
