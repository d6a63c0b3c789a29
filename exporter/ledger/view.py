"""Reads many entries at one ledger, from sources that only know their newest ledger: an optimistic read transaction.

    reading = await read_at_one_ledger(source, program)

``program`` is a function that takes a `LedgerView`. It asks for keys and calls, derives further keys from the answers,
and returns its result. It may run several times, so it must have no side effects. Each round has three steps:

1. Run the program, and read what is missing.
2. Look for a ledger at which every entry and call that the program used is known to hold. If there is one, the program
   is done.
3. Otherwise read again: first the busy keys, whose entries changed just before they were read, in one request, because
   one request is one ledger. Then the quiet keys that are too old for them. A quiet entry did not change for a while.
   So it holds at the busy keys' ledger even if it is read a few ledgers later.

If nothing that the program used has changed, its result is valid; otherwise it runs again. Rounds and time are bounded.
At the limit the run fails, and nothing is published (docs/decisions.md).

Parts of a program may run as tasks next to each other, and a `Batcher` joins their questions. Readings that must not
decide the ledger are an `Aside`. They share the answers through a `branch` of the view, and in the end they hold at the
program's ledger or they do not. `exporter.ledger.observation` knows at which ledgers each answer holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from exporter.errors import NoCommonLedgerError, SourceError
from exporter.ledger.batches import Batcher
from exporter.ledger.codec.entries import code_holder_key, names_no_contract
from exporter.ledger.observation import EXCLUDED, NO_CONTRACT, UNCERTIFIED, CallResult, Entry, Interval, Observed
from exporter.ledger.source import MAX_KEYS_PER_REQUEST, ContractCall, LedgerSource, RawEntry, SimulationAnswer

T = TypeVar("T")


class ViewLimits(Struct, frozen=True):
    """Bounds on one read transaction.

    If everything holds at several ledgers, the newest is taken. With a ``spacing``, it is the newest one that ends a
    group of so many ledgers, if there is one, as a checkpoint ends a group of 64.
    """

    max_rounds: int = 12
    max_seconds: float = 300.0
    max_keys: int = 1_000_000
    max_calls: int = 100_000
    spacing: int = 1


MAX_ROUNDS_TOGETHER = 3
"""The number of further rounds for readings aside, when the program itself has its ledger."""

_CANNOT_BE_CALLED = ("G", "M", "B", "L", "W")
"""The first letters of the strkeys of accounts, muxed addresses, balances and pools, which are no contracts."""


class Certificate(Struct, frozen=True):
    """The proof that a run is the state of ``ledger``: every entry and call that it used is known to hold at it.

    They hold at every ledger of ``interval``. ``uncertified_calls`` had no result that is known to hold at the ledger,
    so the program got an error for them.
    """

    ledger: int
    interval: Interval
    rounds: int
    keys: int
    calls: int
    footprint_keys: int
    uncertified_calls: int


# The repr has no fields, because `asyncio.run` makes that of its result: here it would be as large as the network.
class Reading(Struct, Generic[T], frozen=True):
    """The result of a program, and the certificate of its ledger.

    ``entries`` and ``calls`` are everything on which the result depends: the entries by LedgerKey XDR, where None means
    that there was none, and the calls with the answers that the program got.
    """

    result: T
    certificate: Certificate
    entries: Mapping[bytes, RawEntry | None] = field(default_factory=dict)
    calls: Mapping[ContractCall, SimulationAnswer] = field(default_factory=dict)

    __repr__ = object.__repr__


class Aside(Protocol):
    """Readings next to a program. They never decide its ledger, raise nothing, and end within ``seconds``."""

    @property
    def seconds(self) -> float | None:
        """The seconds that are left for all readings aside. None if they are not bounded."""
        ...

    async def read(self) -> None:
        """Read what was not read yet, and what has changed since it was read."""
        ...

    def absent_keys(self) -> list[bytes]:
        """The keys that are known to be absent. The program reads them along with its busy keys."""
        ...

    async def read_busy(self) -> None:
        """Read the entries that change often again."""
        ...

    async def holds_at(self, ledger: int) -> bool:
        """Read entries that are too old again. Returns whether everything is then known to hold at the ledger."""
        ...


class LedgerView:
    """A program's view of the ledger. It remembers entries and calls with the ledgers at which they hold.

    ``excluded`` are contracts that are never called.
    """

    def __init__(
        self, source: LedgerSource, limits: ViewLimits | None = None, excluded: Collection[str] = frozenset()
    ) -> None:
        self._source = source
        self._limits = limits or ViewLimits()
        self._observed = Observed(source)
        self._keys = Batcher(self._fetch)
        self._ask_calls: Callable[[list[ContractCall]], Awaitable[None]] = Batcher(self._simulate).ask
        self._excluded = excluded
        self._room: Callable[[int], Awaitable[None]] | None = None
        self._refused_at: int | None = None  # if set, a call that is not known to hold at this ledger is an error

    def branch(self, keys: Batcher[bytes], room: Callable[[int], Awaitable[None]]) -> LedgerView:
        """A view for a program next to this one's. It shares the answers, but has uses of its own.

        ``keys`` sends the keys that several branches ask for. ``room`` is called before a market's pools are read.
        """
        view = LedgerView(self._source, self._limits, self._excluded)
        view._observed = self._observed.branch()
        view._keys, view._room = keys, room
        view._ask_calls = view._simulate  # calls are not joined, so that a slow call delays no other market
        return view

    def batcher(self) -> Batcher[bytes]:
        """A batcher that collects the keys of branches of this view."""
        return Batcher(self._fetch)

    @property
    def observed(self) -> Observed:
        """The observations, with those that this view's program uses."""
        return self._observed

    async def read_early(self, keys: Iterable[bytes], *, alone: bool = False) -> None:
        """Read keys that will probably be asked for later: along with what is asked for now, or ``alone``.

        It does not matter if that fails. Nothing follows from a key that nobody asks for: evidence does not have it.
        """
        missing = [key for key in keys if key not in self._observed.keys]
        if missing:
            with suppress(SourceError):
                await (self._observed.fetch(missing) if alone else self._keys.ask(missing))

    async def make_room(self, pools: int) -> None:
        """Announce how many pools of a market will be read. Raises `NoRoomError` if there are too many."""
        if self._room is not None:
            await self._room(pools)

    async def read(self, keys: Iterable[bytes], never_removed: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        """The entries under LedgerKey XDRs, and None for a key without an entry. Raises `SourceError`.

        Keys that change most often should come first. ``never_removed`` are more keys, of entries that their contract
        never removes. If one of them is absent now, it never existed.
        """
        observed = self._observed
        further = dict.fromkeys(never_removed)
        asked = dict.fromkeys(keys) | further
        # Only contracts have data, but anybody can store another address where a contract's belongs. A key of such an
        # address is not sent, because an endpoint that does not know its kind refuses the whole request.
        wanted = {key: None for key in asked if not names_no_contract(key)}
        missing = [key for key in wanted if key not in observed.keys]
        if missing:
            await self._keys.ask(missing)
        observed.used_keys.update(wanted)
        for key in wanted.keys() & further.keys():
            observed.keys[key].is_never_removed = True
        entries = {key: observed.keys[key].entry if key in wanted else None for key in asked}
        return entries | await self._with_held_code(entries)

    async def _with_held_code(self, entries: Mapping[bytes, Entry | None]) -> dict[bytes, Entry | None]:
        """The instances of contracts whose code another contract holds, each with the entry that says which code."""
        instances: dict[bytes, Entry] = {}
        holder_keys: dict[bytes, bytes] = {}
        for key, entry in entries.items():
            holder_key = None if entry is None else code_holder_key(entry.raw.data)
            if entry is not None and holder_key is not None:
                instances[key], holder_keys[key] = entry, holder_key
        if not instances:
            return {}
        held_entries = await self.read(holder_keys.values())
        completed: dict[bytes, Entry | None] = {}
        for key, instance in instances.items():
            held = held_entries[holder_keys[key]]
            if held is not None:
                completed[key] = replace(instance, held=held.raw)
        return completed

    async def call(self, calls: Iterable[ContractCall]) -> list[CallResult]:
        """The results of simulated calls, in the order of ``calls``. Raises `SourceError` if the source fails."""
        asked = list(calls)
        wanted = await self._simulated(asked)
        self._observed.used_calls.update(wanted)
        return [self._result(call) if call in wanted else CallResult(None, self._refusal(call), 0) for call in asked]

    async def simulate_early(self, calls: Iterable[ContractCall]) -> None:
        """Simulate calls that will probably be asked for later.

        It does not matter if that fails. Nothing follows from a call that nobody asks for: evidence does not have it.
        """
        with suppress(SourceError):
            await self._simulated(calls)

    async def _simulated(self, calls: Iterable[ContractCall]) -> dict[ContractCall, None]:
        """Simulate those calls that were not yet. Returns the calls that may be made at all."""
        wanted = {call: None for call in calls if self._refusal(call) is None}
        missing = [call for call in wanted if call not in self._observed.calls]
        if missing:
            await self._ask_calls(missing)
        return wanted

    def _refusal(self, call: ContractCall) -> str | None:
        """Why a call is never made; None if it is."""
        if call.contract in self._excluded:
            return EXCLUDED
        return NO_CONTRACT if call.contract.startswith(_CANNOT_BE_CALLED) else None

    @property
    def calls_made(self) -> list[ContractCall]:
        """The calls that the program used."""
        return list(self._observed.used_calls)

    def footprint(self, call: ContractCall) -> tuple[bytes, ...]:
        """The LedgerKey XDR of everything that a call looked at; empty if it was not made."""
        seen = self._observed.calls.get(call)
        return () if seen is None else seen.answer.footprint

    async def _fetch(self, keys: list[bytes]) -> None:
        _bound(len(self._observed.keys) + len(keys), self._limits.max_keys, "ledger keys")
        await self._observed.fetch(keys)

    async def _simulate(self, calls: list[ContractCall]) -> None:
        _bound(len(self._observed.calls) + len(calls), self._limits.max_calls, "contract calls")
        await self._observed.simulate(calls)

    def _result(self, call: ContractCall) -> CallResult:
        seen = self._observed.calls[call]
        if self._refused_at is not None and seen.binding and self._refused_at not in seen.interval(self._observed.keys):
            return CallResult(None, f"{UNCERTIFIED} at ledger {self._refused_at}", seen.answer.ledger)
        return seen.result

    async def _read_again(self, aside: Aside | None, *, along: bool) -> None:
        """Read entries again that are too old for the newest change. With ``along``, read busy ones in any case."""
        observed = self._observed
        if not along and not observed.entries_interval().empty:
            # Only calls that were made at another ledger are left. Reading their footprints may close the gap.
            await observed.certify_calls(observed.entries_interval().last)
            if observed.changed or not observed.common().empty:
                return
        needed = observed.used_keys | observed.footprints()
        stale = observed.older_than(observed.newest_change(), needed)
        busy = [key for key in needed if key in observed.keys and observed.keys[key].busy]
        # These calls looked at something that has changed, or that does not hold at another ledger.
        again = [
            call
            for call in observed.used_calls
            if observed.calls[call].binding and observed.calls[call].must_repeat(observed.keys)
        ]
        if along or again or not stale.isdisjoint(busy):
            quiet = stale.difference(busy)
            beside = [] if aside is None else [key for key in aside.absent_keys() if key not in needed]
            together = busy + beside
            filling = [key for key in needed if key in quiet][: -len(together) % MAX_KEYS_PER_REQUEST]
            reading_aside = [] if aside is None else [aside.read_busy()]
            await asyncio.gather(observed.fetch(together + filling), observed.simulate(again), *reading_aside)
            stale = observed.older_than(observed.newest_change(), needed)
        await observed.fetch([key for key in needed if key in stale])
        if not observed.entries_interval().empty:
            await observed.certify_calls(observed.entries_interval().last)

    async def run_until_consistent(
        self, program: Callable[[LedgerView], Awaitable[T]], aside: Aside | None = None
    ) -> Reading[T]:
        """Run a program until everything that it used is the state of one ledger. Raises `NoCommonLedgerError`.

        Readings ``aside`` begin when the program has ended for the first time. If they do not hold at the program's
        ledger, both are read together again. If that does not succeed in time, the first ledger stays.
        """
        observed = self._observed
        deadline = time.monotonic() + self._limits.max_seconds
        result = await self._run(program)
        if aside is not None:
            await aside.read()
        rounds = 1
        # A program that asks for a key twice at the same time may see two versions of it, and must then run again.
        while observed.changed or observed.common().empty:
            late = time.monotonic() > deadline
            if rounds >= self._limits.max_rounds or late:
                reading = await self._run_without_calls(program, rounds)
                if aside is not None:
                    await aside.holds_at(reading.certificate.ledger)
                return reading
            rounds += 1
            await self._read_again(aside, along=False)
            if observed.changed:
                result = await self._run(program)
            if aside is not None:
                await aside.read()
        reading = await self._agreed(result, rounds)
        if aside is None or await aside.holds_at(reading.certificate.ledger):
            return reading
        with suppress(TimeoutError, SourceError):
            async with asyncio.timeout(aside.seconds):
                return await self._run_together(program, result, aside, rounds)
        return reading

    async def _run_together(
        self, program: Callable[[LedgerView], Awaitable[T]], result: T, aside: Aside, rounds: int
    ) -> Reading[T]:
        """Read the busy entries of the program and of the readings aside again, together. Raises `SourceError`."""
        observed = self._observed
        for further in range(1, MAX_ROUNDS_TOGETHER + 1):
            await self._read_again(aside, along=further == 1)
            if observed.changed:
                result = await self._run(program)
            await aside.read()
            if not observed.changed and not observed.common().empty:
                reading = await self._agreed(result, rounds + further)
                await aside.holds_at(reading.certificate.ledger)
                return reading
        raise NoCommonLedgerError("what changes often changed again")

    async def _agreed(self, result: T, rounds: int) -> Reading[T]:
        common = self._observed.common()
        if not self._observed.used_keys and not self._observed.binding_calls():
            # Nothing was read, so the result holds at any ledger.
            tip = await self._source.tip()
            common = Interval(tip, tip)
        return self._reading(result, common, rounds)

    def _reading(self, result: T, interval: Interval, rounds: int, uncertified: int = 0) -> Reading[T]:
        observed = self._observed
        ledger = interval.last - (interval.last + 1) % self._limits.spacing
        certificate = Certificate(
            ledger=ledger if ledger in interval else interval.last,
            interval=interval,
            rounds=rounds,
            keys=len(observed.used_keys),
            calls=len(observed.used_calls),
            footprint_keys=len(observed.footprints()),
            uncertified_calls=uncertified,
        )
        return Reading(result, certificate, *self.used())

    def used(self) -> tuple[dict[bytes, RawEntry | None], dict[ContractCall, SimulationAnswer]]:
        """The entries and calls that the program used, with the answers that it got."""
        observed = self._observed
        entries: dict[bytes, RawEntry | None] = {}
        for key in observed.used_keys:
            entry = observed.keys[key].entry
            entries[key] = None if entry is None else entry.raw
        calls: dict[ContractCall, SimulationAnswer] = {}
        for call in observed.used_calls:
            answer, result = observed.calls[call].answer, self._result(call)
            if result.error is not None:
                answer = replace(answer, result=None, error=result.error)
            calls[call] = answer
        return entries, calls

    def _run(self, program: Callable[[LedgerView], Awaitable[T]]) -> Awaitable[T]:
        self._observed.begin()
        return program(self)

    async def _run_without_calls(self, program: Callable[[LedgerView], Awaitable[T]], rounds: int) -> Reading[T]:
        """End without the calls that do not hold at a ledger on which all entries agree.

        These calls have no result then. Raises `NoCommonLedgerError` if the entries do not agree on a ledger.
        """
        observed = self._observed
        interval = observed.entries_interval()
        if not interval.empty:
            self._refused_at = interval.last
            result = await self._run(program)
            if not observed.changed and interval.last in observed.entries_interval():
                refused = sum(interval.last not in seen.interval(observed.keys) for seen in observed.binding_calls())
                return self._reading(result, Interval(interval.last, interval.last), rounds, refused)
        newest = max(observed.used_keys, key=lambda key: observed.keys[key].interval.first, default=None)
        oldest = min(observed.used_keys, key=lambda key: observed.keys[key].interval.last, default=None)
        asked = len(observed.used_keys)
        changing = sum(observed.keys[key].busy for key in observed.used_keys)
        raise NoCommonLedgerError(
            f"after {rounds} rounds no ledger covers everything that was read: the newest change is at ledger "
            f"{interval.first} (key {newest.hex() if newest else 'none'}), the oldest read at ledger {interval.last} "
            f"(key {oldest.hex() if oldest else 'none'}). {changing:,} of {asked:,} keys were read within two ledgers "
            "of a change. All must be read faster than they change: use a faster endpoint or fewer that lag, raise "
            "network.requests_per_second or network.max_in_flight, read fewer markets, or run again"
        )


def _bound(count: int, most: int, what: str) -> None:
    if count > most:
        raise NoCommonLedgerError(f"a run may use {most} {what} at most; what the ledger lists asks for more")


async def read_at_one_ledger(
    source: LedgerSource,
    program: Callable[[LedgerView], Awaitable[T]],
    limits: ViewLimits | None = None,
    excluded: Collection[str] = frozenset(),
) -> Reading[T]:
    """Run a program, and return its result as the state of one ledger. ``excluded`` are contracts that it cannot call.

    Raises `NoCommonLedgerError` if the bounds are reached, and any other `SourceError` of the source.
    """
    return await LedgerView(source, limits, excluded).run_until_consistent(program)
