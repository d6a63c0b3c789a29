"""What a protocol's reader gives: candidates, markets, pools, and everything else of a reading."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from exporter.deployments import Deployment, KnownContract
from exporter.ledger.oracles import Quote
from exporter.ledger.tokens import Token
from exporter.protocols.numbers import BackstopRow, PoolRow, Rewards
from exporter.tables import SHARED
from exporter.tree.documents import Absent, Unread
from exporter.tree.values import RewardReason


class Origin(StrEnum):
    """Where a candidate came from; the first that named it counts."""

    CONFIGURATION = "configuration"
    DEPLOYMENT = "deployment"
    REMEMBERED = "remembered"
    EVENT = "event"
    NAMED_BY_CONTRACT = "contract"
    CENSUS = "census"
    SNAPSHOT = "snapshot"


UNKNOWN_SINCE = 2**32
"""In place of the ledger at which a candidate was first heard of, for one that this run hears of first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An address that should be a market, or with ``pool`` a pool of it that nothing on the chain lists."""

    protocol: str
    address: str
    origin: Origin = Origin.DEPLOYMENT
    pool: str | None = None
    voucher: str | None = None
    """The contract of the protocol that should have a record of it, where that is known."""
    known_since: int = UNKNOWN_SINCE
    """The ledger at which it was first heard of: 0 for one of a list."""

    @property
    def configured(self) -> bool:
        """Whether the operator's configuration names it. Evidence records it; nothing else of the origin is kept."""
        return self.origin is Origin.CONFIGURATION


class Liquidation(NamedTuple):
    """An auction, bad debt or a claim in an event of a market: one of its tokens, or none if it names none.

    ``amount`` is in shares of debt or of supply, or in base units of a backstop's or a reward's token; ``percent`` is
    that of the position put up, or of the auction filled.
    """

    event: str
    auction: str | None = None
    user: str | None = None
    filler: str | None = None
    percent: int | None = None
    side: str | None = None
    token_address: str | None = None
    amount: int | None = None


LEARNED = "named by the chain"
"""The source of a contract that no list has."""


def with_contract(deployment: Deployment, role: str, address: str) -> Deployment:
    """A deployment with a contract that the chain itself names, and that no list has."""
    contract = KnownContract(address, role, LEARNED, datetime.date.min)
    return replace(deployment, contracts=(*deployment.contracts, contract))


@dataclass(frozen=True, slots=True)
class Market:
    """A market as read. ``members`` are the ids of all its pools, read or not; ``config_hash`` is 16 hex digits."""

    address: str
    protocol: str
    version: str
    name: str
    status: str
    oracle: str | None
    config_hash: str
    wasm_hash: str | None
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a rate model, or a limit: ``value`` is to be divided by 10^``decimals``; a yes or no is 1 or 0.

    With ``no_limit`` the contract takes this value to mean that there is no limit.
    """

    name: str
    value: int
    decimals: int
    no_limit: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """A change of terms, admin, code or oracle that is noted and not in effect; of a pool or (None) of the market.

    From ``takes_effect`` (unix seconds) on it can be; None where the contracts give no time.
    """

    market: str
    pool: str | None
    kind: str
    value: str
    takes_effect: int | None = None


class PriceLimits(NamedTuple):
    """Which prices a market itself takes, beyond its protocol's rule; None: as the protocol says.

    ``max_age`` is in seconds; ``decimals`` are those that its oracle has to have.
    """

    max_age: int | None = None
    decimals: int | None = None
    refuses_future: bool = False


NOBODY = "none"
"""The value of a `Held` where there is none."""


@dataclass(frozen=True, slots=True)
class Held:
    """An admin, a code or an oracle of a market: ``subject`` is a role or contract, ``value`` an address or hash."""

    market: str
    kind: str
    subject: str
    value: str


@dataclass(frozen=True, slots=True)
class RewardPrice:
    """One whole reward token is worth ``rate`` / 10^``decimals`` whole tokens of ``priced_in``, which has a price."""

    priced_in: str
    rate: int = 1
    decimals: int = 0
    source: str = ""


State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class PoolRead(Generic[State]):
    """One pool as it was read: where it is, and the state that its protocol's math takes."""

    market: Market
    pool: str
    """The pool's id inside its market."""
    token_address: str
    decimals: int
    """Decimals of the token, as the market computes with them."""
    oracle: str | None
    """The contract that prices the token for this pool; usually the market's."""
    state: State

    @property
    def market_and_pool(self) -> tuple[str, str]:
        """The market's address and the pool's id."""
        return self.market.address, self.pool

    def identity(self) -> dict[str, object]:
        """The columns of `SHARED`."""
        market = self.market
        values = (
            *(market.address, self.pool, self.token_address, self.decimals, market.protocol, market.version),
            *(market.name, market.status, self.oracle, market.wasm_hash),
        )
        return dict(zip(SHARED, values, strict=True))


AnyPool = PoolRead[Any]
"""A pool of whichever protocol."""

NO_REWARDS = Rewards(
    supply_reward_per_second=0,
    borrow_reward_per_second=0,
    reward_decimals=0,
    supply_reward_reason=RewardReason.NONE,
    borrow_reward_reason=RewardReason.NONE,
)
"""The rewards of a protocol whose contracts pay nothing in addition to interest."""


@dataclass(slots=True)
class ProtocolReading:
    """Everything one protocol gave.

    Reasons of ``unread`` are absent, undecodable, overflow, and inconsistent: entries that contradict each other, or
    that the market's own math divides by zero with. ``entry_keys``
    are the ledger keys, by market and pool, of the entries that a pool follows from, instances of its market, token and
    oracle included; ``archived`` are the pools with an archived one among them (`read_contained` finds them), which the
    next call restores (docs/decisions.md, "Absent, archived, unread").
    ``frozen`` says of pools that need a key which the network froze why nothing is possible there.
    ``named`` are markets that the protocol's own contracts name and that were not among the candidates: not read.
    ``pools`` are those that were read, as `exporter.protocols.protocol.Protocol.project` takes them.
    ``price_limits``, by market and pool, say which prices the market itself takes.
    ``parameters``, by market and pool, are only shown. ``verified`` has for a market the contract of the protocol whose
    record says that it is genuine; ``contracts`` those contracts of deployments, by label and role, that only the chain
    names. Both are remembered for the next run. A change of what is ``held`` is reported; ``pending`` is queued.
    ``reward_prices`` say what reward tokens are worth, by market and token; ``tokens`` has these tokens too, and
    ``quotes`` the prices that they hang on. ``backstops``, by market, give the rows of the backstops frame at
    a close time (unix seconds), without the value in US cents.
    """

    protocol: str
    markets: list[Market] = field(default_factory=list)
    pools: list[AnyPool] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    quotes: Mapping[tuple[str, str], Quote] = field(default_factory=dict)
    entry_keys: dict[tuple[str, str], tuple[bytes, ...]] = field(default_factory=dict)
    archived: set[tuple[str, str]] = field(default_factory=set)
    frozen: dict[tuple[str, str], str] = field(default_factory=dict)
    price_limits: dict[tuple[str, str], PriceLimits] = field(default_factory=dict)
    parameters: dict[tuple[str, str], tuple[Parameter, ...]] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    contracts: dict[tuple[str, str], str] = field(default_factory=dict)
    unknown_code: set[str] = field(default_factory=set)
    held: list[Held] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    reward_prices: dict[tuple[str, str], RewardPrice] = field(default_factory=dict)
    backstops: dict[str, Callable[[int], BackstopRow]] = field(default_factory=dict)
    named: list[Candidate] = field(default_factory=list)

    def at_close_time(self, close_time: int) -> None:
        """Bring to a ledger's close time what depends on it without an entry changing; it may be asked again."""


@dataclass(frozen=True, slots=True)
class ComputedPool:
    """A pool as it was read, and its row of the pools frame."""

    pool: AnyPool
    row: PoolRow
