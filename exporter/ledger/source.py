"""The source of a ledger: one small interface, served by an RPC client or a snapshot file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from exporter.ledger.codec.scval import ScVal

MAX_KEYS_PER_REQUEST = 200
"""The most keys that ``getLedgerEntries`` takes in a request."""

LATEST_CLOSE_TIME = 253_370_764_799
"""Unix seconds of the end of the year 9998. A later close time is refused, because its time buckets end after 9999."""


@dataclass(frozen=True, slots=True)
class RawEntry:
    """One ledger entry as a source gives it.

    ``data`` is LedgerEntryData XDR. ``last_modified`` is the ledger of the entry's last change. ``live_until`` is
    the last ledger the entry is live at, ``0`` for an archived entry, None for an entry that has no time to live.
    """

    data: bytes
    last_modified: int
    live_until: int | None


@dataclass(frozen=True, slots=True)
class EntriesAnswer:
    """The state of ``asked`` keys after ``ledger`` closed; a key of ``asked`` that is not in ``entries`` is absent.

    Keys are LedgerKey XDR. ``endpoint`` is the label of who said so, fit for a report.
    """

    ledger: int
    asked: tuple[bytes, ...]
    entries: Mapping[bytes, RawEntry]
    endpoint: str


@dataclass(frozen=True, slots=True)
class ContractCall:
    """A read-only call of a contract function. ``contract`` is a strkey, ``arguments`` are ScVals."""

    contract: str
    function: str
    arguments: tuple[ScVal, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulationAnswer:
    """The result of a call at ``ledger``: exactly one of ``result`` (ScVal XDR) and ``error`` is set.

    ``footprint`` holds the LedgerKey XDR of everything the call looked at, found or not; it is empty on an error.
    """

    ledger: int
    result: bytes | None
    error: str | None
    footprint: tuple[bytes, ...]
    endpoint: str


class LedgerSource(Protocol):
    """Something that answers for the newest ledger it has. All failures are `exporter.errors.SourceError`."""

    async def tip(self) -> int:
        """The newest ledger the source says it has."""
        ...

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """Read any number of keys, in one answer or several that together cover all of them."""
        ...

    async def simulate(self, call: ContractCall) -> SimulationAnswer: ...

    async def close_time(self, ledger: int) -> int:
        """The close time of a ledger, in unix seconds."""
        ...
