"""An error that a reader did not foresee costs the market it happens in, not the run.

Readers name what they know can be wrong. For the rest (a value that is decoded where nothing catches the error, a
broken assumption, a bug) this finds out which contract it comes from: it reads again with the instances of contracts
*sealed*, that is, as if they could not be decoded, which every reader takes for "this market, or this pool, is unread".
It begins with all of them sealed and unseals what can be unsealed. Entries are not read twice for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from exporter.deployments import Deployment
from exporter.errors import DecodeError, SourceError
from exporter.ledger.codec.entries import is_instance_key
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, ProtocolReading
from exporter.protocols.protocol import Protocol
from exporter.tree.documents import Unread

MAX_ATTEMPTS = 100
"""Readings of one protocol for finding what is broken; beyond that the contracts that are still sealed stay so."""

MAX_DETAIL = 300


def described(error: Exception) -> str:
    """The failure, as the status and the report show it."""
    text = str(error) if isinstance(error, DecodeError) else f"the reader failed: {type(error).__name__}: {error}"
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


async def read_contained(
    protocol: Protocol, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """One protocol's reading. Raises `SourceError`, and nothing else: what goes wrong is unread, and named."""
    sealed: dict[bytes, str] = {}
    asked: dict[bytes, None] = {}
    attempts = 0

    async def attempt(view: LedgerView) -> ProtocolReading | Exception:
        try:
            reading = await protocol.read(view, candidates, deployments)
            reading.archived = await _archived_pools(view, reading)
            return reading
        except SourceError:
            raise
        except Exception as error:
            return error

    async def unseal(contracts: Sequence[bytes]) -> None:
        """Unseal all of these that the reading does not fail over, given what is unsealed already."""
        nonlocal attempts
        if not contracts or attempts >= MAX_ATTEMPTS:
            return
        attempts += 1
        kept = {key: sealed.pop(key) for key in contracts}
        outcome = await attempt(_SealedView(view, sealed, asked))
        if isinstance(outcome, ProtocolReading):
            return
        sealed.update(kept)
        if len(contracts) == 1:
            sealed[contracts[0]] = described(outcome)
        else:  # those asked for first, markets, are unsealed before what they list
            half = len(contracts) // 2
            await unseal(contracts[:half])
            await unseal(contracts[half:])

    first = await attempt(view)
    if isinstance(first, ProtocolReading):
        return first
    watched = _SealedView(view, sealed, asked)
    await attempt(watched)  # notes whose instances are asked for
    contracts = list(asked)
    sealed.update(dict.fromkeys(contracts, described(first)))
    reading = await attempt(watched)
    if isinstance(reading, ProtocolReading):
        await unseal(contracts)
        reading = await attempt(watched)
    if isinstance(reading, ProtocolReading):
        return reading
    # Every market that anything names is unread: what is wrong lies in none of them alone.
    detail = described(reading)
    markets = {candidate.address for candidate in candidates}
    markets = markets or {contract.address for each in deployments for contract in each.contracts}
    notice = f"nothing of {protocol.name} could be read: {detail}"
    unread = [Unread(market, None, protocol.name, "undecodable", detail) for market in sorted(markets)]
    return ProtocolReading(protocol.name, unread=unread, notices=[notice])


async def _archived_pools(view: LedgerView, reading: ProtocolReading) -> set[tuple[str, str]]:
    """Market and pool of those with an archived entry. The reader has asked for all of them: nothing is sent."""
    entries = await view.read(dict.fromkeys(key for keys in reading.entry_keys.values() for key in keys))
    return {
        place
        for place, keys in reading.entry_keys.items()
        if any(entry.archived for key in keys if (entry := entries[key]) is not None)
    }


class _SealedView(LedgerView):
    """Another view, in which some contracts' instances cannot be decoded; it notes which instances are asked for."""

    def __init__(self, view: LedgerView, sealed: Mapping[bytes, str], asked: dict[bytes, None]) -> None:
        self._view = view
        self._sealed = sealed
        self._asked = asked

    async def read(self, keys: Iterable[bytes], kept: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        entries = dict(await self._view.read(keys, kept))
        for key, entry in entries.items():
            if entry is not None and is_instance_key(key):
                self._asked[key] = None
                if key in self._sealed:
                    entries[key] = Entry(key, entry.raw, DecodeError(self._sealed[key]))
        return entries

    async def call(self, calls: Iterable[ContractCall]) -> list[CallResult]:
        return await self._view.call(calls)

    async def make_room(self, pools: int) -> None:
        await self._view.make_room(pools)
