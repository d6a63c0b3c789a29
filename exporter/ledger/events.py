"""Contract events, as ``getEvents`` of a Stellar RPC gives them: how new markets are noticed.

Events are hints, not state: a node keeps them for some days only, and nothing ties them to the run's ledger. What
they name is read and verified inside the read transaction like everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.ledger.scval import ScVal


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Events of any of the contracts (strkeys) whose first topics are these symbols; further topics may follow."""

    contracts: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContractEvent:
    """One event: the ``contract`` (strkey) that published it at ``ledger``, its topics and its value."""

    contract: str
    ledger: int
    topics: tuple[ScVal, ...]
    value: ScVal
