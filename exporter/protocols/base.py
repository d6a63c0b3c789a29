"""A protocol: what it gives, and what it says of itself (docs/adding-a-protocol.md).

Everything else of the exporter knows protocols by this alone, and they know nothing of HTTP, files or documents.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from exporter.deployments import Deployment, KnownContract
from exporter.errors import ExactError, lasting
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import encode_scval, symbol
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import Quote
from exporter.ledger.source import ContractCall
from exporter.ledger.storage_rules.host import Rule
from exporter.ledger.tokens import Token
from exporter.ledger.view import LedgerView
from exporter.protocols.numbers import BackstopRow, PoolNumbers, PoolRow, Rewards
from exporter.tables import SHARED, Gate
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
class Coverage:
    """The meaning of a protocol's numbers, for people who compare them with another's; shown at ``/v1/protocols``."""

    title: str
    structure: str
    year_seconds: int
    supply_yield: str
    """How ``supply_apy_bps`` follows from the annual rate, in words."""
    borrow_yield: str
    supply_compounding: str
    """``simple``, or how many times a year the annual rate is compounded."""
    borrow_compounding: str
    rates: str
    """Of which state the rates are."""
    totals: str
    prices: str
    """Where the price comes from, and which prices the market itself refuses."""
    limits: str = ""
    """The parts that are not in the numbers."""


@dataclass(frozen=True, slots=True)
class WithoutPrice:
    """The gates that are closed (False), or not known (None), without a valid price; ``note`` says to whom."""

    gates: Mapping[Gate, bool | None] = field(default_factory=dict)
    note: str = ""


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
    def place(self) -> tuple[str, str]:
        """The market's address and the pool's id."""
        return self.market.address, self.pool

    def identity(self) -> dict[str, Any]:
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
    ``pools`` are those that were read, as `ProtocolModule.project` takes them.
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

    def settle(self, close_time: int) -> None:
        """Bring to a ledger's close time what depends on it without an entry changing; it may be asked again."""


@dataclass(frozen=True, slots=True)
class ComputedPool:
    """A pool as it was read, and its row of the pools frame."""

    pool: AnyPool
    row: PoolRow


Pairs = Mapping[str, tuple[object, object]]
"""By the name of a field: its value as the exporter has it, and as the contract gives it."""


@dataclass(frozen=True, slots=True)
class ViewCall:
    """A call of a view function about a pool."""

    market: str
    pool: str
    call: ContractCall


@dataclass(frozen=True, slots=True)
class NoView:
    """A market that has no view function, and why."""

    market: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One field of a pool, or with ``pool`` None of a contract, as the exporter has it and as the contract gives it."""

    market: str
    pool: str | None
    field: str
    ours: object
    contract: object

    @property
    def agrees(self) -> bool:
        return self.ours == self.contract


class ProtocolViews:
    """The views of a protocol's contracts, for `exporter check --on-chain`. By default nothing is asked."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        """The calls to make, or why there are none, market by market."""
        for market in reading.markets:
            yield NoView(market.address, f"no view function of {reading.protocol} is known")

    def fields(self, asked: ViewCall, value: ScVal, computed: ComputedPool, time: int) -> Pairs:  # noqa: ARG002
        """By name: a field of a pool as the exporter has it, and as the view gives it. Raises `DecodeError`."""
        return {}

    def refused(self, error: str, computed: ComputedPool) -> Pairs:  # noqa: ARG002
        """The same where a call failed because the contract refuses a price. Empty for any other failure."""
        return {}


@dataclass(frozen=True, slots=True)
class RateModel:
    """How a protocol's borrow rate follows from the utilization, in straight lines between knots of its own math.

    ``full`` is a utilization of 100 %; ``knots`` are where one pool's curve bends, of its parameters. ``rate`` is the
    math of a utilization, what ``more`` gives of the pool's row of the pools frame, and the parameters.
    """

    parameters: tuple[str, ...]
    full: int
    knots: Callable[[Mapping[str, int]], Iterable[int]]
    rate: Callable[..., int]
    more: Callable[[Mapping[str, Any]], tuple[int, ...]] = lambda _: ()

    def curve(self, row: Mapping[str, Any], parameters: Mapping[str, int]) -> list[tuple[int, int]]:
        """Utilizations with the rates there: at the knots, now, at none and at all, in the decimals of the row.

        Empty where the math has no result at one of them, or the parameters are not all there.
        """
        if not parameters.keys() >= set(self.parameters):
            return []
        numbers = (*self.more(row), *(parameters[name] for name in self.parameters))
        knots = (min(knot, self.full) for knot in self.knots(parameters))
        places = sorted({0, *knots, self.full, row["accrued_utilization"]})
        with suppress(ExactError):
            return [(place, self.rate(place, *numbers)) for place in places]
        return []


Look = Callable[[bytes], Entry | None]
"""Gives the entry under a LedgerKey."""


class UntriedError(Exception):
    """A contract brought a pool up to date, and what its math also needs is not known."""


@dataclass(frozen=True, slots=True)
class Step:
    """A ledger and its close time: entries before it, after the first change that it made of each, and after all."""

    time: int
    before: Look
    first: Look
    after: Look


@dataclass(frozen=True, slots=True)
class Transition:
    """An accrual in a ledger: what our math gives, and what the contract wrote, by the field compared."""

    compute: Callable[[], Mapping[str, int]]
    """Computes the fields from the numbers before the ledger. Raises `ExactError`."""
    after: Mapping[str, int]
    """What the contract wrote, by field; each of them is among the computed ones."""


@dataclass(frozen=True, slots=True)
class AccrualRule:
    """How a protocol's accruals are known and computed (docs/lake.md).

    Only what an action cannot change is compared, or what the entries show that it did not change.

    ``owns`` says by a key whether its entry may be one; ``read`` gives the transitions that an update of it shows, and
    raises `UntriedError`.
    """

    owns: Callable[[bytes], bool]
    read: Callable[[bytes, Step], Iterator[Transition]]


def is_variant(name: str, values: int = 1) -> Callable[[bytes], bool]:
    """Whether a key is of an enum variant of this name with this number of values."""
    head = (scval.VEC).to_bytes(4, "big") + b"\0\0\0\1" + (1 + values).to_bytes(4, "big") + encode_scval(symbol(name))
    return lambda key: key.startswith(head, 40)


def changed(key: bytes, step: Step) -> tuple[Entry, Entry]:
    """An updated entry before the ledger, and after its first change."""
    before, first = step.before(key), step.first(key)
    assert before is not None  # or it would not be an update
    assert first is not None
    return before, first


class ProtocolModule(ABC):
    """A protocol; docs/adding-a-protocol.md describes each member. What most do without has a default here."""

    name: ClassVar[str]
    coverage: ClassVar[Coverage]
    statuses: ClassVar[Mapping[str, str]]
    pool_statuses: ClassVar[Mapping[str, str]] = {}
    max_price_age: ClassVar[int]
    takes_future_prices: ClassVar[bool] = False
    without_price: ClassVar[WithoutPrice] = WithoutPrice()
    views: ClassVar[ProtocolViews] = ProtocolViews()
    accrual: ClassVar[AccrualRule | None] = None
    storage_rules: ClassVar[Sequence[Rule]] = ()
    market_names: ClassVar[frozenset[str]] = frozenset()
    needs_record: ClassVar[bool] = False
    rate_model: ClassVar[RateModel | None] = None
    publishes_liquidations: ClassVar[bool] = False

    @abstractmethod
    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read the candidates, and name those that the deployments' own contracts list besides. Raises `SourceError`.

        Before pools are read, `exporter.ledger.view.LedgerView.make_room` is told how many there are.
        """

    @abstractmethod
    def project(self, pool: AnyPool, close_time: int) -> PoolNumbers:
        """The numbers of a pool of a reading at the ledger's close time, in unix seconds.

        Terms that a protocol does not give are None. Numbers may be of any size: what is too large for its column is
        published as the column's bound. Raises `ExactError` where the contract's math has no result.
        """

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """The contract code of this protocol's markets, and the version each is; empty where no source has the hash."""
        return {}

    def recorded_market(self, entry: ContractData) -> str | None:  # noqa: ARG002
        """The market that this entry of a factory is the record of; None for other entries."""
        return None

    def pools_kept_by(self, instance: Entry) -> str | None:  # noqa: ARG002
        """The contract whose entries are a market's pools, by the market's instance, where no entry lists them.

        None where the market's own entries list its pools: then a run that is repeated reads all of them. Raises
        `DecodeError`.
        """
        return None

    def pool_list_key(self, market: str) -> bytes | None:  # noqa: ARG002
        """The ledger key of a market's list of its pools, where a market can do without one.

        A run reads such a market's known pools, and nothing on the chain says whether these are all. None where every
        market has a list.
        """
        return None

    def pool_in(self, entry: ContractData) -> str | None:  # noqa: ARG002
        """The pool whose state an entry of the contract of `pools_kept_by` is; None for other entries."""
        return None

    def event_filters(self, deployments: Sequence[Deployment]) -> Sequence[EventFilter]:  # noqa: ARG002
        """The events that name new markets or pools of these deployments; none where the protocol has no such."""
        return ()

    def candidates_in(self, event: ContractEvent) -> Sequence[Candidate]:  # noqa: ARG002
        """The market that an event names. Raises `DecodeError` where it does not have the expected form."""
        return ()

    def liquidations_in(self, event: ContractEvent) -> Sequence[Liquidation]:  # noqa: ARG002
        """The auctions and bad debt in a market's event. Raises `DecodeError`."""
        return ()

    async def complete(self, view: LedgerView, deployments: Sequence[Deployment]) -> Sequence[Deployment]:  # noqa: ARG002
        """The deployments with the contracts that publish events and only the chain names. Raises `SourceError`."""
        return deployments

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """Why a quote is not a valid price under the protocol's own rules at the close time; None when it is."""
        if quote.price is None or quote.timestamp is None:
            return quote.failure or "the oracle gave no price"
        if quote.price <= 0:
            return f"the price is {quote.price}, not above zero"
        age = close_time - quote.timestamp
        if age > self.max_price_age:
            return f"the price is {lasting(age)} old, more than {lasting(self.max_price_age)}"
        if age < 0 and not self.takes_future_prices:
            return f"the price is of {lasting(-age)} after the ledger"
        return None
