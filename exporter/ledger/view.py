"""Reading many entries at one ledger, from sources that only know their newest: an optimistic read transaction.

    reading = await read_at_one_ledger(source, program)

``program`` is a function of a `LedgerView`: it asks for keys and calls, derives further keys from what it
gets, and returns what it made of them. It may be run several times, so it must have no side effects. Each round

1. runs the program on what is known, reading what is missing;
2. looks for a ledger inside the interval of every entry and call the program used; if there is one, done;
3. else reads again: first, in one request, the busy keys (one request is one ledger), then the quiet ones that
   are too old for them. A quiet entry read later still covers the earlier ledger, a busy one does not.

If nothing that was used changed, the program's result is valid; otherwise it runs again. Rounds and time are bounded;
at the limit the run fails and nothing is published (docs/decisions.md).

Parts of a program may run as tasks side by side. What they ask for in the same batch, that is before all of them
wait for an answer, goes out in common requests, so that many small readers cost no more than one large one. Calls
wait until no part waits for keys, and go out in bundles, where there is a router; a call that a bundle does not
certify is asked for again alone (docs/decisions.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from exporter.errors import NoCommonLedgerError
from exporter.ledger.codec.entries import names_no_contract
from exporter.ledger.observation import (
    NO_CONTRACT,
    UNCERTIFIED,
    CallObservation,
    CallResult,
    Entry,
    Interval,
    KeyObservation,
)
from exporter.ledger.router import Router, ask_alone
from exporter.ledger.source import MAX_KEYS_PER_REQUEST, ContractCall, LedgerSource, RawEntry, SimulationAnswer

T = TypeVar("T")

STILL_TURNS = 5
"""How many turns of the event loop without a further question mean that every part of the program waits."""

ROUNDS_FOR_BUNDLES = 2
"""In which calls of bundles that are not certain are asked for alone; from then on it is as if there were no router."""


@dataclass(frozen=True, slots=True)
class ViewLimits:
    """Bounds on one read transaction. Where bundles of calls were used it may take `ROUNDS_FOR_BUNDLES` more.

    Of the ledgers that all of it holds for the newest is taken; with ``spacing`` the newest whose number ends a group
    of this many, if there is one, as a checkpoint of history archives ends one of 64.
    """

    max_rounds: int = 12
    max_seconds: float = 300.0
    max_keys: int = 1_000_000
    max_calls: int = 100_000
    spacing: int = 1


"""Why a call of an account, or of a muxed address, has no result; it is not sent."""

READS_AT_THE_END = 3
"""How often everything is read once more, when calls could not be brought to one ledger, until the entries agree."""

_CANNOT_BE_CALLED = ("G", "M", "B", "L", "W")  # how strkeys begin of accounts, muxed addresses, balances and pools


@dataclass(frozen=True, slots=True)
class Certificate:
    """Why the run is the state of ``ledger``: every entry and call it used is known to hold over ``interval``.

    ``newest_change`` and ``oldest_read`` are LedgerKey XDR of one key that sets each end (None: a call does).
    ``uncertified_calls`` had no result known to hold at the ledger; the program was given an error for them.
    """

    ledger: int
    interval: Interval
    rounds: int
    keys: int
    calls: int
    footprint_keys: int
    uncertified_calls: int
    newest_change: bytes | None
    oldest_read: bytes | None


# No repr: `asyncio.run` makes that of what it gives when it puts the signal handlers back, and this has a ledger in it.
@dataclass(frozen=True, slots=True, repr=False)
class Reading(Generic[T]):
    """The result of a program, and the certificate of the ledger it is the state of.

    ``entries`` and ``calls`` are all that the result depends on: entries by LedgerKey XDR, None where there is none,
    and calls with what the program was given for them.
    """

    result: T
    certificate: Certificate
    entries: Mapping[bytes, RawEntry | None] = field(default_factory=dict)
    calls: Mapping[ContractCall, SimulationAnswer] = field(default_factory=dict)


class _Batch:
    """Keys, or calls, that the parts of a program ask for together, the task that asks, and how many wait for it."""

    def __init__(self) -> None:
        self.keys: dict[bytes, None] = {}
        self.calls: dict[ContractCall, None] = {}
        self.questions = 0
        self.waiting = 0
        self.task: asyncio.Task[None] | None = None


class LedgerView:
    """What a program sees of the ledger: entries and calls, remembered with the ledgers they hold for."""

    def __init__(self, source: LedgerSource, limits: ViewLimits | None = None, router: Router | None = None) -> None:
        self._source = source
        self._router = router
        self._limits = limits or ViewLimits()
        self._keys: dict[bytes, KeyObservation] = {}
        self._calls: dict[ContractCall, CallObservation] = {}
        self._used_keys: dict[bytes, None] = {}  # a set that keeps its order, so that runs are reproducible
        self._used_calls: dict[ContractCall, None] = {}
        self._refused_at: int | None = None  # once set, calls not known to hold at this ledger are errors
        self._rounds_for_bundles = 0
        self._changed = True
        self._batches: dict[str, _Batch] = {}
        self._asking: set[asyncio.Task[None]] = set()
        """Those that ask for keys, until they are answered."""

    async def read(self, keys: Iterable[bytes], kept: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        """The entries of LedgerKey XDRs, None where there is none. Ask for the busiest first. Raises `SourceError`.

        ``kept`` are further keys, of entries that their contract never removes: where there is none, there never was.
        """
        never_removed = dict.fromkeys(kept)
        asked = dict.fromkeys(keys) | never_removed
        # Only contracts have data. A key of another address, which anybody can put where a contract's belongs, is not
        # sent: an endpoint that does not know its kind refuses all the keys next to it.
        wanted = {key: None for key in asked if not names_no_contract(key)}
        self._used_keys.update(wanted)
        self._bound(len(self._used_keys), self._limits.max_keys, "ledger keys")
        missing = [key for key in wanted if key not in self._keys]
        if missing:
            try:
                await self._together("keys", missing)
            except BaseException:
                for key in missing:  # a program may go on without them
                    if key not in self._keys:
                        self._used_keys.pop(key, None)
                raise
            self._used_keys.update(wanted)  # also what another part, that failed, has given up
        for key in never_removed:
            if key in wanted:
                self._keys[key].kept = True
        return {key: self._keys[key].entry if key in wanted else None for key in asked}

    async def call(self, calls: Iterable[ContractCall]) -> list[CallResult]:
        """The results of simulated calls, in the order of ``calls``. Raises `SourceError` if the source fails."""
        asked = list(calls)
        wanted = [call for call in asked if not call.contract.startswith(_CANNOT_BE_CALLED)]
        self._used_calls.update(dict.fromkeys(wanted))
        self._bound(len(self._used_calls), self._limits.max_calls, "contract calls")
        missing = [call for call in dict.fromkeys(wanted) if call not in self._calls]
        if missing:
            await self._together("calls", missing)
        known = set(wanted)
        return [self._result(call) if call in known else CallResult(None, NO_CONTRACT, 0) for call in asked]

    def footprint(self, call: ContractCall) -> tuple[bytes, ...]:
        """What a call that was made looked at, as the source says; of calls in one bundle, what all of them did."""
        seen = self._calls.get(call)
        return () if seen is None else seen.answer.footprint

    async def _together(self, kind: str, asked: Sequence[bytes] | Sequence[ContractCall]) -> None:
        """Ask for ``keys`` or ``calls``, along with what other parts of the program ask for before all of them wait.

        Calls wait for keys, so that there are few bundles of them, and keys wait for no calls.
        """
        batch = self._batches.get(kind)
        if batch is None:
            batch = self._batches[kind] = _Batch()
            batch.task = asyncio.create_task(self._send_when_still(batch))
            if kind == "keys":
                self._asking.add(batch.task)
                batch.task.add_done_callback(self._asking.discard)
        assert batch.task is not None  # made with it
        getattr(batch, kind).update(dict.fromkeys(asked))
        batch.questions += 1
        batch.waiting += 1
        try:
            await asyncio.shield(batch.task)  # the others still wait for it when this part is cancelled
        finally:
            batch.waiting -= 1
            if not batch.waiting and not batch.task.done():
                self._end(batch)
                batch.task.cancel()

    async def _send_when_still(self, batch: _Batch) -> None:
        still = 0
        while still < STILL_TURNS:
            questions = batch.questions
            if batch.calls and self._asking:
                await asyncio.wait(self._asking)
                still = 0
            await asyncio.sleep(0)
            still = still + 1 if batch.questions == questions else 0
        self._end(batch)
        await self._fetch(list(batch.keys))
        # A bundle is known to hold at fewer ledgers than its calls; once it is too late for another round, that costs.
        await self._simulate(list(batch.calls), together=self._refused_at is None)

    def _end(self, batch: _Batch) -> None:
        """What is asked from now on goes into other requests."""
        self._batches = {kind: other for kind, other in self._batches.items() if other is not batch}

    def _bound(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise NoCommonLedgerError(f"a run may use {most} {what} at most; what the ledger lists asks for more")

    def _result(self, call: ContractCall) -> CallResult:
        seen = self._calls[call]
        if self._refused_at is not None and seen.binding and self._refused_at not in seen.interval(self._keys):
            return CallResult(None, f"{UNCERTIFIED} at ledger {self._refused_at}", seen.answer.ledger)
        return seen.result()

    async def _fetch(self, keys: list[bytes]) -> None:
        if not keys:
            return
        for answer in await self._source.read_entries(keys):
            for key in answer.asked:
                raw = answer.entries.get(key)
                seen = self._keys.get(key)
                if seen is None:
                    entry = None if raw is None else Entry(key, raw)
                    self._keys[key] = KeyObservation(entry, answer.ledger)
                elif seen.update(key, raw, answer.ledger) and key in self._used_keys:
                    self._changed = True

    async def _simulate(self, calls: list[ContractCall], together: bool = False) -> None:
        """Simulate calls, again where they are known; in bundles if they may be put ``together`` and there is a router.

        What must be asked for again is asked for alone: its own footprint certifies it at more ledgers than a bundle's.
        """
        if together and self._router is not None:
            answers = dict(zip(calls, await self._router.simulate(self._source, calls), strict=True))
        else:
            answers = await ask_alone(self._source, calls)
        for call, answer in answers.items():
            seen = self._calls.get(call)
            if seen is None:
                self._calls[call] = CallObservation(answer)
                continue
            alone = seen.answer.shared and not answer.shared
            if alone and self._router is not None:
                self._router.compare(call, seen.answer, answer)
            if answer.ledger > seen.answer.ledger or (alone and answer.ledger == seen.answer.ledger):
                self._replace_call(call, answer)
        if any(answer.shared for answer in answers.values()):
            self._rounds_for_bundles = ROUNDS_FOR_BUNDLES
        if self._router is not None and self._router.lied:
            tainted = [call for call, seen in self._calls.items() if seen.answer.shared]
            for call, answer in (await ask_alone(self._source, tainted)).items():
                self._replace_call(call, answer)

    def _replace_call(self, call: ContractCall, answer: SimulationAnswer) -> None:
        before = self._calls[call].answer
        self._calls[call] = CallObservation(answer)
        self._changed |= call in self._used_calls and (before.result, before.error) != (answer.result, answer.error)

    def _entries_interval(self) -> Interval:
        first, last = 0, 1 << 32
        for key in self._used_keys:
            interval = self._keys[key].interval
            first, last = max(first, interval.first), min(last, interval.last)
        return Interval(first, last)

    def _binding_calls(self) -> list[CallObservation]:
        return [self._calls[call] for call in self._used_calls if self._calls[call].binding]

    def _common(self) -> Interval:
        common = self._entries_interval()
        for seen in self._binding_calls():
            common = common.intersect(seen.interval(self._keys))
        return common

    def _footprints(self) -> dict[bytes, None]:
        return dict.fromkeys(key for seen in self._binding_calls() for key in seen.answer.footprint)

    async def _read_again(self) -> None:
        """One round of re-reading, busy before quiet, towards a ledger that everything covers."""
        if not self._entries_interval().empty:
            # Only calls made at another ledger are left: what they looked at may close the gap.
            await self._certify_calls(self._entries_interval().last)
            if self._changed or not self._common().empty:
                return
        needed = self._used_keys | self._footprints()
        stale = self._older_than(self._newest_change(), needed)
        busy = [key for key in needed if key in self._keys and self._keys[key].busy]
        # What they looked at changed, or cannot vouch for another ledger.
        again = [
            call for call in self._used_calls if self._calls[call].binding and self._calls[call].must_repeat(self._keys)
        ]
        if again or not stale.isdisjoint(busy):
            busy.sort(key=lambda key: (-self._keys[key].changes, -self._keys[key].interval.first))
            quiet = stale.difference(busy)
            filling = [key for key in needed if key in quiet][: -len(busy) % MAX_KEYS_PER_REQUEST]
            await asyncio.gather(self._fetch(busy + filling), self._simulate(again))
            stale = self._older_than(self._newest_change(), needed)
        await self._fetch([key for key in needed if key in stale])
        if not self._entries_interval().empty:
            await self._certify_calls(self._entries_interval().last)

    def _older_than(self, ledger: int, keys: Iterable[bytes]) -> set[bytes]:
        return {key for key in keys if key not in self._keys or self._keys[key].ledger < ledger}

    def _newest_change(self) -> int:
        """The lowest ledger the run can still be at: nothing that is used may have changed after it."""
        first = self._entries_interval().first
        return max([first, *(seen.interval(self._keys).first for seen in self._binding_calls())])

    async def _certify_calls(self, ledger: int) -> None:
        """Read what calls made at another ledger looked at, where that is not known for both ledgers yet."""
        await self._fetch(self._unknown_between(ledger, self._binding_calls()))

    def _unknown_between(self, ledger: int, calls: Iterable[CallObservation]) -> list[bytes]:
        """The keys to read so that ``ledger`` may be certified for these calls."""
        missing: dict[bytes, None] = {}
        for seen in calls:
            if ledger in seen.interval(self._keys):
                continue
            needed = max(ledger, seen.answer.ledger)
            for key in seen.answer.footprint:
                if key not in self._keys or self._keys[key].ledger < needed:
                    missing[key] = None
        return list(missing)

    async def _certify_alone(self, ledger: int) -> None:
        """Ask alone for what bundles do not certify at ``ledger``; what is certified there stays so.

        The last chance of such calls: bundles are known to hold where none of what all their calls looked at changed.
        """
        lost = [
            call
            for call in self._used_calls
            if self._calls[call].answer.shared and ledger not in self._calls[call].interval(self._keys)
        ]
        if not lost:
            return
        await self._simulate(lost)
        again = self._unknown_between(ledger, [self._calls[call] for call in lost if self._calls[call].binding])
        kept = {key: replace(self._keys[key]) for key in again if key in self._keys}
        await self._fetch(again)
        for key, seen in kept.items():
            # What was seen before is still true, and says of this ledger what the newer answer does not.
            if ledger in seen.interval and ledger not in self._keys[key].interval:
                self._keys[key] = seen

    async def settle(self, program: Callable[[LedgerView], Awaitable[T]]) -> Reading[T]:
        """Run a program until everything it used is the state of one ledger. Raises `NoCommonLedgerError`."""
        deadline = time.monotonic() + self._limits.max_seconds
        result = await self._run(program)
        rounds = 1
        # A program that asks for a key twice at once may see two versions of it, and is out of date when it ends.
        while self._changed or self._common().empty:
            late = time.monotonic() > deadline
            if rounds >= self._limits.max_rounds + self._rounds_for_bundles or late:
                if not late and not self._entries_interval().empty:
                    await self._certify_alone(self._entries_interval().last)
                elif late and self._binding_calls():
                    await self._read_at_the_end()
                return await self._settle_without_calls(program, rounds)
            rounds += 1
            await self._read_again()
            if self._changed:
                result = await self._run(program)
        common = self._common()
        if not self._used_keys and not self._binding_calls():  # nothing was read, which is true of any ledger
            tip = await self._source.tip()
            common = Interval(tip, tip)
        return self._reading(result, self._certificate(common, rounds, 0))

    def _reading(self, result: T, certificate: Certificate) -> Reading[T]:
        """The result with all that it depends on."""
        entries = {key: None if (entry := self._keys[key].entry) is None else entry.raw for key in self._used_keys}
        calls = {}
        for call in self._used_calls:
            answer, given = self._calls[call].answer, self._result(call)
            if given.error is not None:
                answer = replace(answer, result=None, error=given.error)
            calls[call] = answer
        return Reading(result, certificate, entries, calls)

    async def _run(self, program: Callable[[LedgerView], Awaitable[T]]) -> T:
        self._used_keys, self._used_calls, self._changed = {}, {}, False
        return await program(self)

    async def _read_at_the_end(self) -> None:
        """Read all once more, without a call in between: calls that looked at nothing that changed since then hold."""
        for _ in range(READS_AT_THE_END):
            await self._fetch(list(self._used_keys | self._footprints()))
            if not self._entries_interval().empty:
                return

    async def _settle_without_calls(self, program: Callable[[LedgerView], Awaitable[T]], rounds: int) -> Reading[T]:
        """The entries may agree on a ledger although some calls do not: those calls are then without result."""
        interval = self._entries_interval()
        if not interval.empty:
            self._refused_at = interval.last
            result = await self._run(program)
            if not self._changed and interval.last in self._entries_interval():
                refused = sum(interval.last not in seen.interval(self._keys) for seen in self._binding_calls())
                return self._reading(result, self._certificate(Interval(interval.last, interval.last), rounds, refused))
        newest, oldest = self._extremes()
        raise NoCommonLedgerError(
            f"after {rounds} rounds no ledger covers everything that was read: the newest change is at ledger "
            f"{interval.first} (key {newest.hex() if newest else 'none'}), the oldest read at ledger {interval.last} "
            f"(key {oldest.hex() if oldest else 'none'}). Use a faster endpoint or fewer that lag, raise "
            "network.max_in_flight, or run again"
        )

    def _extremes(self) -> tuple[bytes | None, bytes | None]:
        newest = max(self._used_keys, key=lambda key: self._keys[key].interval.first, default=None)
        oldest = min(self._used_keys, key=lambda key: self._keys[key].interval.last, default=None)
        return newest, oldest

    def _certificate(self, interval: Interval, rounds: int, uncertified: int) -> Certificate:
        newest, oldest = self._extremes()
        if newest is not None and self._keys[newest].interval.first < interval.first:
            newest = None
        if oldest is not None and self._keys[oldest].interval.last > interval.last:
            oldest = None
        ledger = interval.last - (interval.last + 1) % self._limits.spacing
        return Certificate(
            ledger=ledger if ledger in interval else interval.last,
            interval=interval,
            rounds=rounds,
            keys=len(self._used_keys),
            calls=len(self._used_calls),
            footprint_keys=len(self._footprints()),
            uncertified_calls=uncertified,
            newest_change=newest,
            oldest_read=oldest,
        )


async def read_at_one_ledger(
    source: LedgerSource,
    program: Callable[[LedgerView], Awaitable[T]],
    limits: ViewLimits | None = None,
    router: Router | None = None,
) -> Reading[T]:
    """Run ``program`` and give its result as the state of one ledger, with the certificate.

    With a ``router`` calls that are asked for together go through it in bundles.

    Raises `NoCommonLedgerError` when the bounds are hit, and any other `SourceError` of the source.
    """
    return await LedgerView(source, limits, router).settle(program)
