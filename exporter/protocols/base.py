"""What every protocol module gives: markets, their pools as read, and what could not be read.

A protocol module gets a `LedgerView` and yields these. It knows nothing of HTTP, files or documents. Adding a
protocol is one module, one test file with its vectors, and one line in `exporter.protocols`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from exporter.deployments import Deployment, KnownContract
from exporter.ledger.events import ContractEvent, EventFilter
from exporter.ledger.oracles import Quote
from exporter.ledger.tokens import Token
from exporter.ledger.view import LedgerView
from exporter.protocols.parameters import Parameter

if TYPE_CHECKING:
    import polars as pl


class Origin(StrEnum):
    """Where a candidate came from; the first that named it counts."""

    CONFIGURATION = "configuration"
    """The operator named it: its absence is a failure."""
    DEPLOYMENT = "deployment"
    """It stands in the package's lists (`exporter.deployments`)."""
    REMEMBERED = "remembered"
    """An earlier run into the same output found it."""
    EVENT = "event"
    """A contract of the protocol published an event that names it."""
    LISTED = "listed"
    """A contract of the protocol lists it, as read in this very run."""
    SNAPSHOT = "snapshot"
    """It is in the ledger snapshot file and runs the code of a known market."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An address that should be a market, or with ``pool`` a pool of it that nothing on the chain lists.

    ``voucher`` is the contract of the protocol (a strkey) that should have a record of it, where that is known.
    """

    protocol: str
    address: str
    origin: Origin = Origin.DEPLOYMENT
    pool: str | None = None
    voucher: str | None = None

    @property
    def demanded(self) -> bool:
        """Whether the operator named it, so that its absence is a failure."""
        return self.origin is Origin.CONFIGURATION


LEARNED = "named by the chain"
"""The source of a contract that no list has."""


def with_contract(deployment: Deployment, role: str, address: str) -> Deployment:
    """A deployment with a contract that the chain itself names, and that no list has."""
    contract = KnownContract(address, role, LEARNED, datetime.date.min)
    return replace(deployment, contracts=(*deployment.contracts, contract))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the numbers of a protocol mean, for people who compare them with another's; shown at ``/v1/protocols``."""

    title: str
    structure: str
    """What is a market, and what a pool of it."""
    year_seconds: int
    """The length of the year that the protocol's annual rates are of."""
    supply_yield: str
    """How ``supply_apy_bps`` follows from the annual rate, in words."""
    borrow_yield: str
    supply_compounding: str
    """``simple`` where ``supply_apy_bps`` is the annual rate itself, or how many times a year that is compounded."""
    borrow_compounding: str
    rates: str
    """Of which state the rates are: stored at the last action, or projected to the ledger's close time."""
    totals: str
    """Of which state the totals are."""
    prices: str
    """Where the price comes from, and which prices the market itself refuses."""
    limits: str = ""
    """What is not in the numbers."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A market (``pool`` None) or pool that exists but could not be read.

    ``reason`` is one of absent, archived, undecodable, inconsistent (entries that contradict each other, or that the
    market's own math divides by zero with) and overflow; ``detail`` says it in full.
    """

    market: str
    pool: str | None
    protocol: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A known address at which the ledger has no contract."""

    market: str
    protocol: str
    reason: str


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


@dataclass(slots=True)
class ProtocolReading:
    """Everything one protocol gave.

    ``columns`` holds the raw state of the pools that were read, one list a column, as `project` takes it; it
    always has market, pool, token_address, oracle (strings or None) and decimals. The rest is the protocol's own.
    ``price_limits`` are the ages in seconds, by market and pool, that the market itself takes a price up to; where it
    has none, the module's rule stands alone.
    ``parameters`` are those of the rate models and limits, by market and pool; they are only shown. ``verified`` has
    for a market the contract of the protocol whose record says that it is genuine; ``contracts`` those contracts of
    deployments, by label and role, that only the chain names. Both are remembered for the next run. ``unknown_code``
    are the markets whose code a notice says to be unknown.
    """

    protocol: str
    markets: list[Market] = field(default_factory=list)
    columns: dict[str, list[object]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    quotes: Mapping[tuple[str, str], Quote] = field(default_factory=dict)
    price_limits: dict[tuple[str, str], int] = field(default_factory=dict)
    parameters: dict[tuple[str, str], tuple[Parameter, ...]] = field(default_factory=dict)
    verified: dict[str, str] = field(default_factory=dict)
    contracts: dict[tuple[str, str], str] = field(default_factory=dict)
    unknown_code: set[str] = field(default_factory=set)


class ProtocolModule(Protocol):
    """The interface of a protocol."""

    name: str
    coverage: Coverage

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """The contract code of this protocol's markets, and the version each is."""
        ...

    def event_filters(self, deployments: Sequence[Deployment]) -> Sequence[EventFilter]:
        """The events that name new markets or pools of these deployments; none where the protocol has no such."""
        ...

    def candidates_in(self, event: ContractEvent) -> Sequence[Candidate]:
        """What an event names. Raises `DecodeError` where it does not have the expected form."""
        ...

    async def read(
        self, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
    ) -> ProtocolReading:
        """Read all markets: the candidates, and those the deployments' own contracts list. Raises `SourceError`."""
        ...

    def project(self, columns: Mapping[str, list[object]], close_time: int) -> pl.DataFrame:
        """The numbers of the pools at the close time, in the columns of `exporter.tables.PROTOCOL_COLUMNS`.

        Raises `ExactError` with the positions of pools for which the contract's math has no result.
        """
        ...

    def price_failure(self, quote: Quote, close_time: int) -> str | None:
        """Why a quote is not a valid price under the protocol's own rules at the close time; None when it is."""
        ...


@runtime_checkable
class CompletesDeployments(Protocol):
    """What a module may offer beside: deployments of which the lists do not have every contract that publishes events.

    It is asked before the events are, hence before the run's ledger is known. What it gives only says where to look;
    the reading itself goes by what it reads.
    """

    async def complete(self, view: LedgerView, deployments: Sequence[Deployment]) -> Sequence[Deployment]:
        """The deployments with the contracts that the chain names. Raises `SourceError`."""
        ...


@runtime_checkable
class EndsByItself(Protocol):
    """What a reading may offer beside: statuses and parameters that depend on the time, as a pause that ends."""

    def settle(self, close_time: int) -> None:
        """Bring them to the close time of the ledger, again and at another time if asked to."""
        ...


class NotAnnounced:
    """The parts of a module of a protocol of whose code no source has the hash, and whose markets no event names."""

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """None."""
        return {}

    def event_filters(self, deployments: Sequence[Deployment]) -> Sequence[EventFilter]:  # noqa: ARG002
        """None."""
        return ()

    def candidates_in(self, event: ContractEvent) -> Sequence[Candidate]:  # noqa: ARG002
        """Nothing: no event is asked for."""
        return ()
