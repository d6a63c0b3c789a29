"""A protocol is data: plain functions in named groups (docs/adding-a-protocol.md).

A protocol's package makes one `Protocol`. Everything else of the exporter knows the protocol by its fields alone, and
the functions in them know nothing of HTTP, files or documents. A group that a protocol has no use for is None.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypedDict

from exporter.deployments import Deployment
from exporter.errors import ExactError, lasting
from exporter.ledger.codec.entries import ContractData
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import Quote
from exporter.ledger.source import ContractCall
from exporter.ledger.storage_rules.host import Rule
from exporter.ledger.view import LedgerView
from exporter.protocols.accrual import AccrualRule
from exporter.protocols.base import AnyPool, Candidate, ComputedPool, Liquidation, ProtocolReading
from exporter.protocols.movement import MovingPoolsIn
from exporter.protocols.numbers import PoolNumbers
from exporter.protocols.positions import PositionRules
from exporter.tables import Gate

# Reading and projecting: what every protocol has.

ReadMarkets = Callable[[LedgerView, Sequence[Candidate], Sequence[Deployment]], Awaitable[ProtocolReading]]
"""Reads the candidates, and names further markets that the deployments' own contracts list. Raises `SourceError`.

Before it reads pools, it tells `exporter.ledger.view.LedgerView.make_room` how many there are.
"""

Project = Callable[[AnyPool, int], PoolNumbers]
"""The numbers of a pool that was read, at the ledger's close time in unix seconds.

Terms that a protocol does not give are None. Numbers may be of any size: what is too large for its column is published
as the column's bound. Raises `ExactError` if the contract's math has no result.
"""

PriceFailure = Callable[[Quote, int], str | None]
"""Why a quote is not a valid price at the close time (unix seconds); None if it is one."""


@dataclass(frozen=True, slots=True)
class WithoutPrice:
    """What a market refuses without a valid price of a token."""

    gates: Mapping[Gate, bool | None] = field(default_factory=dict)
    """The gates that are closed then (False), or not known (None)."""
    note: str = ""
    """For whom they are closed, if not for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRule:
    """Which prices a protocol's markets take, and what they refuse without one."""

    failure: PriceFailure
    without_price: WithoutPrice = WithoutPrice()


def not_older_than(max_age_seconds: int, *, takes_future: bool = False) -> PriceFailure:
    """The usual rule: a price is above zero, at most this old, and not of after the ledger unless ``takes_future``."""

    def failure(quote: Quote, close_time: int) -> str | None:
        if quote.price is None or quote.timestamp is None:
            return quote.failure or "the oracle gave no price"
        if quote.price <= 0:
            return f"the price is {quote.price}, not above zero"
        age = close_time - quote.timestamp
        if age > max_age_seconds:
            return f"the price is {lasting(age)} old, more than {lasting(max_age_seconds)}"
        if age < 0 and not takes_future:
            return f"the price is of {lasting(-age)} after the ledger"
        return None

    return failure


# Words for people.


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
    """The state that the rates are of."""
    totals: str
    prices: str
    """Where the price comes from, and which prices the market itself refuses."""
    limits: str = ""
    """The parts that are not in the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a protocol's numbers and statuses mean, for people."""

    coverage: Coverage
    market_statuses: Mapping[str, str]
    """The meaning of each status of a market, in a sentence."""
    pool_statuses: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each status of a single pool; empty if pools have none."""
    defillama_projects: Mapping[str, str] = field(default_factory=dict)
    """DefiLlama's name of the project, by contract version. A version without one has the protocol's own name."""


# Discovery.


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketEvents:
    """Events that name new markets or pools."""

    filters: Callable[[Sequence[Deployment]], Sequence[EventFilter]]
    """The events to ask for, given the protocol's deployments."""
    candidates: Callable[[ContractEvent], Sequence[Candidate]]
    """The markets or pools that an event names. Raises `DecodeError` if it does not have the expected form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEntries:
    """For ``verify --complete``: pools that are entries of a contract and that no entry lists."""

    contract: Callable[[Entry], str]
    """The contract whose entries are a market's pools, by the market's instance. Raises `DecodeError`."""
    pool: Callable[[ContractData], str | None]
    """The pool whose state an entry of that contract is; None for other entries."""


CompleteDeployments = Callable[[LedgerView, Sequence[Deployment]], Awaitable[Sequence[Deployment]]]


async def _as_listed(view: LedgerView, deployments: Sequence[Deployment]) -> Sequence[Deployment]:  # noqa: ARG001
    return deployments


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """How markets are found that no list names, and how a census judges whether all were found."""

    market_code: Mapping[bytes, str] = field(default_factory=dict)
    """The SHA-256 of the code of the protocol's markets, and the version each is; empty if no source has a hash."""
    storage_names: frozenset[str] = frozenset()
    """For a census: symbols that the storage of every market has."""
    events: MarketEvents | None = None
    complete: CompleteDeployments = _as_listed
    """Adds to the deployments the contracts that publish events or keep records, and that only the chain names.

    Raises `SourceError`.
    """
    recorded_market: Callable[[ContractData], str | None] | None = None
    """The market that an entry of a factory is the record of; None for other entries.

    A protocol that has this function has no market without such a record.
    """
    pool_list_key: Callable[[str], bytes] | None = None
    """For ``verify --complete``: the ledger key of a market's list of its pools, if a market can do without one.

    A run reads the known pools of a market without a list, and nothing on the chain says whether these are all.
    """
    pool_entries: PoolEntries | None = None
    """None if the markets' own entries list their pools: a run that is repeated then reads all of them."""


# Oracles.


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleForm:
    """A form of oracle whose entries name the contracts that it asks for prices."""

    names: frozenset[str]
    """An oracle is of this form if its instance has all of these names."""
    sources: tuple[str, ...] = ()
    """The names in its instance under which are contracts that it asks for every token."""
    token_key: Callable[[str, str], bytes] | None = None
    """The ledger key of an oracle's entry that names the contracts it asks for a token, given oracle and token."""
    is_read_late: bool = False
    """Whether these entries are read along with the sources of other oracles, which saves a request.

    The code of the contracts that they name is then not watched.
    """


# Views of contracts.

Pairs = Mapping[str, tuple[object, object]]
"""Keyed by the name of a field: its value as the exporter has it, and as the contract gives it."""


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


def _no_pairs(error: str, computed: ComputedPool) -> Pairs:  # noqa: ARG001
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """What a protocol's contracts answer about their pools, for ``exporter check --on-chain``."""

    calls: Callable[[ProtocolReading], Iterator[ViewCall | NoView]]
    """The calls to make, or why there are none, market by market."""
    fields: Callable[[ViewCall, ScVal, ComputedPool, int], Pairs]
    """The fields in the result of a call, next to the exporter's own at the call's time (unix seconds).

    Raises `DecodeError`.
    """
    refused: Callable[[str, ComputedPool], Pairs] = _no_pairs
    """The fields of a call that failed with this error because the contract refuses a price; empty for other errors."""


# Curves of the borrow rate.


class RateRow(TypedDict):
    """What a curve needs of a pool's row of the pools frame."""

    accrued_utilization: int
    rate_modifier: int
    rate_modifier_decimals: int


@dataclass(frozen=True, slots=True)
class RateModel:
    """How a protocol's borrow rate follows from the utilization, in straight lines between knots of its own math."""

    parameters: tuple[str, ...]
    """The names of the pool's parameters that the rate follows from."""
    full: int
    """A utilization of 100 %."""
    knots: Callable[[Mapping[str, int]], Iterable[int]]
    """The utilizations at which a pool's curve bends, from its parameters."""
    rate: Callable[..., int]
    """The rate at a utilization. It takes the utilization, what ``more`` gives, and the parameters."""
    more: Callable[[RateRow], tuple[int, ...]] = lambda _: ()
    """Numbers of the pool's row of the pools frame that the rate also follows from."""

    def curve(self, row: RateRow, parameters: Mapping[str, int]) -> list[tuple[int, int]]:
        """Utilizations with their rates: none, all, the knots, and now. Both have the decimals of the row.

        Empty if the math has no result at one of them, or if a parameter is missing.
        """
        if not self._has_all(parameters):
            return []
        knots = (min(knot, self.full) for knot in self.knots(parameters))
        utilizations = sorted({0, *knots, self.full, row["accrued_utilization"]})
        rates = [self.rate_at(utilization, row, parameters) for utilization in utilizations]
        known = [rate for rate in rates if rate is not None]
        return list(zip(utilizations, known, strict=True)) if len(known) == len(rates) else []

    def rate_at(self, utilization: int, row: RateRow, parameters: Mapping[str, int]) -> int | None:
        """The rate at a utilization, in the decimals of the row; None without a result or if a parameter is missing."""
        if not self._has_all(parameters):
            return None
        with suppress(ExactError):
            return self.rate(utilization, *self.more(row), *(parameters[name] for name in self.parameters))
        return None

    def _has_all(self, parameters: Mapping[str, int]) -> bool:
        return parameters.keys() >= set(self.parameters)


# The protocol.


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A lending protocol. Only ``name``, ``words``, ``read``, ``project`` and ``prices`` are required."""

    name: str
    """Its name in configuration, lists and documents."""
    words: Words
    read: ReadMarkets
    project: Project
    prices: PriceRule
    rate_model: RateModel | None = None
    """None if the borrow rate does not follow from the utilization in straight lines."""
    discovery: Discovery = Discovery()
    """Empty if every market is in a list."""
    accrual: AccrualRule | None = None
    """None if accruals are not compared with the ledger's changes."""
    views: Views | None = None
    """None if no view function is known."""
    liquidations: Callable[[ContractEvent], Sequence[Liquidation]] | None = None
    """The auctions and bad debt in an event of a market. Raises `DecodeError`. None if markets publish none."""
    storage_rules: tuple[Rule, ...] = ()
    """What the protocol's contracts answer, computed from entries alone."""
    oracle_forms: tuple[OracleForm, ...] = ()
    """The forms of oracles that belong to the protocol, for the report of who is behind prices."""
    positions: PositionRules | None = None
    """How positions are kept and judged. None if that is not known, or if a position is not one entry of the market."""
    no_positions: str = ""
    """Why ``positions`` is None, in words; empty if it is not."""
    moving_pools: MovingPoolsIn | None = None
    """For simulated networks: the pools that an entry is of. None if its pools stay as they are there."""


def market_events(protocols: Mapping[str, Protocol]) -> dict[str, MarketEvents]:
    """The events that name new markets, by the name of each protocol that has such events."""
    return {name: item.discovery.events for name, item in protocols.items() if item.discovery.events is not None}


def event_filters(
    protocols: Mapping[str, Protocol], deployments: Iterable[Deployment]
) -> Iterator[tuple[str, EventFilter]]:
    """Every filter of events that name new markets, with the protocol's name."""
    listed = list(deployments)
    for name, events in market_events(protocols).items():
        for each in events.filters([item for item in listed if item.protocol == name]):
            yield name, each
