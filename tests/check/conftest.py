"""What tests of the checker start from."""

from __future__ import annotations

import pytest

from tests.check.trees import Files, good_tree


@pytest.fixture
def files() -> Files:
    return good_tree()
