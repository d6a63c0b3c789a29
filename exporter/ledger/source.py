"""The interface of a ledger's source. An RPC client, a snapshot file and stored evidence implement it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from exporter.ledger.codec.scval import ScVal

MAX_KEYS_PER_REQUEST = 200
"""The most keys that ``getLedgerEntries`` takes in one request."""

LATEST_CLOSE_TIME = 253_370_764_799
"""The end of the year 9998, in unix seconds. A later close time is refused, because its time buckets end after 9999."""


class RawEntry(Struct, frozen=True):
    """One ledger entry as a source gives it.

    ``data`` is LedgerEntryData XDR. ``last_modified`` is the ledger of the entry's last change. ``live_until`` is the
    last ledger at which the entry is live. It is 0 for an archived entry, and None for an entry that does not expire.
    """

    data: bytes
    last_modified: int
    live_until: int | None


class EntriesAnswer(Struct, frozen=True):
    """The state of the ``asked`` keys after ``ledger`` closed. An asked key that is not in ``entries`` is absent.

    Keys are LedgerKey XDR. ``endpoint`` is the label of who answered, which a report may show.
    """

    ledger: int
    asked: tuple[bytes, ...]
    entries: Mapping[bytes, RawEntry]
    endpoint: str


class ContractCall(Struct, frozen=True):
    """A read-only call of a contract function. ``contract`` is a strkey, ``arguments`` are ScVals."""

    contract: str
    function: str
    arguments: tuple[ScVal, ...] = ()


class SimulationAnswer(Struct, frozen=True):
    """The result of a call at ``ledger``. Either ``result`` (ScVal XDR) or ``error`` is set.

    ``footprint`` has the LedgerKey XDR of everything that the call looked at, found or not. It is empty for an error.
    """

    ledger: int
    result: bytes | None
    error: str | None
    footprint: tuple[bytes, ...]
    endpoint: str


class LedgerSource(Protocol):
    """Something that answers for the newest ledger that it has. All failures are `exporter.errors.SourceError`."""

    async def tip(self) -> int:
        """The newest ledger that the source says it has."""
        ...

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """Read any number of keys. Several answers may together cover all of them."""
        ...

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """Simulate a call at the newest ledger."""
        ...

    async def close_time(self, ledger: int) -> int:
        """The close time of a ledger, in unix seconds."""
        ...


@runtime_checkable
class SimulatesTogether(Protocol):
    """A source that answers several calls with fewer requests than one for each."""

    async def simulate_together(self, calls: Sequence[ContractCall]) -> list[SimulationAnswer]:
        """The answers in the order of the calls. Each is of a ledger of its own."""
        ...
