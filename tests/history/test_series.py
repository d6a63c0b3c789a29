"""The histories in buckets over many runs, judged by a plain recomputation, with crashes, losses and repetitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest

from exporter.errors import CheckError
from exporter.history.manifest import read_history_manifest
from exporter.history.series import STATE_KEY, load_series
from exporter.stores.memory import MemoryStore
from exporter.tree.files import FileKind
from tests.history.runs import MONDAY, Historian, observe, places

LEDGER = 65_000_000


def schedule(random: Random, runs: int, mean_minutes: int) -> Iterator[tuple[int, int]]:
    """Ledgers and close times of runs at uneven distances, with a pause of days now and then."""
    ledger, time = LEDGER, MONDAY + 40 * 3600
    for number in range(runs):
        yield ledger, time
        pause = 3 * 86_400 if number % 97 == 96 else 0
        step = 5 * random.randint(1, mean_minutes * 24) + pause
        ledger, time = ledger + step // 5, time + step


@pytest.mark.parametrize(
    ("runs", "mean_minutes", "pools"),
    [(30, 5, 3), (40, 3000, 1), pytest.param(400, 60, 2, marks=pytest.mark.slow)],
)
def test_buckets_equal_a_plain_recomputation(runs: int, mean_minutes: int, pools: int) -> None:
    """Over many runs, of which some die and some find their state lost, every page is as if computed anew."""
    random = Random(runs + mean_minutes)
    historian = Historian(MemoryStore())
    everything = places(1, pools)
    compared = 0
    for number, (ledger, time) in enumerate(schedule(random, runs, mean_minutes)):
        present = everything if random.random() < 0.9 else everything[1:]
        observed = observe(random, present, ledger, time)
        historian.run(observed, ledger, time, keep=random.random() < 0.9)
        if number % 50 == 15:
            historian.store.delete([STATE_KEY])
        if number % 50 == 25:
            historian.store.put(STATE_KEY, b"what another program left here")
        if number % 40 == 39 or number == runs - 1:
            compared += historian.assert_as_computed_anew()
    assert compared >= runs // 10


def test_running_again_changes_no_byte() -> None:
    """A run that is repeated after it died, at whatever point, makes the very same files."""
    random = Random(7)
    historian = Historian(MemoryStore())
    for ledger, time in schedule(random, 12, 300):
        observed = observe(random, places(2, 1), ledger, time)
        before_recording = historian.carry_on(observed, ledger, time)[1]
        historian.record(observed, ledger, time)
        after_recording = historian.carry_on(observed, ledger, time)[1]
        historian.run(observed, ledger, time)
        historian.store.delete([STATE_KEY])
        from_nothing = {file.key: file for file in historian.carry_on(observed, ledger, time)[1]}

        assert before_recording == after_recording
        # Made from nothing, the run gives all older pages as well.
        assert before_recording == [from_nothing[file.key] for file in before_recording]


def test_only_heads_are_written_again() -> None:
    """Once a page is made it is never made again, and a run of few observations reads no earlier file."""
    random = Random(11)
    historian = Historian(MemoryStore())
    made: set[str] = set()
    for ledger, time in schedule(random, 40, 60):
        files = historian.run(observe(random, places(1, 1), ledger, time), ledger, time)
        pages = [file.key for file in files if file.kind is FileKind.PAGE]

        assert 6 == sum(file.kind is FileKind.DOCUMENT for file in files)
        assert made.isdisjoint(pages)
        made |= set(pages)
    manifest = read_history_manifest(historian.store)
    assert made
    assert ledger == load_series(historian.store, manifest, ledger + 1).through_ledger


def test_a_pool_that_vanishes_keeps_its_history() -> None:
    """The newest page of a pool that is no longer read stays, with the run's ledger, and what was observed last."""
    random = Random(3)
    historian = Historian(MemoryStore())
    gone, stays = places(1, 2)
    historian.run(observe(random, [gone, stays], LEDGER, MONDAY), LEDGER, MONDAY)
    later = MONDAY + 300 * 86_400
    historian.run(observe(random, [stays], LEDGER + 9, later), LEDGER + 9, later)
    historian.run([], LEDGER + 10, later + 5)

    for bucket in ("5m", "1w"):
        (page,) = historian.walk(gone, bucket)
        assert (LEDGER + 10, [LEDGER]) == (page["observed_ledger"], [row["last_ledger"] for row in page["data"]])
    historian.assert_as_computed_anew()


def test_weeks_begin_on_monday() -> None:
    """The last second of a Sunday and the first of the Monday after it are in two weeks, and in two days."""
    historian = Historian(MemoryStore())
    for number, time in enumerate((MONDAY - 1, MONDAY)):
        observed = observe(Random(number), places(1, 1), LEDGER + number, time)
        historian.run(observed, LEDGER + number, time)

    (week,) = historian.walk(places(1, 1)[0], "1w")
    assert [
        ("2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"),
        ("2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
    ] == [(row["start_time"], row["end_time"]) for row in week["data"]]


def test_first_seen_is_kept() -> None:
    """A token that vanishes and comes back has the ledger at which it came first, with the state and without."""
    historian = Historian(MemoryStore())
    one, other = places(1, 2)
    for number, present in enumerate(([one], [one, other], [other], [one, other])):
        ledger, time = LEDGER + number, MONDAY + number * 3600
        observed = observe(Random(number), present, ledger, time)
        with_state = historian.carry_on(observed, ledger, time)[0].first_seen
        historian.run(observed, ledger, time)
        state = historian.store.get(STATE_KEY)
        historian.store.delete([STATE_KEY])
        assert with_state == historian.carry_on(observed, ledger, time)[0].first_seen
        assert state is not None
        historian.store.put(STATE_KEY, state.data)

    assert {one[1]: LEDGER, other[1]: LEDGER + 1} == with_state


@pytest.mark.parametrize(("ledger", "time"), [(LEDGER + 1, MONDAY - 1), (LEDGER, MONDAY + 60)])
def test_time_does_not_go_backwards(ledger: int, time: int) -> None:
    """A later ledger that closed earlier, or a ledger that is in the series already, is refused."""
    historian = Historian(MemoryStore())
    historian.run(observe(Random(1), places(1, 1), LEDGER, MONDAY), LEDGER, MONDAY)
    manifest = read_history_manifest(historian.store)
    series = load_series(historian.store, manifest, LEDGER + 1)
    frame = series.recent

    with pytest.raises(CheckError, match=f"the history already has ledger {LEDGER}"):
        list(series.extend(frame.clear(), ledger, time))


def test_heads_say_what_they_are() -> None:
    """A newest page names its pool, its bucket and the run's ledger, and its cursor leads to an older page."""
    random = Random(5)
    historian = Historian(MemoryStore())
    runs = [(LEDGER + number, MONDAY + 300 * number) for number in range(3 * 48 + 2)]
    for ledger, time in runs[:-1]:
        historian.record(observe(random, places(1, 1), ledger, time), ledger, time)
    historian.run(observe(random, places(1, 1), *runs[-1]), *runs[-1])
    place = places(1, 1)[0]
    newest, *older = historian.walk(place, "5m")

    assert (*place, "5m", LEDGER + 145) == tuple(
        newest[name] for name in ("market", "pool", "bucket", "observed_ledger")
    )
    assert [50, 48, 48] == [len(page["data"]) for page in (newest, *older)]
    assert [LEDGER + 95, LEDGER + 47] == [page["observed_ledger"] for page in older]
    assert ["market", "pool", "bucket", "observed_ledger", "data", "next_cursor"] == list(
        json.loads(json.dumps(newest))
    )


def test_a_span_ends_also_when_nothing_was_observed() -> None:
    """Pages are turned by the time alone: also by a run that read no pool, and after one that read none."""
    random = Random(13)
    historian = Historian(MemoryStore())
    span = 48 * 300
    times = [MONDAY, MONDAY + span, MONDAY + span + 3000, MONDAY + 2 * span, MONDAY + 3 * span, MONDAY + 3 * span + 600]
    for number, (time, pools) in enumerate(zip(times, (1, 1, 0, 1, 0, 0), strict=True)):
        historian.run(observe(random, places(1, pools), LEDGER + number, time), LEDGER + number, time)
        historian.assert_as_computed_anew()

    assert [1, 1, 1] == [len(page["data"]) for page in historian.walk(places(1, 1)[0], "5m")]
