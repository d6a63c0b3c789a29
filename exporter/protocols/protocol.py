"""A protocol is data: plain functions in named groups (docs/adding-a-protocol.md).

A protocol's package makes one `Protocol`. The rest of the exporter knows the protocol only by that object's fields, and
the functions in them know nothing of HTTP, files or documents. A group that a protocol does not need is None.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypedDict

from msgspec import Struct, field

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
"""Reads the candidates, and names more markets that the deployments' own contracts list. Raises `SourceError`.

Before it reads pools, it calls `exporter.ledger.view.LedgerView.make_room` with their number.
"""

Project = Callable[[AnyPool, int], PoolNumbers]
"""Computes the numbers of a pool that was read, at the ledger's close time (unix seconds).

Terms that a protocol does not have are None. A number may have any size; if it is too large for its column, the
column's bound is published. Raises `ExactError` if the contract's math has no result.
"""

PriceFailure = Callable[[Quote, int], str | None]
"""Says why a quote is not a valid price at the close time (unix seconds); None if it is one."""


class WithoutPrice(Struct, frozen=True):
    """What a market refuses without a valid price of a token."""

    gates: Mapping[Gate, bool | None] = field(default_factory=dict)
    """The gates that a missing price closes (False), or whose state is then not known (None)."""
    note: str = ""
    """For whom the gates are closed, if not for everybody."""


class PriceRule(Struct, frozen=True, kw_only=True):
    """Which prices a protocol's markets take, and what they refuse without one."""

    failure: PriceFailure
    """Says why a market would refuse a quote."""
    without_price: WithoutPrice = WithoutPrice()
    """The operations that a market refuses without a price."""


def not_older_than(max_age_seconds: int, *, takes_future: bool = False) -> PriceFailure:
    """The usual rule: a price is above zero and at most this old.

    Its time is not after the ledger's, unless the contract ``takes_future`` prices.
    """

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


class Coverage(Struct, frozen=True):
    """The meaning of a protocol's numbers, for people who compare protocols; shown at ``/v1/protocols``."""

    title: str
    """The protocol's name for people."""
    structure: str
    """What a market and a pool of the protocol are."""
    year_seconds: int
    """The seconds of the year in its annual rates."""
    supply_yield: str
    """How ``supply_apy_bps`` follows from the annual rate, in words."""
    borrow_yield: str
    """How ``borrow_apy_bps`` follows from the annual rate, in words."""
    supply_compounding: str
    """``simple``, or how many times a year the suppliers' annual rate is compounded."""
    borrow_compounding: str
    """``simple``, or how many times a year the borrowers' annual rate is compounded."""
    rates: str
    """Which state the rates follow from: the stored one, or the one at the ledger's close time."""
    totals: str
    """To which time the totals are brought."""
    prices: str
    """Where the price comes from, and which prices the market itself refuses."""
    limits: str = ""
    """What is missing in the numbers."""


class Words(Struct, frozen=True, kw_only=True):
    """What a protocol's numbers and statuses mean, for people."""

    coverage: Coverage
    """What the numbers mean."""
    market_statuses: Mapping[str, str]
    """The meaning of each status of a market, in a sentence."""
    pool_statuses: Mapping[str, str] = field(default_factory=dict)
    """The meaning of each status of a single pool, in a sentence. Empty if pools have no status."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The meaning of parameters in a few words, by their names. A name that says what it is may be missing."""
    reward_price_sources: Mapping[str, str] = field(default_factory=dict)
    """How a reward token is priced that the oracle does not price, for each form of `RewardPrice.source`, in words.

    A source is the form and a contract. In the words, ``{contract}`` and ``{oracle}`` stand for that contract and the
    market's oracle.
    """
    defillama_projects: Mapping[str, str] = field(default_factory=dict)
    """DefiLlama's name of the project for each contract version. A version that is missing has the protocol's name."""


# Discovery.


class MarketEvents(Struct, frozen=True, kw_only=True):
    """Events that name new markets or pools."""

    filters: Callable[[Sequence[Deployment]], Sequence[EventFilter]]
    """Gives the events to ask for. It takes the protocol's deployments."""
    candidates: Callable[[ContractEvent], Sequence[Candidate]]
    """Gives the markets or pools that an event names. Raises `DecodeError` if the event has an unexpected form."""


class PoolEntries(Struct, frozen=True, kw_only=True):
    """Pools that are entries of a contract and that no other entry lists. ``verify --complete`` looks for them."""

    contract: Callable[[Entry], str]
    """Gives the contract whose entries are a market's pools, from the market's instance. Raises `DecodeError`."""
    pool: Callable[[ContractData], str | None]
    """Gives the pool whose state an entry of that contract is; None for other entries."""


CompleteDeployments = Callable[[LedgerView, Sequence[Deployment]], Awaitable[Sequence[Deployment]]]


async def _as_listed(view: LedgerView, deployments: Sequence[Deployment]) -> Sequence[Deployment]:  # noqa: ARG001
    return deployments


class Discovery(Struct, frozen=True, kw_only=True):
    """How markets are found that no list names, and how a census judges whether all were found."""

    market_code: Mapping[bytes, str] = field(default_factory=dict)
    """The SHA-256 of the code that the protocol's markets run, with its version. Empty if no source states a hash."""
    storage_names: frozenset[str] = frozenset()
    """The symbols that are in the storage of every market. A census recognises markets by them."""
    events: MarketEvents | None = None
    """The events that name new markets; None if there are none."""
    complete: CompleteDeployments = _as_listed
    """Adds to the deployments the contracts that publish events or keep records, and that only the chain names.

    Raises `SourceError`.
    """
    recorded_market: Callable[[ContractData], str | None] | None = None
    """Gives the market that a factory's entry records; None for other entries.

    Set it only if every market of the protocol has such a record.
    """
    pool_list_key: Callable[[str], bytes] | None = None
    """Gives the ledger key of a market's list of its pools. Set it only if a market may lack the list.

    Of a market without a list, a run reads the pools that are known, and nothing on the chain says whether these are
    all. ``verify --complete`` reports such a market.
    """
    pool_entries: PoolEntries | None = None
    """How to find the pools of a market that lists none. None if the market's own entries list its pools."""


# Oracles.


class OracleForm(Struct, frozen=True, kw_only=True):
    """A form of oracle whose entries name the contracts that it asks for prices."""

    names: frozenset[str]
    """The names that the instance of an oracle of this form has."""
    sources: tuple[str, ...] = ()
    """The names in its instance under which are the contracts that it asks for every token."""
    token_key: Callable[[str, str], bytes] | None = None
    """Gives the ledger key of the entry that names the contracts it asks for a token. It takes oracle and token."""
    is_read_late: bool = False
    """Whether these entries are read along with the sources of other oracles, which saves a request.

    The code of the contracts that they name is then not watched.
    """


# Getters of contracts.

Pairs = Mapping[str, tuple[object, object]]
"""The value of each field as the exporter has it and as the contract gives it, by the field's name."""


class GetterCall(Struct, frozen=True):
    """A call of a getter about a pool."""

    market: str
    pool: str
    call: ContractCall


class NoGetter(Struct, frozen=True):
    """A market that has no getter, and why."""

    market: str
    reason: str


class Compared(Struct, frozen=True):
    """One field as the exporter has it and as the contract gives it. ``pool`` is None for a field of a contract."""

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


class Getters(Struct, frozen=True, kw_only=True):
    """What a protocol's contracts answer about their pools, for ``exporter check --on-chain``."""

    calls: Callable[[ProtocolReading], Iterator[GetterCall | NoGetter]]
    """Gives the calls to make, and for each market without a getter the reason."""
    fields: Callable[[GetterCall, ScVal, ComputedPool, int], Pairs]
    """Gives the fields in the result of a call, next to the exporter's own at the call's time (unix seconds).

    Raises `DecodeError`.
    """
    refused: Callable[[str, ComputedPool], Pairs] = _no_pairs
    """Gives the fields of a call that failed because the contract refuses a price, from the error's text.

    Empty for other errors.
    """


# Curves of the borrow rate.


class RateRow(TypedDict):
    """The columns of a pool's row from which a curve is computed."""

    accrued_utilization: int
    rate_modifier: int
    rate_modifier_decimals: int


class RateModel(Struct, frozen=True):
    """How a protocol's borrow rate follows from the utilization, in straight lines between kinks of its own math."""

    parameters: tuple[str, ...]
    """The names of the pool's parameters from which the rate follows."""
    full: int
    """The number that is a utilization of 100 %."""
    kinks: Callable[[Mapping[str, int]], Iterable[int]]
    """Gives the utilizations at which a pool's curve bends, from its parameters."""
    rate: Callable[[int, Mapping[str, int], RateRow], int]
    """Gives the rate at a utilization, from the pool's parameters by name and its row of the pools frame.

    Raises `ExactError` if the contract's math has no result.
    """

    def curve(self, row: RateRow, parameters: Mapping[str, int]) -> list[tuple[int, int]]:
        """The curve's points: a utilization and its rate, both in the decimals of the row.

        The utilizations are 0, 100 %, the kinks, and the present one. The curve is empty if the math has no result at
        one of them, or if a parameter is missing.
        """
        if not self._has_all(parameters):
            return []
        kinks = (min(kink, self.full) for kink in self.kinks(parameters))
        utilizations = sorted({0, *kinks, self.full, row["accrued_utilization"]})
        points: list[tuple[int, int]] = []
        for utilization in utilizations:
            rate = self.rate_at(utilization, row, parameters)
            if rate is None:
                return []
            points.append((utilization, rate))
        return points

    def rate_at(self, utilization: int, row: RateRow, parameters: Mapping[str, int]) -> int | None:
        """The rate at a utilization, in the decimals of the row.

        None if the math has no result, or if a parameter is missing.
        """
        if not self._has_all(parameters):
            return None
        with suppress(ExactError):
            return self.rate(utilization, parameters, row)
        return None

    def _has_all(self, parameters: Mapping[str, int]) -> bool:
        return parameters.keys() >= set(self.parameters)


# The protocol.


class Protocol(Struct, frozen=True, kw_only=True):
    """A lending protocol. Only ``name``, ``words``, ``read``, ``project`` and ``prices`` are required."""

    name: str
    """The protocol's name in configuration, lists and documents."""
    words: Words
    """What the protocol's numbers and statuses mean, for people."""
    read: ReadMarkets
    """Reads the markets from the ledger."""
    project: Project
    """Computes a pool's numbers from its state."""
    prices: PriceRule
    """Which prices its markets take."""
    rate_model: RateModel | None = None
    """How the borrow rate follows from the utilization; None if it does not do so in straight lines."""
    discovery: Discovery = Discovery()
    """How markets are found that no list names; empty if every market is in a list."""
    accrual: AccrualRule | None = None
    """How accruals are recognised and compared with the math; None if they are not compared."""
    getters: Getters | None = None
    """The getters of its contracts; None if none is known."""
    liquidations: Callable[[ContractEvent], Sequence[Liquidation]] | None = None
    """Gives the auctions and bad debt in an event of a market; None if markets publish none. Raises `DecodeError`."""
    storage_rules: tuple[Rule, ...] = ()
    """How calls of the protocol's contracts are answered from entries alone."""
    oracle_forms: tuple[OracleForm, ...] = ()
    """The forms of oracles that belong to the protocol, for the report of who is behind prices."""
    positions: PositionRules | None = None
    """How positions are kept and judged. None if that is not known, or if a position is not one entry of the market."""
    no_positions: str = ""
    """The reason why ``positions`` is None, in words; empty if it is not None."""
    moving_pools: MovingPoolsIn | None = None
    """How a simulated network moves its pools; None if they stay as they are."""


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
