"""The exporter's numbers against the contracts' own view functions, at one ledger, field by field.

What depends on the clock is compared at the close time of the ledger at which a call was made. The calls that readers
make are answered twice: by the RPC's simulation, and, where there is a rule, from the entries of the same ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from exporter.config import Settings
from exporter.deployments.listing import NOTHING_LISTED
from exporter.deployments.networks import network_id
from exporter.discovery import discover_context
from exporter.discovery.known_markets import Memory
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.job.known_markets_file import load_memory
from exporter.job.reading import read_protocols, reading_deadline, view_limits
from exporter.job.sources import Source
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.observation import UNCERTIFIED, CallResult
from exporter.ledger.source import ContractCall, RawEntry
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import ComputedPool, ProtocolReading
from exporter.protocols.compute import compute
from exporter.protocols.numbers import PoolRow
from exporter.protocols.protocol import Compared, NoView, ViewCall
from exporter.stores import open_store
from exporter.tables import rows_as

MAX_ROUNDS: Final = 24
"""Of reading what the answers from entries still lack; a call that lacks more is not compared."""

_OWN_ERROR: Final = "Error(Contract, "

MAX_OTHER_TIMES = 100
"""How many clocks of an RPC are tried to explain differences."""


@dataclass(slots=True)
class StorageRuleComparison:
    """``compared`` calls have an answer from entries, too; ``without`` have none."""

    compared: int = 0
    without: list[ContractCall] = field(default_factory=list)
    differences: list[Compared] = field(default_factory=list)


class _MissingError(Exception):
    """An entry is asked for that was not read yet."""


async def compare_storage_rules(view: LedgerView, close_time: Callable[[int], Awaitable[int]]) -> StorageRuleComparison:
    """Answer the calls that were made through ``view`` from entries, and compare. Raises `SourceError`."""
    made = view.calls_made
    comparable = {
        call: result
        for call, result in zip(made, await view.call(made), strict=True)
        if result.value is not None or _OWN_ERROR in (result.error or "")
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
        for call in [call for call in comparable if call not in answers]:
            ledger = comparable[call].ledger
            try:
                answer = storage_answers(read, ledger, times[ledger]).answer(call)
            except _MissingError:
                continue
            answers[call] = (None if answer.result is None else decode_scval(answer.result)), answer.error
        if not missing:
            break
    found = StorageRuleComparison()
    for call, result in comparable.items():
        value, error = answers.get(call, (None, NOT_FROM_STORAGE))
        if error is not None and error.startswith(NOT_FROM_STORAGE):
            found.without.append(call)
            continue
        found.compared += 1
        if value != result.value:
            name = f"{call.function}() from its entries"
            found.differences.append(Compared(call.contract, None, name, value or error, result.value or result.reason))
    return found


class Failed(NamedTuple):
    """A call that gave no result, or none that could be compared, and why."""

    market: str
    pool: str
    function: str
    reason: str


@dataclass(slots=True)
class ChainCheck:
    """The results of the contracts' views.

    ``both`` are the readers' own calls, answered from entries, too; what differs is among ``differences``.
    ``other_clock`` names pools whose differences all vanish at the time at which the RPC ran the call. ``notices`` are
    problems in finding markets that no list has: some may not have been compared.
    """

    ledger: int
    without: list[NoView]
    both: StorageRuleComparison
    notices: list[str]
    differences: list[Compared]
    pools: int = 0
    failed: list[Failed] = field(default_factory=list)
    other_clock: list[str] = field(default_factory=list)
    by_protocol: Counter[str] = field(default_factory=Counter)

    @property
    def compared(self) -> int:
        return self.by_protocol.total()

    def as_dict(self) -> dict[str, object]:
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


class _Outcome(NamedTuple):
    protocol: str
    asked: ViewCall
    result: CallResult


class _Read(NamedTuple):
    readings: list[ProtocolReading]
    outcomes: list[_Outcome]
    without: list[NoView]
    both: StorageRuleComparison


async def check_chain(settings: Settings, source: Source) -> ChainCheck:
    """Ask the contracts of listed markets, at one ledger; where none is there, of all that a run would find.

    Raises `SourceError`, `CheckError`.
    """
    notices, context = list[str](), None
    async with source.open(settings) as opened, reading_deadline(settings):
        if settings.discovery.enabled:
            uri, network = settings.output.uri, network_id(settings.passphrase)
            try:
                memory = load_memory(open_store(uri), network)
            except StoreError as error:
                notices.append(f"markets that only earlier runs into {uri} know are not compared: {error}")
                memory = Memory(network)
            context = await discover_context(
                LedgerView(opened.source),
                opened.source,
                opened.network,
                PROTOCOLS,
                memory,
                settings.network.read_deadline.total_seconds(),
            )
            notices += context.notices

        async def program(view: LedgerView) -> _Read:
            # Strangers could end the check with a market that changes at every ledger, or with very many.
            readings = await read_protocols(view, settings, opened, context, listed_alone=True)
            both = StorageRuleComparison()
            if opened.has_all_contracts:
                both = await compare_storage_rules(view, opened.source.close_time)
            planned = [(reading.protocol, item) for reading in readings for item in _planned_calls(reading)]
            without = [item for _, item in planned if isinstance(item, NoView)]
            asked = [(name, item) for name, item in planned if isinstance(item, ViewCall)]
            results = await view.call([item.call for _, item in asked])
            outcomes = [_Outcome(name, item, result) for (name, item), result in zip(asked, results, strict=True)]
            return _Read(readings, outcomes, without, both)

        # Calls cannot be brought to one ledger where ledgers close faster than all of them can be made. A third of the
        # time is for trying; another may pass until the round that is under way ends, and then what holds is compared.
        limits = replace(view_limits(settings), max_seconds=settings.network.read_deadline.total_seconds() / 3)
        reading = await read_at_one_ledger(opened.source, program, limits)
        asked_at = {outcome.result.ledger for outcome in reading.result.outcomes}
        times = {ledger: await opened.source.close_time(ledger) for ledger in asked_at}
    check = _compare_all(reading.result, reading.certificate.ledger, times, notices)
    if not check.compared:
        reasons = [item.reason for item in check.failed[:3]] + [item.reason for item in check.without[:3]]
        raise CheckError(f"nothing could be compared with the contracts: {'; '.join(reasons) or 'no market was read'}")
    return check


def _planned_calls(reading: ProtocolReading) -> Iterator[ViewCall | NoView]:
    """The calls of views to make for a reading, and the markets without one."""
    views = PROTOCOLS[reading.protocol].views
    if views is not None:
        yield from views.calls(reading)
        return
    for market in reading.markets:
        yield NoView(market.address, f"no view function of {reading.protocol} is known")


def rows_at(readings: Sequence[ProtocolReading], ledger: int, time: int) -> dict[str, dict[str, ComputedPool]]:
    """The exporter's pools at a time, by market and id, each as it was read and with its row."""
    pools = {pool.market_and_pool: pool for reading in readings for pool in reading.pools}
    rows: dict[str, dict[str, ComputedPool]] = {}
    for row in rows_as(PoolRow, compute(readings, PROTOCOLS, ledger, time, NOTHING_LISTED).pools):
        rows.setdefault(row["market"], {})[row["pool"]] = ComputedPool(pools[row["market"], row["pool"]], row)
    return rows


def _compare_all(read: _Read, ledger: int, times: Mapping[int, int], notices: list[str]) -> ChainCheck:
    check = ChainCheck(ledger, read.without, read.both, notices, differences=list(read.both.differences))
    numbers: dict[int, dict[str, dict[str, ComputedPool]]] = {}

    def compared_at(outcome: _Outcome, time: int) -> list[Compared]:
        if time not in numbers:
            numbers[time] = rows_at(read.readings, ledger, time)
        return list(compare(outcome, numbers[time].get(outcome.asked.market, {}), time))

    pools: set[tuple[str, str]] = set()
    for outcome in read.outcomes:
        protocol, asked, result = outcome
        time = times[result.ledger]
        reason = result.reason if result.value is None else "unread"
        try:
            compared = compared_at(outcome, time)
        except DecodeError as error:
            compared, reason = [], f"the result cannot be understood: {error}"
        if not compared:
            check.failed.append(Failed(asked.market, asked.pool, asked.call.function, reason))
        check.by_protocol[protocol] += len(compared)
        pools.update((item.market, item.pool) for item in compared if item.pool is not None)
        differences = [item for item in compared if not item.agrees]
        check.differences += differences
        clocks = [item.contract for item in differences if item.field == "accrued_to"]
        for clock in clocks[:1] if len(numbers) < MAX_OTHER_TIMES else ():
            if isinstance(clock, int) and all(item.agrees for item in compared_at(outcome, clock)):
                check.other_clock.append(
                    f"{asked.market} {asked.pool}: the RPC ran the call at time {clock}, but ledger "
                    f"{result.ledger} closed at {time}; at that other time all fields agree. RPCs before 27.1 run "
                    "calls at the wall clock: use a newer one to compare accrued values"
                )
    check.pools = len(pools)
    return check


def compare(outcome: _Outcome, rows: Mapping[str, ComputedPool], time: int) -> Iterator[Compared]:
    """The fields of a result next to ours. Raises `DecodeError`."""
    views, asked, result = PROTOCOLS[outcome.protocol].views, outcome.asked, outcome.result
    row = rows.get(asked.pool)
    if row is None or views is None:
        return
    if result.value is None:
        found = views.refused(result.error or "", row)
    else:
        found = views.fields(asked, result.value, row, time)
    for name, (ours, contract) in found.items():
        # There may be no price of ours only because the call for it is not known to hold at the run's ledger.
        if name != "oracle_price" or UNCERTIFIED not in (row.row["price_reason"] or ""):
            yield Compared(asked.market, asked.pool, name, ours, contract)
