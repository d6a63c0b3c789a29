"""Compares the exporter's numbers with the contracts' own getters, at one ledger and field by field.

Numbers that depend on the clock are compared at the close time of the ledger at which the call was made. The calls that
readers make are answered twice: by the RPC's simulation, and by a storage rule from the entries of the same ledger, if
there is a rule for the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from exporter.config import Settings
from exporter.deployments.listing import NOTHING_LISTED
from exporter.deployments.networks import network_id
from exporter.discovery import DiscoveryContext, discover_context
from exporter.discovery.known_markets import Memory
from exporter.errors import CheckError, DecodeError, StoreError
from exporter.job.exclude import remove_excluded
from exporter.job.known_markets_file import load_memory
from exporter.job.scope_reading import read_protocols, reading_deadline, view_limits
from exporter.job.sources import OpenSource, Source
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.observation import UNCERTIFIED, CallResult
from exporter.ledger.source import ContractCall, RawEntry
from exporter.ledger.view import LedgerView, read_at_one_ledger
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import ComputedPool, ProtocolReading
from exporter.protocols.compute import compute
from exporter.protocols.numbers import PoolFrameRow
from exporter.protocols.protocol import Compared, GetterCall, NoGetter
from exporter.stores import open_store
from exporter.tables import PoolKey, rows_as

MAX_ROUNDS: Final = 24
"""Largest number of rounds in which missing entries are read. A call that needs more rounds is not compared."""

_CONTRACT_ERROR: Final = "Error(Contract, "

MAX_OTHER_TIMES = 100
"""Largest number of other times that are tried to explain differences."""


class StorageRuleComparison(Struct):
    """Answers of calls, compared with what storage rules make of the entries.

    Attributes:
        compared: the number of calls that a storage rule answers.
        without: the calls that no storage rule answers.
        differences: the calls whose two answers differ.
    """

    compared: int = 0
    without: list[ContractCall] = field(default_factory=list)
    differences: list[Compared] = field(default_factory=list)


class _MissingError(Exception):
    """A storage rule asks for an entry that was not read yet."""


async def compare_storage_rules(view: LedgerView, close_time: Callable[[int], Awaitable[int]]) -> StorageRuleComparison:
    """Answer the calls that were made through ``view`` from entries too, and compare the answers.

    Raises `SourceError` if entries cannot be read.
    """
    made = view.calls_made
    comparable = {
        call: result
        for call, result in zip(made, await view.call(made), strict=True)
        if result.value is not None or _CONTRACT_ERROR in (result.error or "")
    }
    times = {ledger: await close_time(ledger) for ledger in {result.ledger for result in comparable.values()}}
    entries: dict[bytes, RawEntry | None] = {}
    missing = dict.fromkeys(key for call in comparable for key in view.footprint(call))
    answers: dict[ContractCall, tuple[ScVal | None, str | None]] = {}

    def read(key: bytes) -> RawEntry | None:
        if key not in entries:
            missing[key] = None
            raise _MissingError
        return entries[key]

    for _ in range(MAX_ROUNDS):
        entries |= {key: None if entry is None else entry.raw for key, entry in (await view.read(missing)).items()}
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
    comparison = StorageRuleComparison()
    for call, result in comparable.items():
        value, error = answers.get(call, (None, NOT_FROM_STORAGE))
        if error is not None and error.startswith(NOT_FROM_STORAGE):
            comparison.without.append(call)
            continue
        comparison.compared += 1
        if value != result.value:
            name = f"{call.function}() from its entries"
            theirs = result.value or result.reason
            comparison.differences.append(Compared(call.contract, None, name, value or error, theirs))
    return comparison


class FailedCall(NamedTuple):
    """A call that gave no result, or no result that could be compared, and the reason."""

    market: str
    pool: str
    function: str
    reason: str


class ChainCheck(Struct):
    """What comparing with the contracts' getters gave.

    Attributes:
        ledger: the ledger at which all were compared.
        without: the markets and pools that have no getter to compare with.
        both: the readers' own calls, compared with storage rules. Their differences are among ``differences``, too.
        notices: problems in finding markets that no list has, so that some markets may not have been compared.
        differences: the fields that differ.
        pools: the number of pools that were compared.
        failed: the calls that gave nothing to compare.
        other_clock: texts that name pools whose differences all vanish at the time at which the RPC ran the call.
        by_protocol: the number of fields that were compared, by protocol.
    """

    ledger: int
    without: list[NoGetter]
    both: StorageRuleComparison
    notices: list[str]
    differences: list[Compared]
    pools: int = 0
    failed: list[FailedCall] = field(default_factory=list)
    other_clock: list[str] = field(default_factory=list)
    by_protocol: Counter[str] = field(default_factory=Counter)

    @property
    def compared(self) -> int:
        """The number of fields that were compared."""
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
    """A call of a getter, and its result."""

    protocol: str
    asked: GetterCall
    result: CallResult


class _ChainReading(NamedTuple):
    """What was read at one ledger, to be compared."""

    readings: list[ProtocolReading]
    outcomes: list[_Outcome]
    without: list[NoGetter]
    both: StorageRuleComparison


async def check_chain(settings: Settings, source: Source) -> ChainCheck:
    """Compare the numbers of listed markets with their contracts, at one ledger.

    If discovery is on, the markets are looked for as a run does. Raises `SourceError` if they cannot be read, and
    `CheckError` if nothing could be compared.
    """
    async with source.open(settings) as opened, reading_deadline(settings):
        context, notices = await _discover(settings, opened)
        # If ledgers close faster than all calls can be made, the calls cannot be brought to one ledger. Trying ends
        # after a third of the time, because the round that is under way may need another third. Then what holds is
        # compared.
        limits = replace(view_limits(settings), max_seconds=settings.network.read_deadline.total_seconds() / 3)
        reading = await read_at_one_ledger(
            opened.source, lambda view: _read_and_call(view, settings, opened, context), limits, settings.exclude
        )
        asked_at = {outcome.result.ledger for outcome in reading.result.outcomes}
        times = {ledger: await opened.source.close_time(ledger) for ledger in asked_at}
    check = _compare_all(reading.result, reading.certificate.ledger, times, notices)
    if not check.compared:
        reasons = [item.reason for item in check.failed[:3]] + [item.reason for item in check.without[:3]]
        raise CheckError(f"nothing could be compared with the contracts: {'; '.join(reasons) or 'no market was read'}")
    return check


async def _discover(settings: Settings, opened: OpenSource) -> tuple[DiscoveryContext | None, list[str]]:
    """Where to look for markets besides the lists, as a run does, and notices. None if discovery is off."""
    if not settings.discovery.enabled:
        return None, []
    notices = list[str]()
    uri, network = settings.output.uri, network_id(settings.passphrase)
    try:
        memory = load_memory(open_store(uri), network)
    except StoreError as error:
        notices.append(f"markets that only earlier runs into {uri} know are not compared: {error}")
        memory = Memory(network)
    seconds = settings.network.read_deadline.total_seconds()
    context = await discover_context(
        LedgerView(opened.source), opened.source, opened.network, PROTOCOLS, memory, seconds
    )
    return context, [*notices, *context.notices]


async def _read_and_call(
    view: LedgerView, settings: Settings, opened: OpenSource, context: DiscoveryContext | None
) -> _ChainReading:
    """Read the listed markets, and call their getters.

    Others are left out, because anybody could prevent the check with very many markets of their own, or with one that
    changes at every ledger.
    """
    readings = await read_protocols(view, settings, opened, context, listed_alone=True)
    for each in readings:
        remove_excluded(each, settings.exclude)
    both = StorageRuleComparison()
    if opened.has_all_contracts:
        both = await compare_storage_rules(view, opened.source.close_time)
    planned = [(reading.protocol, item) for reading in readings for item in _planned_calls(reading)]
    without = [item for _, item in planned if isinstance(item, NoGetter)]
    asked = [(name, item) for name, item in planned if isinstance(item, GetterCall)]
    results = await view.call([item.call for _, item in asked])
    outcomes = [_Outcome(name, item, result) for (name, item), result in zip(asked, results, strict=True)]
    return _ChainReading(readings, outcomes, without, both)


def _planned_calls(reading: ProtocolReading) -> Iterator[GetterCall | NoGetter]:
    """The calls of getters to make for a reading, and the markets and pools that have no getter."""
    getters = PROTOCOLS[reading.protocol].getters
    if getters is not None:
        yield from getters.calls(reading)
        return
    for market in reading.markets:
        yield NoGetter(market.address, f"no getter of {reading.protocol} is known")


def rows_at(readings: Sequence[ProtocolReading], ledger: int, time: int) -> dict[str, dict[str, ComputedPool]]:
    """The exporter's pools at a time in unix seconds, as they were read and with their rows, by market and then id."""
    pools = {pool.key: pool for reading in readings for pool in reading.pools}
    rows: dict[str, dict[str, ComputedPool]] = {}
    for row in rows_as(PoolFrameRow, compute(readings, PROTOCOLS, ledger, time, NOTHING_LISTED).pools):
        rows.setdefault(row["market"], {})[row["pool"]] = ComputedPool(pools[PoolKey.of(row)], row)
    return rows


def _compare_all(read: _ChainReading, ledger: int, times: Mapping[int, int], notices: list[str]) -> ChainCheck:
    check = ChainCheck(ledger, read.without, read.both, notices, differences=list(read.both.differences))
    numbers: dict[int, dict[str, dict[str, ComputedPool]]] = {}

    def compared_at(outcome: _Outcome, time: int) -> list[Compared]:
        if time not in numbers:
            numbers[time] = rows_at(read.readings, ledger, time)
        return list(compare(outcome, numbers[time].get(outcome.asked.market, {}), time))

    pools: set[PoolKey] = set()
    for outcome in read.outcomes:
        protocol, asked, result = outcome
        time = times[result.ledger]
        reason = result.reason if result.value is None else "unread"
        try:
            compared = compared_at(outcome, time)
        except DecodeError as error:
            compared, reason = [], f"the result cannot be understood: {error}"
        if not compared:
            check.failed.append(FailedCall(asked.market, asked.pool, asked.call.function, reason))
        check.by_protocol[protocol] += len(compared)
        pools.update(PoolKey(item.market, item.pool) for item in compared if item.pool is not None)
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
    """Each field of a getter's result, next to the exporter's own. Raises `DecodeError` if the result is malformed."""
    getters, asked, result = PROTOCOLS[outcome.protocol].getters, outcome.asked, outcome.result
    row = rows.get(asked.pool)
    if row is None or getters is None:
        return
    if result.value is None:
        fields = getters.refused(result.error or "", row)
    else:
        fields = getters.fields(asked, result.value, row, time)
    for name, (ours, contract) in fields.items():
        # The exporter has no price if the call for it is not certain to be of this ledger. That is no difference.
        if name != "oracle_price" or UNCERTIFIED not in (row.row["price_reason"] or ""):
            yield Compared(asked.market, asked.pool, name, ours, contract)
