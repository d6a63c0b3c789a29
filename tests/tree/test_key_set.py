"""A set of very many keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.tree.key_set import KeySet


@given(st.lists(st.text(max_size=3)))
def test_keys_are_a_set(added: list[str]) -> None:
    """Keys know what was added, once each, and nothing else."""
    keys, known = KeySet(), set[str]()
    for key in added:
        assert keys.add(key) is (key not in known)
        known.add(key)
        assert key in keys
        assert len(keys) == len(known)
    assert "never added" not in keys


def test_keys_as_they_grow() -> None:
    """None is lost when there are so many that they need more room, more than once."""
    keys = KeySet()
    for number in range(20_000):
        assert keys.add(f"v1/pages/{number}.json")
    assert len(keys) == 20_000
    for number in range(20_000):
        assert f"v1/pages/{number}.json" in keys
        assert f"v1/pages/{number}.html" not in keys
        assert not keys.add(f"v1/pages/{number}.json")
