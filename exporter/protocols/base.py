"""What every protocol module gives: markets, their pools as read, and what could not be read.

A protocol module gets a `LedgerView` and yields these. It knows nothing of HTTP, files or documents. Adding a
protocol is one module, one test file with its vectors, and one line in `exporter.protocols`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from exporter.ledger.oracles import Quote
from exporter.ledger.tokens import Token
from exporter.ledger.view import LedgerView
from exporter.networks import Deployment
from exporter.protocols.parameters import Parameter

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Candidate:
    """An address that should be a market. ``demanded`` ones were named by the operator: absence is a failure."""

    protocol: str
    address: str
    demanded: bool = False


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
    ``parameters`` are those of the rate models and limits, by market and pool; they are only shown.
    """

    protocol: str
    markets: list[Market] = field(default_factory=list)
    columns: dict[str, list[object]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    quotes: Mapping[tuple[str, str], Quote] = field(default_factory=dict)
    parameters: dict[tuple[str, str], tuple[Parameter, ...]] = field(default_factory=dict)


class ProtocolModule(Protocol):
    """The interface of a protocol."""

    name: str

    def market_wasm_hashes(self) -> Mapping[bytes, str]:
        """The contract code of this protocol's markets, and the version each is."""
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
