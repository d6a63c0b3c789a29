"""The number of examples for properties whose single example takes long."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(fast: int, thorough: int, **options: Any) -> settings:
    """Settings for such a property.

    Args:
        fast: the number of examples in scripts/test.
        thorough: the number with the profile of that name, which scripts/suite random and scripts/suite slow load.
        **options: further settings of Hypothesis.
    """
    is_thorough = settings.get_current_profile_name() == "thorough"
    return settings(max_examples=thorough if is_thorough else fast, **options)
