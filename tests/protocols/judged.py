"""What is computed of a pool of plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any

from exporter.protocols import PROTOCOLS
from tests.protocols.world import World


@cache
def names_of(protocol: str) -> Mapping[str, Any]:
    """All that is read of a pool of a protocol: numbers are 0, texts and lists empty, the rest as it was read."""
    empty = {str: "", int: 0, bool: False, NoneType: 0, tuple: ()}
    pools = World(protocol).read().result.pools
    return {name: empty.get(type(value), value) for name, value in pools[0].items()}


def published(protocol: str, row: Mapping[str, Any], time: int) -> dict[str, Any]:
    """What is published of one pool; numbers that are not given are 0."""
    return PROTOCOLS[protocol].project({**names_of(protocol), **row, "close_time": time})


OPERATIONS = ("supply", "withdraw", "borrow", "repay", "liquidate")


def closed(row: Mapping[str, Any]) -> str:
    """What cannot be done with a pool."""
    return " ".join(name for name in OPERATIONS if row[f"can_{name}"] is False)
