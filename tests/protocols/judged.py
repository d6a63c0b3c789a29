"""Computes the row of a pool from plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from exporter.protocols import PROTOCOLS
from exporter.protocols.base import AnyPool
from exporter.protocols.compute import row_of
from tests.protocols.world import World


@cache
def plain(protocol: str) -> AnyPool:
    """A pool of a protocol with a plain state: numbers are 0, texts and lists empty, the rest as it was read."""
    pool = World(protocol).read().result.pools[0]
    return replace(pool, state=_plain(pool.state))


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return replace(value, **{name: _plain(getattr(value, name)) for name in value.__struct_fields__})
    empty = {str: "", int: 0, bool: False, NoneType: 0, tuple: ()}
    return empty.get(type(value), value)


OF_POOL = ("pool", "token_address", "decimals", "oracle")
OF_MARKET = ("version", "market_status", "wasm_hash")


def with_numbers(pool: AnyPool, numbers: Mapping[str, Any]) -> AnyPool:
    """A pool with other numbers: columns of its own, or fields of its state or of a part of that, by their names.

    Raises `ValueError` for a name that the pool does not have.
    """
    identity = {name: numbers[name] for name in OF_POOL if name in numbers}
    market = {name.removeprefix("market_"): numbers[name] for name in OF_MARKET if name in numbers}
    unknown = sorted({*numbers} - {*OF_POOL, *OF_MARKET, *names_of(pool.state)})
    if unknown:
        raise ValueError(f"the pool has no {', '.join(unknown)}")
    state = _with(pool.state, numbers)
    return replace(pool, **identity, market=replace(pool.market, **market), state=state)


def names_of(state: Any) -> Iterator[str]:
    """The names of all fields of a state and of its parts."""
    if isinstance(state, Struct):
        for name in state.__struct_fields__:
            yield name
            yield from names_of(getattr(state, name))


def _with(state: Any, numbers: Mapping[str, Any]) -> Any:
    if not isinstance(state, Struct):
        return state
    own = {name: _with(getattr(state, name), numbers) for name in state.__struct_fields__}
    given = {name: value for name, value in numbers.items() if name in own}
    flags = {name: bool(value) for name, value in given.items() if isinstance(own[name], bool)}
    return replace(state, **own | given | flags)


def published(protocol: str, row: Mapping[str, Any], time: int) -> dict[str, Any]:
    """What is published about one pool; numbers that are not given are 0."""
    pool = with_numbers(plain(protocol), row)
    return cast(dict[str, Any], row_of(pool, PROTOCOLS[protocol].project(pool, time)))


OPERATIONS = ("supply", "withdraw", "borrow", "repay", "liquidate")


def closed(row: Mapping[str, Any]) -> str:
    """What cannot be done with a pool."""
    return " ".join(name for name in OPERATIONS if row[f"can_{name}"] is False)
