"""What a protocol's own contracts say of a market when asked, to hold the exporter's numbers against.

Most contracts have view functions, which compute some of what is published. A protocol that has such says which
calls to make of what was read, and takes their results apart into fields that stand beside the exporter's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.source import ContractCall
from exporter.protocols.base import ProtocolReading

Row = Mapping[str, Any]
"""A pool as the exporter has it: its row of the pools frame, and under ``raw`` its state as it was read."""


@dataclass(frozen=True, slots=True)
class ViewCall:
    """A call of a view function about some pools of a market; ``instead`` are made when it fails."""

    market: str
    pools: tuple[str, ...]
    call: ContractCall
    instead: tuple[ViewCall, ...] = ()


@dataclass(frozen=True, slots=True)
class NoView:
    """A market that no view function tells anything of, and why."""

    market: str
    reason: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One field of a pool, or with ``pool`` None of its market, as the exporter has it and as the contract gives it."""

    market: str
    pool: str | None
    field: str
    ours: object
    contract: object

    @property
    def agrees(self) -> bool:
        """Whether the two are the same."""
        return self.ours == self.contract


class ProtocolViews(Protocol):
    """The views of one protocol."""

    def calls(self, reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
        """The calls to make, or why there are none, market by market."""
        ...

    def compare(self, asked: ViewCall, value: ScVal, rows: Mapping[str, Row], time: int) -> Iterator[Compared]:
        """The fields of a result beside the exporter's.

        ``rows`` are the pools of the market as of ``time`` (unix seconds), by id; a pool that is not among them could
        not be read and is not compared. Raises `DecodeError` when the result is not what the view gives.
        """
        ...

    def refused(self, asked: ViewCall, error: str, rows: Mapping[str, Row]) -> Iterator[Compared]:
        """What a failed call says all the same: that the contract refuses a price. Empty for any other failure."""
        ...

    def time_of(self, value: ScVal) -> int | None:
        """The time at which the contract says that it ran, in unix seconds; None when it does not say."""
        ...
