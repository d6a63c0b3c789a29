"""The exporter's numbers against the contracts' own view functions, at one ledger, field by field.

The calls are part of the same read transaction as everything else, so both are of one ledger. What depends on the clock
is compared at the close time of the ledger at which a call was made.

The calls that readers make are answered twice: by the RPC's simulation, and from the entries of the same ledger. What
has no rule is counted, not compared. A call that the RPC refused is compared where the contract itself failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from exporter.config import Settings
from exporter.deployments.networks import network_id
from exporter.discovery import DiscoveryContext, discover_context
from exporter.discovery.known_markets import Memory
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.job.known_markets_file import load_memory
from exporter.job.reading import read_protocols, reading_deadline, view_limits
from exporter.job.sources import OpenSource, Source
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.observation import UNCERTIFIED, CallResult, Entry
from exporter.ledger.source import ContractCall, RawEntry
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Compared, NoView, ProtocolReading, Row, ViewCall
from exporter.protocols.compute import compute
from exporter.stores import open_store

MAX_ROUNDS: Final = 24
"""Of reading what the answers from entries still lack; a call that lacks more is not compared."""

_OWN_ERROR: Final = "Error(Contract, "

MAX_OTHER_TIMES = 100
"""How many further clocks are tried to explain differences."""


class RecordingView(LedgerView):
    """Another view, which remembers the calls that were made through it."""

    def __init__(self, view: LedgerView) -> None:
        self._view = view
        self.made: dict[ContractCall, CallResult] = {}

    async def read(self, keys: Iterable[bytes], kept: Iterable[bytes] = ()) -> Mapping[bytes, Entry | None]:
        return await self._view.read(keys, kept)

    async def call(self, calls: Iterable[ContractCall]) -> list[CallResult]:
        asked = list(calls)
        results = await self._view.call(asked)
        self.made |= dict(zip(asked, results, strict=True))
        return results


@dataclass(slots=True)
class StorageRuleComparison:
    """``compared`` calls have an answer from entries, too; ``without`` have none, for these reasons."""

    compared: int = 0
    without: dict[ContractCall, str] = field(default_factory=dict)
    differences: list[Compared] = field(default_factory=list)


class _MissingError(Exception):
    """An entry is asked for that was not read yet."""


async def compare_storage_rules(
    view: LedgerView, made: Mapping[ContractCall, CallResult], close_time: Callable[[int], Awaitable[int]]
) -> StorageRuleComparison:
    """Answer the calls from entries, read through ``view``, and compare. Raises `SourceError` as reading does."""
    comparable = {
        call: result for call, result in made.items() if result.value is not None or _OWN_ERROR in (result.error or "")
    }
    times = {ledger: await close_time(ledger) for ledger in {result.ledger for result in comparable.values()}}
    known: dict[bytes, RawEntry | None] = {}
    missing = dict.fromkeys(key for call in comparable for key in view.footprint(call))
    answers: dict[ContractCall, tuple[ScVal | None, str | None]] = {}

    def read(key: bytes) -> RawEntry | None:
        if key not in known:
            missing[key] = None
            raise _MissingError
        return known[key]

    for _ in range(MAX_ROUNDS):
        known |= {key: None if entry is None else entry.raw for key, entry in (await view.read(missing)).items()}
        missing.clear()
        for call, result in comparable.items():
            if call in answers:
                continue
            try:
                answer = storage_answers(read, result.ledger, times[result.ledger]).answer(call)
            except _MissingError:
                continue
            answers[call] = (None if answer.result is None else decode_scval(answer.result)), answer.error
        if not missing:
            break
    found = StorageRuleComparison()
    for call, result in comparable.items():
        value, error = answers.get(call, (None, f"{NOT_FROM_STORAGE}the entries that it looks at are too many"))
        if error is not None and error.startswith(NOT_FROM_STORAGE):
            found.without[call] = error.removeprefix(NOT_FROM_STORAGE)
            continue
        found.compared += 1
        if value != result.value:
            name = f"{call.function}() from its entries"
            found.differences.append(Compared(call.contract, None, name, value or error, result.value or result.reason))
    return found


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that gave no result, or none that could be compared, and why."""

    market: str
    pools: tuple[str, ...]
    function: str
    reason: str


@dataclass(slots=True)
class ChainCheck:
    """The results of the contracts' views."""

    ledger: int
    compared: int = 0
    pools: int = 0
    differences: list[Compared] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    without: list[NoView] = field(default_factory=list)
    other_clock: list[str] = field(default_factory=list)
    """Markets and pools whose differences all vanish at the time at which the RPC says that it ran the call."""
    by_protocol: Counter[str] = field(default_factory=Counter)
    """How many fields of each protocol were compared."""
    both: StorageRuleComparison = field(default_factory=StorageRuleComparison)
    """The readers' own calls, answered from entries, too; what differs is among ``differences``."""
    notices: list[str] = field(default_factory=list)
    """Problems in finding markets that no list has: some may not have been compared."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "ledger": self.ledger,
            "compared": self.compared,
            "compared_by_protocol": dict(sorted(self.by_protocol.items())),
            "pools": self.pools,
            "differences": len(self.differences),
            "failed": len(self.failed),
            "without_view": len(self.without),
            "calls_from_storage": self.both.compared,
            "calls_not_from_storage": len(self.both.without),
        }


@dataclass(frozen=True, slots=True)
class _Outcome:
    protocol: str
    asked: ViewCall
    result: CallResult


@dataclass(slots=True)
class _Read:
    readings: list[ProtocolReading]
    outcomes: list[_Outcome]
    without: list[NoView]
    both: StorageRuleComparison


async def ask_chain(settings: Settings, source: Source) -> ChainCheck:
    """`check_chain` for the markets that a run into the configured output would find; nothing is written there."""
    async with source.open(settings) as opened:
        memory, notices = None, []
        if settings.discovery.enabled:
            uri = settings.output.uri
            try:
                memory = load_memory(open_store(uri), network_id(settings.passphrase))
            except StoreError as error:
                notices.append(f"markets that only earlier runs into {uri} know are not compared: {error}")
        check = await check_chain(settings, opened, memory)
    check.notices = [*notices, *check.notices]
    return check


async def check_chain(settings: Settings, opened: OpenSource, memory: Memory | None = None) -> ChainCheck:
    """Read all markets and ask their contracts, at one ledger.

    With discovery on, the markets are those a run would find that has this ``memory`` of earlier ones (None: of no
    one), events included. What the events name is noted in it; it is not kept.

    Raises:
        CheckError: not one field could be compared.
        SourceError: the source failed, or no ledger covers everything.
    """

    async with reading_deadline(settings):
        around = None
        if settings.discovery.enabled:
            known = Memory(network_id(opened.network.passphrase)) if memory is None else memory
            around = await discover_context(LedgerView(opened.source), opened.source, opened.network, PROTOCOLS, known)

        async def program(view: LedgerView) -> _Read:
            return await _ask(view, settings, opened, around)

        # Calls cannot be brought to one ledger where ledgers close faster than all of them can be made. A third of the
        # time is for trying; another may pass until the round that is under way ends, and then what holds is compared.
        limits = replace(view_limits(settings), max_seconds=settings.network.read_deadline_seconds / 3)
        reading = await read_at_one_ledger(opened.source, program, limits)
        read = reading.result
        asked_at = {outcome.result.ledger for outcome in read.outcomes}
        times = {ledger: await opened.source.close_time(ledger) for ledger in asked_at}
    check = _compare_all(read, reading.certificate.ledger, times)
    check.notices = [] if around is None else around.notices
    if not check.compared:
        reasons = [item.reason for item in check.failed[:3]] + [item.reason for item in check.without[:3]]
        raise CheckError(f"nothing could be compared with the contracts: {'; '.join(reasons) or 'no market was read'}")
    return check


async def _ask(view: LedgerView, settings: Settings, opened: OpenSource, around: DiscoveryContext | None) -> _Read:
    recording = RecordingView(view)
    readings = await read_protocols(recording, settings, opened, PROTOCOLS, around)
    both = (
        await compare_storage_rules(view, recording.made, opened.source.close_time)
        if opened.whole
        else StorageRuleComparison()
    )
    planned = [
        (reading.protocol, item) for reading in readings for item in PROTOCOLS[reading.protocol].views.calls(reading)
    ]
    without = [item for _, item in planned if isinstance(item, NoView)]
    first = [(name, item) for name, item in planned if isinstance(item, ViewCall)]
    outcomes = await _call(view, first)
    again = [
        (outcome.protocol, item)
        for outcome in outcomes
        if outcome.result.value is None
        for item in outcome.asked.instead
    ]
    outcomes = [item for item in outcomes if item.result.value is not None or not item.asked.instead]
    return _Read(readings, outcomes + await _call(view, again), without, both)


async def _call(view: LedgerView, asked: Sequence[tuple[str, ViewCall]]) -> list[_Outcome]:
    results = await view.call([item.call for _, item in asked])
    return [_Outcome(name, item, result) for (name, item), result in zip(asked, results, strict=True)]


class _Numbers:
    """The exporter's numbers at any time, computed when they are asked for."""

    def __init__(self, readings: Sequence[ProtocolReading], ledger: int) -> None:
        self._readings, self._ledger = readings, ledger
        self._known: dict[int, dict[str, dict[str, Row]]] = {}

    def at(self, time: int, market: str) -> Mapping[str, Row]:
        """The pools of a market as of a time, by id."""
        if time not in self._known:
            self._known[time] = self._compute(time)
        return self._known[time].get(market, {})

    def may_compute(self, time: int) -> bool:
        """Whether the bound on different times allows one more."""
        return time in self._known or len(self._known) < MAX_OTHER_TIMES

    def _compute(self, time: int) -> dict[str, dict[str, Row]]:
        raw = {
            (str(reading.columns["market"][position]), str(reading.columns["pool"][position])): {
                name: values[position] for name, values in reading.columns.items()
            }
            for reading in self._readings
            for position in range(len(reading.columns.get("market", ())))
        }
        rows: dict[str, dict[str, Row]] = {}
        pools = compute(self._readings, PROTOCOLS, self._ledger, time).pools
        for row in pools.iter_rows(named=True):
            rows.setdefault(row["market"], {})[row["pool"]] = row | {"raw": raw[row["market"], row["pool"]]}
        return rows


def _compare_all(read: _Read, ledger: int, times: Mapping[int, int]) -> ChainCheck:
    check = ChainCheck(ledger, without=read.without, both=read.both, differences=list(read.both.differences))
    numbers = _Numbers(read.readings, ledger)
    pools: set[tuple[str, str]] = set()
    for outcome in read.outcomes:
        try:
            compared = list(_compare(outcome, numbers, times[outcome.result.ledger]))
        except DecodeError as error:
            check.failed.append(_failed(outcome, f"the result cannot be understood: {error}"))
            continue
        if not compared:
            check.failed.append(_failed(outcome, outcome.result.reason if outcome.result.value is None else "unread"))
        check.compared += len(compared)
        check.by_protocol[outcome.protocol] += len(compared)
        pools.update((item.market, item.pool) for item in compared if item.pool is not None)
        differences = [item for item in compared if not item.agrees]
        check.differences += differences
        if differences and (clock := _other_clock(outcome, numbers, times[outcome.result.ledger])):
            check.other_clock.append(clock)
    check.pools = len(pools)
    return check


def _compare(outcome: _Outcome, numbers: _Numbers, time: int) -> Iterator[Compared]:
    views, asked, result = PROTOCOLS[outcome.protocol].views, outcome.asked, outcome.result
    rows = numbers.at(time, asked.market)
    if result.value is None:
        yield from views.refused(asked, result.error or "", rows)
        return
    for item in views.compare(asked, result.value, rows, time):
        if not _has_unknown_price(item, rows):
            yield item


def _has_unknown_price(item: Compared, rows: Mapping[str, Row]) -> bool:
    """Whether there is no price of ours only because the call for it is not known to hold at the run's ledger."""
    row = rows.get(item.pool or "")
    priced = item.field in ("oracle_price", "oracle_decimals")
    return priced and row is not None and UNCERTIFIED in (row["price_reason"] or "")


def _other_clock(outcome: _Outcome, numbers: _Numbers, close_time: int) -> str | None:
    """Say whether the only difference is the clock by which the RPC ran the call."""
    value = outcome.result.value
    clock = None if value is None else PROTOCOLS[outcome.protocol].views.time_of(value)
    if clock is None or clock == close_time or not numbers.may_compute(clock):
        return None
    if not all(item.agrees for item in _compare(outcome, numbers, clock)):
        return None
    return (
        f"{outcome.asked.market} {' '.join(outcome.asked.pools)}: the RPC ran the call at time {clock}, but ledger "
        f"{outcome.result.ledger} closed at {close_time}; at that other time all fields agree. RPCs before 27.1 run "
        "calls at the wall clock: use a newer one to compare accrued values"
    )


def _failed(outcome: _Outcome, reason: str) -> Failed:
    return Failed(outcome.asked.market, outcome.asked.pools, outcome.asked.call.function, reason)
