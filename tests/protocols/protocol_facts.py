"""What the tests of all protocols have to be told of each: one module a protocol in ``tests/protocols/facts``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from exporter.deployments import MARKET
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import AnyPool
from tests.protocols.places import XLM
from tests.protocols.world import Change, World

Calls = list[tuple[str, str, tuple[ScVal, ...]]]
"""Contract, function and arguments of each call."""

Write = tuple[Any, ...]
"""A ledger key, a value, and the path to where it goes: the arguments of `tests.protocols.world.World.put`."""


class PriceAge(NamedTuple):
    """The largest age of a price that a market takes, and whether it takes one of after the ledger."""

    seconds: int
    takes_future: bool = False


class PoolList(NamedTuple):
    """The place of a market's list of pools, a vector of contracts: a ledger key, and the path in the entry."""

    key: bytes
    path: tuple[Any, ...] = ()


class UnreadCase(NamedTuple):
    """A change that leaves one pool of the market unread, a part of the detail, and the reason."""

    change: Change
    detail: str
    reason: str = "undecodable"


class NoticeCase(NamedTuple):
    """A change that leaves this many pools, none of them unread, and parts of the notices that it causes."""

    change: Change
    pools: int
    parts: list[str]


@dataclass(frozen=True, kw_only=True)
class ProtocolFacts:
    """What tests compare a protocol with. "The market" is `tests.protocols.places.MARKET` of the protocol.

    The fields are in the order in which one finds them out: the first are counted in the recording, then comes what the
    contract's source and the protocol's page say, then what the sweeps of the tests ask for by name.
    """

    pools: int
    """The number of recorded pools."""
    dollars: tuple[int, int]
    """The least and the most that all of them hold in the demo, in US dollars (``market_sizes.toml``)."""
    waves: Sequence[int]
    """How many ledger keys each wave of the reader asks for, of everything that is recorded."""
    getters: Callable[[AnyPool], Calls]
    """Every getter of the contracts that is compared for a pool, in the order of the calls."""
    compared_fields: int
    """How many fields the answers in the recording are compared with; 0 if no answer is recorded."""
    admins: Mapping[str, str]
    """Who decides over the market: the names in its instance, each with what people call the role."""
    price_age: PriceAge | None
    """Which age of a price the market takes; None if its rule is more than an age, and has tests of its own."""
    pool_list: PoolList | None
    """The list of the market's pools; None if no entry has such a list."""
    configuration: Sequence[Write]
    """Changes of the configuration. Each gives the market another configuration hash."""
    state: Sequence[Write]
    """Changes of the state. None of them changes the configuration hash."""
    unread: Sequence[UnreadCase]
    """Values that a contract would not have, and that cost one pool."""
    has_lending_shape: bool
    """Whether a census recognises these contracts as a lender's, if it knows no protocol (docs/discovery.md)."""
    notices: Sequence[NoticeCase] = ()
    """A notice names what differs from the lists or the usual contracts, and no readable pool is lost."""
    shared: Mapping[str, str]
    """The names of entries from which several pools are read, each with what it is."""
    unread_together: tuple[str, ...]
    """The names of entries without which several pools are unread."""
    may_be_missing: tuple[str, ...] = ()
    """What may be missing: the contract itself then has another number, and so has the row.

    Where that is not so, the reader has to say that the pool is unread, and the name has no place here.
    """
    has_curve: bool = True
    """Whether the borrow rate follows from the utilization in straight lines."""
    lender_role: str = MARKET
    """The role of the contracts that hold what is lent."""
    named_otherwise: tuple[str, ...] = ()
    """What a reader calls by another name than its key when it cannot be read."""
    token: str = XLM
    """A token of 7 decimals of one of the market's pools."""
    keeps_decimals: bool = True
    """Whether the market's own entries have the decimals of a token."""


@cache
def all_facts() -> Mapping[str, ProtocolFacts]:
    """The facts of each protocol that has a module of them. `missing_facts` has the others."""
    found: dict[str, ProtocolFacts] = {}
    for name in set(PROTOCOLS) - set(missing_facts()):
        found[name] = import_module(f"tests.protocols.facts.{name}").FACTS
    return dict(sorted(found.items()))


def missing_facts() -> list[str]:
    """The protocols that have no module in ``tests/protocols/facts``."""
    return [name for name in PROTOCOLS if find_spec(f"tests.protocols.facts.{name}") is None]


def recorded_pools() -> int:
    """The number of pools of the recorded network."""
    return sum(facts.pools for facts in all_facts().values())


def list_key(protocol: str) -> bytes:
    """The ledger key of the list of the pools of a protocol's market, which has such a list."""
    pool_list = all_facts()[protocol].pool_list
    assert pool_list is not None
    return pool_list.key


def calls_of_market(pool: AnyPool, *functions: str) -> Calls:
    """Calls of functions of a pool's market, about its token."""
    return [(pool.market.address, function, (address(pool.pool),)) for function in functions]


def recorded_list(protocol: str, pool_list: PoolList) -> tuple[ScVal, ...]:
    """The recorded list of a market's pools, which is an entry of its own."""
    value: Any = World(protocol).value(pool_list.key)
    return tuple(value[1])
