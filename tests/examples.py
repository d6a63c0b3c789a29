"""How many examples a test takes in scripts/test, and how many in scripts/suite slow, where one example takes long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")


def examples(fast: int, thorough: int, **options: Any) -> settings:
    """Settings for a property.

    Args:
        fast: the number of examples in scripts/test.
        thorough: the number with the profile of that name, which scripts/suite random and scripts/suite slow load.
        **options: further settings of Hypothesis.
    """
    is_thorough = settings.get_current_profile_name() == "thorough"
    return settings(max_examples=thorough if is_thorough else fast, **options)


def strides(fast: int) -> pytest.MarkDecorator:
    """Give a sweep over every case the argument ``stride``: this many in scripts/test, and 1 in the slow tests."""
    return pytest.mark.parametrize("stride", [fast, pytest.param(1, marks=pytest.mark.slow)])


def spread(cases: Sequence[T], stride: int) -> list[T]:
    """The cases at each ``stride``-th position, from the first on, and the last one."""
    return [*cases[: len(cases) - 1 : stride], *cases[-1:]]


def sampled(cases: Iterable[Any], stride: int) -> list[Any]:
    """All cases of a parametrized test, of which `spread` chooses those of scripts/test; the others are slow tests.

    A case with several values is a tuple.
    """
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    chosen = set(spread(range(len(values)), stride))
    return [
        pytest.param(*case, marks=[] if position in chosen else [pytest.mark.slow])
        for position, case in enumerate(values)
    ]
