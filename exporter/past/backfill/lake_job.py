"""Backfills the history from a ledger lake, in four steps.

1. It finds out which entries have to be watched. It reads the start state again and again, each time with the entries
   that the reading before looked at, until a reading looks at nothing new.
2. It extracts the changes of these entries from ranges of ledgers, in parallel. Ranges that were extracted before are
   reused.
3. It replays the changes in the order of the ledgers. At each boundary, which is a time such as a full hour, it reads
   the state as a run does. Segments of boundaries are read in parallel, and their rows are added to the history.
4. If a reading looked at an entry that was not watched, that entry is watched from now on, and steps 2 and 3 are
   repeated for the boundaries that are left.

A row is computed only from a state that is completely known. So after a gap in the lake there are no rows until the
next checkpoint. Ranges and segments are cut by ledgers and times alone. So the number of workers and interruptions do
not change a byte of the result.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from exporter.config import Settings
from exporter.deployments import Deployment
from exporter.deployments.networks import network_of
from exporter.discovery import completed_deployments
from exporter.errors import LakeError, SourceError
from exporter.history.manifest import HistoryPart
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.view import LedgerView
from exporter.past.backfill.executors import run_all
from exporter.past.backfill.journal import FinishedPiece, read_journal, write_journal
from exporter.past.backfill.liquidations import rows_in
from exporter.past.backfill.merge import finish_history, ledgers_of, merge_into_history
from exporter.past.backfill.segments import Close, EventNames, Segment, SegmentResult, read_state, replay_segment
from exporter.past.backfill.start_state import StartState
from exporter.past.lake.extract import Gap, LedgerChanges, LedgerRange, RangeOfLedgers, extract, pack, unpack
from exporter.past.lake.objects import LOOK_AHEAD_BYTES, LakeConfig
from exporter.past.lake.replay import ReplayedState, wrongly_archived
from exporter.past.lake.transitions import UNKNOWN_CODE, Tally
from exporter.past.lake.watch import Watch
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.stores.store import Store
from exporter.tree.documents import LedgerSpan, Transitions

RANGE_LEDGERS = 8_192
"""Number of ledgers in a range that is extracted as one piece of work: about 40 seconds on mainnet."""

SEGMENT_BOUNDARIES = 24
"""Number of boundaries in a segment that is replayed as one piece of work."""

MAX_ROUNDS = 8
"""Largest number of times that steps 2 and 3 are done."""

MAX_START_READINGS = 20
"""Largest number of readings of the start state to find out what has to be watched."""

STOP, SKIP = "stop", "skip"
_CHANGES, _LEDGERS = ".changes.bin", ".ledgers.bin"

Content = TypeVar("Content")


class LakePlan(Struct, frozen=True):
    """What a backfill is to do.

    Attributes:
        settings: the settings. `LakeJob` does not use the RPCs that they name.
        lake: the address of the lake.
        config: the lake's configuration, if it has no file with it.
        start: the state with which the replay begins.
        first: the ledger of the first boundary.
        last: the last ledger that is needed.
        begins: the earliest time of a boundary, in unix seconds.
        ends: the latest time of a boundary, in unix seconds.
        every: the number of seconds between boundaries.
        on_gap: `STOP` or `SKIP`, if ledgers are missing.
        range_ledgers: the number of ledgers in a range.
    """

    settings: Settings
    lake: str
    config: LakeConfig | None
    start: StartState
    first: int
    last: int
    begins: int
    ends: int
    every: int
    on_gap: str = STOP
    range_ledgers: int = RANGE_LEDGERS


class LakeResult(Struct):
    """The result of a backfill.

    Attributes:
        boundaries: the number of ledgers at boundaries.
        added: the number of them that were added to the history.
        present: the number of them that earlier backfills had finished.
        empty: the number of them at which there was no market.
        rows: the number of rows that were added.
        refused: why a ledger was not added, by ledger.
        failed: why the reading at a ledger failed, by ledger.
        unread: the listed markets, and their pools, that could not be read at some ledgers.
        gaps: the ledgers about which nothing is known.
        tally: what comparing formulas with the chain gave.
        ledgers: the number of ledgers that were replayed.
        touched: the number of ledgers that changed something that is watched.
        rounds: how often steps 2 and 3 were done.
    """

    boundaries: int = 0
    added: int = 0
    present: int = 0
    empty: int = 0
    rows: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    ledgers: int = 0
    touched: int = 0
    rounds: int = 0


class _NamedClose(NamedTuple):
    """A ledger at a boundary, and the name of the segment that has it."""

    segment: str
    close: Close


class LakeJob:
    """One backfill."""

    def __init__(
        self,
        plan: LakePlan,
        store: Store,
        changes: Store,
        executor: Executor,
        *,
        at_once: int,
        on_progress: Callable[[str, int, int], None] = lambda what, done, of: None,  # noqa: ARG005
    ) -> None:
        """Prepare a backfill.

        Args:
            plan: what it is to do.
            store: the output, which has the history.
            changes: the store that keeps extracted changes for the next backfill.
            executor: does the work.
            at_once: how many pieces of work the executor gets at the same time.
            on_progress: called with what is counted (ledgers or boundaries), how many are done, and how many there are.
        """
        self.plan = plan
        self.result = LakeResult(ledgers=plan.last - plan.start.ledger)
        self._store, self._changes, self._executor, self._at_once = store, changes, executor, at_once
        self._report = on_progress
        self._settings = plan.settings.without_endpoints()  # they are sent to other machines, which need no RPC
        self._network = network_of(plan.settings.passphrase)
        self._watched = Watch()
        self._tried: set[str] = set()
        self._deployments: tuple[Deployment, ...] = ()

    def run(self) -> LakeResult:
        """Do the backfill.

        Raises `LakeError` if the lake cannot be read or has a gap that is not to be skipped, and `StoreError` if a
        store fails. What was written until then stays, and another backfill does not do it again.
        """
        result = self.result
        self._watched = self._find_watched() | read_journal(self._store).watched
        for round_number in range(1, MAX_ROUNDS + 1):
            result.rounds = round_number
            self._extract()
            segments = self._segments()
            unfinished = self._unfinished(segments)
            if round_number == 1:
                result.boundaries = sum(len(closes) for _, closes in segments)
                result.present = result.boundaries - sum(len(closes) for _, closes in unfinished)
            missing = self._replay(unfinished)
            if not missing:
                break
            self._watched |= missing
            journal = read_journal(self._store)
            journal.watched |= missing
            write_journal(self._store, journal)
        else:
            reason = f"after {MAX_ROUNDS} rounds its reading still looks at what was not watched"
            result.refused |= {close.ledger: reason for _, closes in self._unfinished(segments) for close in closes}
        self._publish_tally(name for name, _ in segments)
        return result

    # 1. Find out what is watched.

    def _find_watched(self) -> Watch:
        """Find out what has to be watched, from the start state. Raises `SourceError` if it comes to no end."""
        plan, watched = self.plan, Watch()
        discovers = plan.settings.discovery.enabled
        self._deployments = tuple(self._network.deployments) if discovers else ()
        for _ in range(MAX_START_READINGS):
            state = ReplayedState(plan.start.entries(watched.contracts, watched.keys), plan.start.ledger)
            source = StoredSource(state.entry, state.ledger, plan.start.close_time, "ledger lake", storage_answers)
            if discovers:
                completed = completed_deployments(LedgerView(source), PROTOCOLS, self._network.deployments)
                self._deployments = tuple(asyncio.run(completed))
            used = read_state(source, self._settings, self._deployments, plan.start.instances)[1]
            names = EventNames(self._deployments).contracts
            used |= Watch(names, frozenset(), names)
            if not used - watched:
                return watched
            watched |= used
        raise SourceError(f"after {MAX_START_READINGS} readings of {plan.start.label} it still names further contracts")

    # 2. Extract.

    def _ranges(self) -> Iterator[tuple[int, int, str]]:
        """The first and the last ledger of each range, and the name of its files."""
        size, first = self.plan.range_ledgers, self.plan.start.ledger + 1
        network = hashlib.sha256(self._network.passphrase.encode()).hexdigest()[:8]
        while first <= self.plan.last:
            last = min(first - first % size + size - 1, self.plan.last)
            yield first, last, f"changes/{network}-{self._watched.digest}/{first}-{last}"
            first = last + 1

    def _extract(self) -> None:
        """Extract the ranges that were not extracted before. Raises `LakeError` for a gap if ``on_gap`` is `STOP`."""
        plan, result = self.plan, self.result
        done = 0

        def todo() -> Iterator[RangeOfLedgers]:
            nonlocal done
            for first, last, name in self._ranges():
                earlier = self._load(name + _LEDGERS, LedgerRange)
                if earlier is not None and (not earlier.gaps or name in self._tried):
                    done += last - first + 1
                    continue
                ahead = LOOK_AHEAD_BYTES // self._at_once  # shared by the ranges that are extracted together
                passphrase = self._network.passphrase
                yield RangeOfLedgers(name, plan.lake, plan.config, passphrase, first, last, self._watched, ahead)

        for work, (ledgers, changes) in run_all(self._executor, extract, todo(), self._at_once):
            if ledgers.gaps and plan.on_gap == STOP:
                gap = ledgers.gaps[0]
                raise LakeError(
                    f"{_shown(gap)}: {gap.reason}. Nothing is lost: fix that and run the same command again, "
                    "or add --on-gap skip to continue without these ledgers"
                )
            self._changes.put(work.name + _CHANGES, changes)
            self._changes.put(work.name + _LEDGERS, pack(ledgers))  # last, because it says that the range is done
            self._tried.add(work.name)
            done += work.last - work.first + 1
            result.touched += ledgers.touched
            self._report("ledgers", done, result.ledgers)

    def _load(self, key: str, content: type[Content]) -> Content | None:
        stored = self._changes.get(key)
        return None if stored is None else unpack(stored.data, content, key)

    def _ledgers(self, after: int) -> Iterator[LedgerChanges]:
        """The extracted changes of all ledgers after one, ascending."""
        for _, last, name in self._ranges():
            if last > after:
                changes = self._load(name + _CHANGES, list[LedgerChanges])
                assert changes is not None  # `_extract` wrote it
                yield from (each for each in changes if each.ledger > after)

    # 3. Replay.

    def _closes(self) -> Iterator[Close]:
        """All known ledgers from the start on, ascending. Records the gaps between them.

        Raises `LakeError` if a range does not follow the one before.
        """
        start, last_hash = self.plan.start, ""
        self.result.gaps = []
        yield Close(start.ledger, start.close_time, start.protocol)
        for first, _, name in self._ranges():
            each = self._load(name + _LEDGERS, LedgerRange)
            assert each is not None  # `_extract` wrote it
            if last_hash and each.previous_hash and last_hash != each.previous_hash:
                raise LakeError(f"ledger {first} does not follow ledger {first - 1}: the lake is not one chain")
            last_hash = each.last_hash
            self.result.gaps += each.gaps
            for ledger, facts in each.ledgers.items():
                yield Close(ledger, *facts)

    def _segments(self) -> list[tuple[str, list[Close]]]:
        """The name of each segment, and the ledgers at its boundaries."""
        plan = self.plan
        times = boundaries(plan.begins, plan.ends, plan.every)
        width = plan.every * SEGMENT_BOUNDARIES
        groups: dict[int, list[Close]] = {}
        for close in last_before(times, (close for close in self._closes() if close.ledger >= plan.first)):
            groups.setdefault(close.time // width, []).append(close)
        return [(f"{plan.every}-{start * width}", closes) for start, closes in groups.items()]

    def _unfinished(self, segments: Sequence[tuple[str, list[Close]]]) -> list[tuple[str, list[Close]]]:
        """The segments that no backfill has finished, or whose rows the history has lost."""
        journal, history_has = read_journal(self._store), ledgers_of(self._store)
        refused = self.result.refused.keys()
        return [
            (name, closes)
            for name, closes in segments
            if not journal.is_finished(name, {close.ledger for close in closes} - refused, history_has)
        ]

    def _replay(self, unfinished: Sequence[tuple[str, list[Close]]]) -> Watch:
        """Replay unfinished segments. Returns what their readings looked at although it was not watched."""
        done, total = 0, sum(len(closes) for _, closes in unfinished)
        missing = Watch()
        for segment, outcome in run_all(self._executor, replay_segment, self._work(unfinished), self._at_once):
            missing |= outcome.unwatched
            self._add_rows(segment, outcome)
            done += len(segment.boundaries)
            self._report("boundaries", done, total)
        return missing

    def _epochs(self) -> Iterator[tuple[StartState, int]]:
        """The first state of each span of ledgers in which the state is known, and the ledger before which it ends.

        The first span begins with the start state. After a gap, a span begins with the next checkpoint.
        """
        start: StartState | None = self.plan.start
        for gap in self.result.gaps:
            if start is not None and gap.last > start.ledger:
                yield start, gap.first - 1
                later = start.later
                start = None
                if later is not None:
                    with suppress(SourceError):
                        start = later(gap.last)
        if start is not None:
            yield start, self.plan.last + 1

    def _work(self, unfinished: Sequence[tuple[str, list[Close]]]) -> Iterator[Segment]:
        """Unfinished segments as pieces of work, each with the state that it begins with.

        A gap cuts a segment into pieces, which have its name. Ledgers at which the state is not known are refused.
        """
        named_closes = [_NamedClose(name, close) for name, closes in unfinished for close in closes]
        covered = set[int]()
        for start, until in self._epochs() if named_closes else ():
            # The last ledger before a gap is left out: another one may have closed before the time of the boundary.
            of_epoch = [item for item in named_closes if start.ledger <= item.close.ledger < until]
            covered |= {item.close.ledger for item in of_epoch}
            if of_epoch:
                yield from self._work_from(start, of_epoch)
        for item in named_closes:
            ledger = item.close.ledger
            if ledger not in covered:
                gap = next(gap for gap in reversed(self.result.gaps) if gap.first <= ledger + 1)
                self.result.refused[ledger] = (
                    f"{_shown(gap)} not known ({gap.reason}), and no checkpoint since gives the state"
                )

    def _work_from(self, start: StartState, named_closes: Sequence[_NamedClose]) -> Iterator[Segment]:
        """The segments of a span of ledgers in which the state is known, which begins with this state."""
        watched = self._watched
        entries, wrong = start.entries(watched.contracts, watched.keys), wrongly_archived(self._network.passphrase)
        state = ReplayedState(entries, start.ledger, start.protocol, wrong)
        names = EventNames(self._deployments)
        ledgers = self._ledgers(self.plan.start.ledger)
        item = next(ledgers, None)
        while item is not None and item.ledger <= start.ledger:
            names.follow(item)  # a market that was announced before a gap is still there after it
            item = next(ledgers, None)
        for name, group in groupby(named_closes, key=attrgetter("segment")):
            closes = tuple(each.close for each in group)
            begun = Segment(
                name,
                self._settings,
                state.ledger,
                state.protocol,
                state.stored(),
                b"",
                closes,
                watched,
                self._deployments,
                tuple(start.instances),
                tuple(names.candidates),
            )
            changed = []
            last = closes[-1]
            while item is not None and item.ledger <= last.ledger:
                state.take(item.ledger, item.protocol, (change for _, change in item.changes))
                names.follow(item)
                changed.append(item)
                item = next(ledgers, None)
            if state.ledger < last.ledger:
                state.take(last.ledger, last.protocol, ())
            yield replace(begun, changes=pack(changed))

    # Add the rows to the history.

    def _add_rows(self, segment: Segment, outcome: SegmentResult) -> None:
        """Add the rows of a piece of work to the history. If all its boundaries could be read, it is finished."""
        result = self.result
        parts: dict[int, HistoryPart] = {}
        complete = True
        for ledger, each in outcome.outcomes.items():
            if each is None or isinstance(each, str):
                complete = False
                if each is not None:
                    result.failed[ledger] = each
                continue
            result.unread.update(each.unread)
            if each.part is None:
                result.empty += 1
            else:
                parts[ledger] = each.part
        merged = merge_into_history(self._store, [parts[ledger] for ledger in sorted(parts)], self._network.passphrase)
        result.added += len(merged.added)
        result.rows += merged.rows
        result.refused |= merged.refused
        if complete and not merged.refused:
            journal = read_journal(self._store)
            ledgers = tuple(close.ledger for close in segment.boundaries)
            journal.add(segment.name, FinishedPiece(ledgers, tuple(sorted(parts)), outcome.tally))
            write_journal(self._store, journal)

    def _publish_tally(self, segments: Iterable[str]) -> None:
        """Publish what comparing formulas with the chain gave in these segments, and the table of liquidations.

        The journal has segments of earlier backfills, too. With another ``every`` they are of the same ledgers, whose
        transitions would be counted twice.
        """
        tally = self.result.tally = read_journal(self._store).tally_of(segments)
        transitions = []
        for name in sorted({*tally.confirmed, *tally.differing, *tally.untried}):
            protocol, _, code = name.partition("/")
            counts = (each.get(name, 0) for each in (tally.confirmed, tally.differing, tally.untried))
            transitions.append(Transitions(protocol, None if code == UNKNOWN_CODE else code, *counts))
        spans, first = [], self.plan.start.ledger + 1
        end = self.plan.last + 1
        for gap_first, gap_last in [*((gap.first, gap.last) for gap in self.result.gaps), (end, end)]:
            if first < gap_first:
                spans.append(LedgerSpan(first, gap_first - 1))
            first = max(first, gap_last + 1)
        finish_history(self._store, transitions, list(rows_in(self._ledgers(self.plan.start.ledger))), spans)


def _shown(gap: Gap) -> str:
    return f"ledger {gap.first}" if gap.first == gap.last else f"ledgers {gap.first} to {gap.last}"


def boundaries(begins: int, ends: int, every: int) -> range:
    """The multiples of ``every`` seconds since 1970 between two times in unix seconds, both inclusive."""
    return range(-(-begins // every) * every, ends + 1, every)


def last_before(times: range, closes: Iterable[Close]) -> Iterator[Close]:
    """The last ledger that closed at or before each of the times of `boundaries`. Each ledger is yielded once.

    ``closes`` has all ledgers, ascending.
    """
    for close, after in pairwise(chain(closes, [Close(0, times.stop, 0)])):
        time = max(-(-close.time // times.step) * times.step, times.start)
        if time < min(after.time, times.stop):
            yield close
