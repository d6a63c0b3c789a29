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
from exporter.protocols.base import Candidate, ProtocolModule, ProtocolReading, Unread

MAX_ATTEMPTS = 100
"""Readings of one protocol for finding what is broken; beyond that the contracts that are still sealed stay so."""

MAX_DETAIL = 300


def described(error: Exception) -> str:
    """The failure, as the status and the report show it."""
    text = str(error) if isinstance(error, DecodeError) else f"the reader failed: {type(error).__name__}: {error}"
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


async def read_contained(
    module: ProtocolModule, view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """One protocol's reading. Raises `SourceError`, and nothing else: what goes wrong is unread, and named."""
    try:
        return await module.read(view, candidates, deployments)
    except SourceError:
        raise
    except Exception as error:
        return await _Search(module, view, candidates, deployments, error).result()


class _Search:
    """The search for the contracts that a reading fails over."""

    def __init__(
        self,
        module: ProtocolModule,
        view: LedgerView,
        candidates: Sequence[Candidate],
        deployments: Sequence[Deployment],
        error: Exception,
    ) -> None:
        self.module, self.view, self.candidates, self.deployments = module, view, candidates, deployments
        self.error = error
        self.asked: dict[bytes, None] = {}
        self.sealed: dict[bytes, str] = {}
        self.attempts = 0

    async def attempt(self, sealed: Mapping[bytes, str]) -> ProtocolReading | Exception:
        """Read with these contracts sealed; gives what the reader raised where it fails."""
        self.attempts += 1
        try:
            return await self.module.read(_SealedView(self.view, sealed, self.asked), self.candidates, self.deployments)
        except SourceError:
            raise
        except Exception as error:
            return error

    async def result(self) -> ProtocolReading:
        """The reading without the markets and pools that it fails over, or without all where that does not help."""
        await self.attempt({})  # notes whose instances are asked for
        contracts = list(self.asked)
        self.sealed = dict.fromkeys(contracts, described(self.error))
        reading = await self.attempt(self.sealed)
        if isinstance(reading, ProtocolReading):
            await self.unseal(contracts)
            reading = await self.attempt(self.sealed)
        if isinstance(reading, ProtocolReading):
            return reading
        return self.nothing(reading)

    async def unseal(self, contracts: Sequence[bytes]) -> None:
        """Unseal all of these that the reading does not fail over, given what is unsealed already."""
        if not contracts or self.attempts >= MAX_ATTEMPTS:
            return
        group = set(contracts)
        outcome = await self.attempt({key: reason for key, reason in self.sealed.items() if key not in group})
        if isinstance(outcome, ProtocolReading):
            for key in contracts:
                del self.sealed[key]
        elif len(contracts) == 1:
            self.sealed[contracts[0]] = described(outcome)
        else:  # those asked for first, markets, are unsealed before what they list
            half = len(contracts) // 2
            await self.unseal(contracts[:half])
            await self.unseal(contracts[half:])

    def nothing(self, error: Exception) -> ProtocolReading:
        """Every market that anything names is unread: what is wrong lies in none of them alone."""
        name, detail = self.module.name, described(error)
        markets = {candidate.address for candidate in self.candidates}
        markets = markets or {contract.address for each in self.deployments for contract in each.contracts}
        notice = f"nothing of {name} could be read: {detail}"
        unread = [Unread(market, None, name, "undecodable", detail) for market in sorted(markets)]
        return ProtocolReading(name, unread=unread, notices=[notice])


class _SealedView(LedgerView):
    """Another view, in which some contracts' instances cannot be decoded; it notes which instances are asked for."""

    def __init__(self, view: LedgerView, sealed: Mapping[bytes, str], asked: dict[bytes, None]) -> None:
        self._view = view
        self._sealed_instances = sealed
        self._asked = asked

    async def read(self, keys: Iterable[bytes], kept: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        entries = dict(await self._view.read(keys, kept))
        for key, entry in entries.items():
            if entry is None or not is_instance_key(key):
                continue
            self._asked[key] = None
            if key in self._sealed_instances:
                entries[key] = Entry(key, entry.raw, DecodeError(self._sealed_instances[key]))
        return entries

    async def call(self, calls: Iterable[ContractCall]) -> list[CallResult]:
        return await self._view.call(calls)
