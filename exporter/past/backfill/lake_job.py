"""The past out of a ledger lake: extraction of what is watched, replay, and rows into the history.

    1. find what is watched: a reading of the start state says what it looks at, until it looks at nothing new
    2. extract, ranges of ledgers in parallel; what was extracted before is reused
    3. replay in order, segments of boundaries in parallel; each is read as a run reads
    4. where a reading looked at what was not watched, watch that, too, from then on, and do 2 and 3 for what is left

A row is computed only from a state that is wholly known: after a gap there are no rows until the next checkpoint.
Ranges and segments are cut by ledgers and time alone, so neither workers nor interruptions change a byte.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import TypeVar

import msgspec

from exporter.config import Settings
from exporter.deployments import Deployment
from exporter.deployments.networks import network_of
from exporter.errors import LakeError, SourceError
from exporter.history.manifest import HistoryPart
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.view import LedgerView
from exporter.past.backfill.executors import run_all
from exporter.past.backfill.liquidations import rows_in
from exporter.past.backfill.merge import finish_history, ledgers_of, merge_into_history
from exporter.past.backfill.segments import EventNames, Segment, SegmentResult, read_state, replay_segment
from exporter.past.backfill.start_state import StartState
from exporter.past.lake.extract import Gap, LedgerChanges, LedgerRange, RangeOfLedgers, extract, packed, unpacked
from exporter.past.lake.objects import LOOK_AHEAD_BYTES, LakeConfig
from exporter.past.lake.replay import ReplayedState, wrongly_archived
from exporter.past.lake.transitions import UNKNOWN_CODE, Tally
from exporter.past.lake.watch import Watch
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import LedgerSpan, Transitions
from exporter.tree.families import JOURNAL_KEY

RANGE_LEDGERS = 8_192
"""Ledgers that are extracted at a time: about 40 seconds' work on mainnet."""

BOUNDARIES_A_SEGMENT = 24
MAX_ROUNDS = 8
MAX_FIXPOINT = 20
STOP, SKIP = "stop", "skip"
_CHANGES, _LEDGERS = ".changes.bin", ".ledgers.bin"

Close = tuple[int, int, int]
"""A ledger, its close time in unix seconds, and its protocol."""

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class LakePlan:
    """The plan of a backfill. ``begins`` and ``ends`` are the times of the boundaries, in unix seconds.

    ``first`` is the ledger that the first boundary has, ``last`` the last one that is needed. ``settings`` go to other
    machines, so they are kept without the RPCs, of which a backfill asks none.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.settings.without_endpoints())


@dataclass(slots=True)
class LakeResult:
    """The result of a backfill. ``refused`` has the reason by ledger; ``failed`` are readings that did not work."""

    boundaries: int = 0
    added: int = 0
    known: int = 0
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


class _Done(msgspec.Struct, frozen=True):
    """A segment that is in the history: its ledgers, those with rows, and its proof."""

    boundaries: tuple[int, ...]
    with_rows: tuple[int, ...]
    tally: Tally


class _Journal(msgspec.Struct):
    """A record of what earlier jobs over a history did, and of what their readings wanted to be watched."""

    segments: dict[str, _Done] = {}
    watched: Watch = Watch()


class LakeJob:
    """One backfill. ``changes`` keeps the intermediate files, ``store`` is the output."""

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
        """Args: ``on_progress`` receives what is being done (ledgers or boundaries), how much, and of how much."""
        self.plan = plan
        self.result = LakeResult(ledgers=plan.last - plan.start.ledger)
        self._store, self._changes, self._executor, self._at_once = store, changes, executor, at_once
        self._report = on_progress
        self._network = network_of(plan.settings.passphrase)
        self._watched = Watch()
        self._tried: set[str] = set()
        self._deployments: tuple[Deployment, ...] = ()

    def run(self) -> LakeResult:
        """Do the whole backfill. Raises `LakeError` and `StoreError`. What was written stays, and is not done again."""
        result = self.result
        self._watched = self._fixpoint() | self._journal().watched
        for round_number in range(1, MAX_ROUNDS + 1):
            result.rounds = round_number
            self._extract()
            segments = self._segments()
            left = self._left(segments)
            if round_number == 1:
                result.boundaries = sum(len(closes) for _, closes in segments)
                result.known = result.boundaries - sum(len(closes) for _, closes in left)
            missing = self._replay(left)
            if not missing:
                break
            self._watched |= missing
            journal = self._journal()
            journal.watched |= missing
            self._write_journal(journal)
        else:
            reason = f"after {MAX_ROUNDS} rounds its reading still looks at what was not watched"
            result.refused |= {ledger: reason for _, closes in self._left(segments) for ledger, _, _ in closes}
        self._publish_proof()
        return result

    # 1. What is watched.

    def _fixpoint(self) -> Watch:
        plan, watched = self.plan, Watch()
        discovers = plan.settings.discovery.enabled
        self._deployments = tuple(self._network.deployments) if discovers else ()
        for _ in range(MAX_FIXPOINT):
            state = ReplayedState(plan.start.entries(watched.contracts, watched.keys), plan.start.ledger)
            source = StoredSource(state.entry, state.ledger, plan.start.close_time, "ledger lake", storage_answers)
            if discovers:
                self._deployments = tuple(asyncio.run(self._completed(source)))
            used = read_state(source, plan.settings, self._deployments, plan.start.instances)[1]
            names = EventNames(self._deployments).contracts
            used |= Watch(names, frozenset(), names)
            if not used - watched:
                return watched
            watched |= used
        raise SourceError(f"after {MAX_FIXPOINT} readings of {plan.start.label} it still names further contracts")

    async def _completed(self, source: StoredSource) -> list[Deployment]:
        view, completed = LedgerView(source), list[Deployment]()
        for name, protocol in PROTOCOLS.items():
            own = [item for item in self._network.deployments if item.protocol == name]
            completed += await protocol.discovery.complete(view, own)
        return completed

    # 2. Extraction.

    def _ranges(self) -> Iterator[tuple[int, int, str]]:
        """First and last ledger of each range, and the name of its files."""
        size, first = self.plan.range_ledgers, self.plan.start.ledger + 1
        network = hashlib.sha256(self._network.passphrase.encode()).hexdigest()[:8]
        while first <= self.plan.last:
            last = min(first - first % size + size - 1, self.plan.last)
            yield first, last, f"changes/{network}-{self._watched.digest}/{first}-{last}"
            first = last + 1

    def _extract(self) -> None:
        plan, result = self.plan, self.result
        done = 0

        def todo() -> Iterator[RangeOfLedgers]:
            nonlocal done
            for first, last, name in self._ranges():
                earlier = self._load(name + _LEDGERS, LedgerRange)
                if earlier is not None and (not earlier.gaps or name in self._tried):
                    done += last - first + 1
                    continue
                ahead = LOOK_AHEAD_BYTES // self._at_once  # bounds how many ranges are extracted at a time
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
            self._changes.put(work.name + _LEDGERS, packed(ledgers))  # last: it says that the range is done
            self._tried.add(work.name)
            done += work.last - work.first + 1
            result.touched += ledgers.touched
            self._report("ledgers", done, result.ledgers)

    def _load(self, key: str, content: type[Content]) -> Content | None:
        stored = self._changes.get(key)
        return None if stored is None else unpacked(stored.data, content, key)

    def _ledgers(self, after: int) -> Iterator[LedgerChanges]:
        for _, last, name in self._ranges():
            if last > after:
                changes = self._load(name + _CHANGES, list[LedgerChanges])
                assert changes is not None  # it was extracted
                yield from (each for each in changes if each.ledger > after)

    # 3. Replay.

    def _closes(self) -> Iterator[Close]:
        """All ledgers from the start on; notes the gaps. Raises `LakeError` where a range does not follow another."""
        start, before = self.plan.start, ""
        self.result.gaps = []
        yield start.ledger, start.close_time, start.protocol
        for first, _, name in self._ranges():
            each = self._load(name + _LEDGERS, LedgerRange)
            assert each is not None  # it was extracted
            if before and each.previous_hash and before != each.previous_hash:
                raise LakeError(f"ledger {first} does not follow ledger {first - 1}: the lake is not one chain")
            before = each.last_hash
            self.result.gaps += each.gaps
            for ledger, facts in each.ledgers.items():
                yield ledger, *facts

    def _segments(self) -> list[tuple[str, list[Close]]]:
        plan = self.plan
        times = boundaries(plan.begins, plan.ends, plan.every)
        width = plan.every * BOUNDARIES_A_SEGMENT
        groups: dict[int, list[Close]] = {}
        for close in last_before(times, (close for close in self._closes() if close[0] >= plan.first)):
            groups.setdefault(close[1] // width, []).append(close)
        return [(f"{plan.every}-{start * width}", closes) for start, closes in groups.items()]

    def _left(self, segments: Sequence[tuple[str, list[Close]]]) -> list[tuple[str, list[Close]]]:
        journal, has = self._journal(), ledgers_of(self._store)
        left = []
        for name, closes in segments:
            done = journal.segments.get(name)
            wanted = {ledger for ledger, _, _ in closes} - self.result.refused.keys()
            if done is None or not wanted <= set(done.boundaries) or not all(map(has, done.with_rows)):
                left.append((name, closes))
        return left

    def _replay(self, left: Sequence[tuple[str, list[Close]]]) -> Watch:
        """Replay what is left; gives what else ought to have been watched."""
        done, total = 0, sum(len(closes) for _, closes in left)
        missing = Watch()
        for segment, outcome in run_all(self._executor, replay_segment, self._work(left), self._at_once):
            missing |= outcome.unwatched
            self._take_in(segment, outcome)
            done += len(segment.boundaries)
            self._report("boundaries", done, total)
        return missing

    def _epochs(self) -> Iterator[tuple[StartState, int]]:
        """Spans of ledgers in which the state is known: from the start to a gap, and from a checkpoint after it."""
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

    def _work(self, left: Sequence[tuple[str, list[Close]]]) -> Iterator[Segment]:
        """The segments that are left, each with the state that it begins with, cut where the state is not known."""
        wanted = [(name, close) for name, closes in left for close in closes]
        covered = set[int]()
        for start, until in self._epochs() if wanted else ():
            # Of the last ledger before a gap nobody knows if another one followed by the time of the boundary.
            own = [(name, close) for name, close in wanted if start.ledger <= close[0] < until]
            covered |= {ledger for _, (ledger, _, _) in own}
            if own:
                yield from self._work_from(start, own)
        for _, (ledger, _, _) in wanted:
            if ledger not in covered:
                gap = next(gap for gap in reversed(self.result.gaps) if gap.first <= ledger + 1)
                self.result.refused[ledger] = (
                    f"{_shown(gap)} not known ({gap.reason}), and no checkpoint since gives the state"
                )

    def _work_from(self, start: StartState, wanted: Sequence[tuple[str, Close]]) -> Iterator[Segment]:
        watched = self._watched
        entries, wrong = start.entries(watched.contracts, watched.keys), wrongly_archived(self._network.passphrase)
        state = ReplayedState(entries, start.ledger, start.protocol, wrong)
        names = EventNames(self._deployments)
        ledgers = self._ledgers(self.plan.start.ledger)
        item = next(ledgers, None)
        while item is not None and item.ledger <= start.ledger:
            names.follow(item)  # what was announced before a gap
            item = next(ledgers, None)
        for name, group in groupby(wanted, key=itemgetter(0)):
            closes = tuple(close for _, close in group)
            begun = Segment(
                name,
                self.plan.settings,
                state.ledger,
                state.protocol,
                state.stored(),
                b"",
                closes,
                watched,
                self._deployments,
                tuple(start.instances),
                tuple(names.found),
            )
            changed = []
            ledger, _, protocol = closes[-1]
            while item is not None and item.ledger <= ledger:
                state.take(item.ledger, item.protocol, (change for _, change in item.changes))
                names.follow(item)
                changed.append(item)
                item = next(ledgers, None)
            if state.ledger < ledger:
                state.take(ledger, protocol, ())
            yield replace(begun, changes=packed(changed))

    # 4. Into the history.

    def _take_in(self, segment: Segment, outcome: SegmentResult) -> None:
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
            journal = self._journal()
            ledgers = tuple(item[0] for item in segment.boundaries)
            journal.segments[segment.name] = _Done(ledgers, tuple(sorted(parts)), outcome.tally)
            self._write_journal(journal)

    def _journal(self) -> _Journal:
        stored = self._store.get(JOURNAL_KEY)
        try:
            return _Journal() if stored is None else decode_json(stored.data, _Journal)
        except msgspec.DecodeError:
            return _Journal()  # everything is done again, and found to be there

    def _write_journal(self, journal: _Journal) -> None:
        self._store.put(JOURNAL_KEY, msgspec.json.encode(journal, order="deterministic"))

    def _publish_proof(self) -> None:
        tally = self.result.tally
        for done in self._journal().segments.values():
            tally.add(done.tally)
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
    """The multiples of ``every`` seconds since 1970 from one time to another, both included."""
    return range(-(-begins // every) * every, ends + 1, every)


def last_before(times: range, closes: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """For each time of `boundaries` the last ledger that closed at or before it, each ledger once.

    ``closes`` are ledgers, each with its close time and more, ascending; the last of them is the last one for any time.
    """
    for close, after in pairwise(chain(closes, [(0, times.stop, 0)])):
        time = max(-(-close[1] // times.step) * times.step, times.start)
        if time < min(after[1], times.stop):
            yield close
