"""The histories in buckets over many runs, judged by a plain recomputation, with crashes, losses and repetitions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from random import Random

import msgspec
import polars as pl
import pytest
from msgspec.structs import replace

from exporter.errors import CheckError, StoreError
from exporter.history.buckets import OBSERVATIONS, observations_of
from exporter.history.closed_buckets import OLDER
from exporter.history.manifest import read_history_manifest
from exporter.history.series import OLDER_KEY, STATE_KEY, Series, catch_up, encoded_state, load_series, save_series
from exporter.history.time_buckets import DAY, HOUR
from exporter.stores.memory import MemoryStore
from exporter.stores.store import StoredObject
from tests.history.bucket_judge import LENGTHS, Observation, iso
from tests.history.frames import manifest_of, record
from tests.history.runs import MONDAY, Historian, frame_of, observe, places
from tests.publishing.held import compact_history

LEDGER = 65_000_000
NEWEST = ("observed_ledger", "ledger_close_time")


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
    [
        (12, 5, 2),
        (12, 3000, 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((16, 5, 3), (14, 3000, 1), (200, 60, 2))),
    ],
)
def test_buckets_equal_a_plain_recomputation(runs: int, mean_minutes: int, pools: int) -> None:
    """Over many runs, some of which die or lose their state, every page equals a plain recomputation."""
    random = Random(runs + mean_minutes)
    historian = Historian(MemoryStore())
    everything = places(1, pools)
    compared = 0
    for number, (ledger, time) in enumerate(schedule(random, runs, mean_minutes)):
        present = everything if random.random() < 0.9 else everything[1:]
        observed = observe(random, present, ledger, time)
        historian.run(observed, ledger, time, keep=random.random() < 0.9)
        if number % 50 == 7:
            historian.store.delete([STATE_KEY])
        if number % 50 == 11:
            historian.store.put(STATE_KEY, b"what another program left here")
        if number % 40 == 39 or number == runs - 1:
            compared += historian.assert_as_recomputed()
    assert compared >= runs // 10


def test_running_again_changes_no_byte() -> None:
    """A run that is repeated after it died, at whatever point, makes the very same files."""
    random = Random(7)
    historian = Historian(MemoryStore())
    for ledger, time in schedule(random, 3, 300):
        observed = observe(random, places(2, 1), ledger, time)
        before_recording = historian.carry_on(observed, ledger, time)[1]
        record(historian.store, frame_of(observed, ledger, time), ledger, time)
        after_recording = historian.carry_on(observed, ledger, time)[1]
        historian.run(observed, ledger, time)
        historian.store.delete([STATE_KEY])
        from_nothing = {file.key: file for file in historian.carry_on(observed, ledger, time)[1]}

        assert before_recording == after_recording
        # Made from nothing, the run gives all older pages as well.
        assert before_recording == [from_nothing[file.key] for file in before_recording]


@pytest.mark.parametrize(
    ("hours", "empty"),
    [
        pytest.param([2, 3.1, 3.3, 3.4], [2], id="a run that completes a page"),
        pytest.param([2, 20.1, 23, 25], [2], id="the last run of a day"),
        pytest.param([2, 3, 6.1, 6.3, 7], [0, 3], id="the first run", marks=pytest.mark.slow),
        pytest.param([2, 22, 25, 30, 49], [2, 3], id="a whole day", marks=pytest.mark.slow),
        pytest.param([2, 22, 23, 30, 49, 50], [2, 3, 4], id="a day and more", marks=pytest.mark.slow),
        pytest.param([2, 4, 30], [0, 1, 2], id="every run", marks=pytest.mark.slow),
    ],
)
def test_a_run_after_one_without_rows(hours: Sequence[float], empty: Sequence[int]) -> None:
    """A run makes the same files and the same state whether the state before it was kept or lost.

    Runs without rows count: they complete pages, as every other run does. Days are compacted.
    """
    random, kept = Random(11), Historian(MemoryStore())
    for number, hour in enumerate(hours):
        ledger, time = LEDGER + number, MONDAY + int(hour * 3600)
        observed = [] if number in empty else observe(random, places(1, 1), ledger, time)
        lost = Historian(MemoryStore(kept.store))
        lost.store.delete([STATE_KEY])
        if number:
            restored = {page.key for page in catch_up(lost.store, manifest_of(lost.store), ledger, Series())}
            series, files = kept.carry_on(observed, ledger, time)
            series_again, files_again = lost.carry_on(observed, ledger, time)

            assert files == [file for file in files_again if file.key not in restored]
            assert through(series) == through(series_again)
        kept.run(observed, ledger, time)
        compact_history(kept.store)


def through(series: Series) -> tuple[int, int]:
    """The last ledger of a series, and its close time."""
    return series.through_ledger, series.through_time


def test_a_state_is_used_after_a_run_without_rows() -> None:
    """What was read again up to a run without rows is a state that the next run goes on from."""
    historian, random = Historian(MemoryStore()), Random(1)
    historian.run(observe(random, places(1, 1), LEDGER, MONDAY), LEDGER, MONDAY)
    historian.run([], LEDGER + 1, MONDAY + 300)
    manifest, series = read_history_manifest(historian.store), Series()
    list(catch_up(historian.store, manifest, LEDGER + 2, series))
    save_series(historian.store, series)
    loaded = load_series(historian.store, manifest, LEDGER + 2)

    assert (LEDGER + 1, MONDAY + 300) == through(loaded)


def test_a_pool_that_appears_while_no_bucket_closes() -> None:
    """If no bucket of a length closed, only the new pool's own documents are rendered, which are empty."""
    historian = Historian(MemoryStore())
    one, other = places(1, 2)
    historian.run(observe(Random(1), [one], LEDGER, MONDAY), LEDGER, MONDAY)
    series = load_series(historian.store, read_history_manifest(historian.store), LEDGER + 1)
    unchanged = series.still_open(LEDGER, MONDAY + 5)
    observed = observe(Random(1), [one, other], LEDGER + 1, MONDAY + 5)
    rows = observations_of(frame_of(observed, LEDGER + 1, MONDAY + 5))
    pages = list(series.extend(rows, LEDGER + 1, MONDAY + 5))
    keys = [file.key for file in series.newest_documents(unchanged)]

    assert ([], list(LENGTHS)) == (pages, unchanged)
    assert 4 + 1 + 1 == len(keys)  # of the pool, its days as CSV, and of its token
    assert all(other[1] in key for key in keys)


def test_a_pool_that_changes_its_token_keeps_its_history() -> None:
    """A pool with another token is no new pool: no document of it is rendered empty, and its first ledger stays."""
    historian, (place,) = Historian(MemoryStore()), places(1, 1)
    one, later, now = (observe(Random(1), [place], LEDGER + number, MONDAY + number * 86_400) for number in range(3))
    historian.run(one, LEDGER, MONDAY)
    historian.run(later, LEDGER + 1, MONDAY + 86_400)
    series = load_series(historian.store, read_history_manifest(historian.store), LEDGER + 2)
    rows = observations_of(frame_of([replace(now[0], token=places(1, 2)[1][1])], LEDGER + 2, MONDAY + 86_400 + 5))
    unchanged = series.still_open(LEDGER + 1, MONDAY + 86_400 + 5)
    list(series.extend(rows, LEDGER + 2, MONDAY + 86_400 + 5))
    keys = [file.key for file in series.newest_documents(unchanged)]

    assert [] == [key for key in keys if place[1] in key]
    assert {place: LEDGER} == series.pools_first_seen


def test_a_pool_that_vanishes_keeps_its_history() -> None:
    """The newest document of a pool that is no longer read stays as it was once its last bucket had closed."""
    random = Random(3)
    historian = Historian(MemoryStore())
    gone, stays = places(1, 2)
    historian.run(observe(random, [gone, stays], LEDGER, MONDAY), LEDGER, MONDAY)
    later = MONDAY + 300 * 86_400
    historian.run(observe(random, [stays], LEDGER + 9, later), LEDGER + 9, later)
    historian.run([], LEDGER + 10, later + 5)

    for bucket in ("5m", "1w"):
        (page,) = historian.walk(gone, bucket)
        assert (LEDGER, [LEDGER]) == (page["observed_ledger"], [row["last_ledger"] for row in page["data"]])
    historian.assert_as_recomputed()


def test_a_pool_that_is_missing_from_a_bucket_is_missing_from_the_counts() -> None:
    """A total without one of its pools says of how many it is; one without any price is null, and never zero.

    A pool of less than 1,000 dollars does not count for the best rates.
    """
    historian = Historian(MemoryStore())
    one, other = places(1, 2)
    priced = [
        replace(
            item,
            price=(10**7, 7),
            tvl_usd_cents=10**6,
            total_supplied=10**6 * (1 + 2 * number),
            total_borrowed=5 * (1 + number),
            supply_apy_bps=(900, 400)[number],
            borrow_apy_bps=(100, 200)[number],
            decimals=2,
            active=True,
            listed=True,
        )
        for number, item in enumerate(observe(Random(2), [one, other], LEDGER, MONDAY))
    ]
    unpriced = replace(priced[1], price=None, tvl_usd_cents=None)
    small = [replace(item, tvl_usd_cents=99_999 + number) for number, item in enumerate(priced)]
    closed = [replace(priced[0], active=False), priced[1]]
    lent_out = [replace(priced[0], total_borrowed=10**6), priced[1]]
    runs: tuple[list[Observation], ...] = (
        *(priced, [priced[0]], [priced[0], unpriced], [unpriced], small, closed, lent_out),
        [],
    )
    for number, observed in enumerate(runs):
        ledger, time = LEDGER + number, MONDAY + 86_400 * number
        historian.run([replace(item, ledger=ledger, time=time) for item in observed], ledger, time)
    [document] = historian.walk(("network", "network"), "1d")
    rows = document["data"]

    assert [("2000000", 2, 2), ("1000000", 1, 1), ("1000000", 2, 1), (None, 1, 0)] == [
        (row["tvl_usd_cents"], row["pool_count"], row["priced_count"]) for row in rows[:4]
    ]
    assert [("4000000", "15"), ("1000000", "5")] == [
        (row["supplied_usd_cents"], row["borrowed_usd_cents"]) for row in rows[:2]
    ]
    assert (525, 166, 1) == tuple(
        rows[0][name] for name in ("mean_supply_apy_bps", "mean_borrow_apy_bps", "market_count")
    )
    more_a_year, more_to_pay = MONDAY % 11, MONDAY % 13
    assert (525 + more_a_year, 166 + more_to_pay, 900 + more_a_year, 100 + more_to_pay) == tuple(
        rows[0][f"{what}_comparable_{side}_apy_bps"] for what in ("mean", "best") for side in ("supply", "borrow")
    )
    assert [(900, 100), (400, 200), (400, 200), (900, 200)] == [
        (row["best_supply_apy_bps"], row["best_borrow_apy_bps"]) for row in (rows[0], *rows[4:7])
    ]


def test_first_seen_is_kept() -> None:
    """A token that vanishes and comes back has the ledger at which it came first, with the state and without."""
    historian = Historian(MemoryStore())
    one, other = places(1, 2)
    for number, present in enumerate(([one], [one, other], [other], [one, other])):
        ledger, time = LEDGER + number, MONDAY + number * 3600
        observed = observe(Random(number), present, ledger, time)
        with_state = historian.carry_on(observed, ledger, time)[0].tokens_first_seen
        historian.run(observed, ledger, time)
        state = historian.store.get(STATE_KEY)
        historian.store.delete([STATE_KEY])
        assert with_state == historian.carry_on(observed, ledger, time)[0].tokens_first_seen
        assert state is not None
        historian.store.put(STATE_KEY, state.data)

    assert {one[1]: LEDGER, other[1]: LEDGER + 1} == with_state


def test_runs_of_one_second_are_in_one_bucket() -> None:
    """A later ledger that closed in the same second is accepted, and counts in the same buckets."""
    historian, (place,) = Historian(MemoryStore()), places(1, 1)
    for number, time in enumerate((MONDAY, MONDAY, MONDAY + 86_400)):
        historian.run(observe(Random(number), [place], LEDGER + number, time), LEDGER + number, time)
    [document] = historian.walk(place, "1d")

    assert [(LEDGER, LEDGER + 1, 2)] == [
        (row["first_ledger"], row["last_ledger"], row["observation_count"]) for row in document["data"]
    ]


@pytest.mark.parametrize(("ledger", "time"), [(LEDGER + 1, MONDAY - 1), (LEDGER, MONDAY + 60)])
def test_time_does_not_go_backwards(ledger: int, time: int) -> None:
    """A later ledger that closed earlier, or a ledger that is in the series already, is refused."""
    historian = Historian(MemoryStore())
    historian.run(observe(Random(1), places(1, 1), LEDGER, MONDAY), LEDGER, MONDAY)
    manifest = read_history_manifest(historian.store)
    series = load_series(historian.store, manifest, LEDGER + 1)

    with pytest.raises(CheckError, match=f"the history already has ledger {LEDGER}"):
        list(series.extend(pl.DataFrame(schema=OBSERVATIONS), ledger, time))


def regular(length: int, count: int) -> pl.DataFrame:
    """Observations of one pool, one in each of this many buckets."""
    place = places(1, 1)
    rows = observations_of(frame_of(observe(Random(5), place, LEDGER, MONDAY), LEDGER, MONDAY))
    runs = pl.DataFrame(
        {
            "observed_ledger": range(LEDGER, LEDGER + count),
            "ledger_close_time": range(MONDAY, MONDAY + length * count, length),
        }
    )
    return rows.drop(runs.columns).join(runs, how="cross").select(OBSERVATIONS.keys())


@pytest.mark.parametrize("count", [3 * 288, 3 * 288 + 1])
def test_five_minutes_reach_back_a_day(count: int) -> None:
    """The newest document of 5m has at most 3 hours, its pages go back a day, and none of them was there for longer."""
    series = Series()
    rows = regular(300, count)
    ledger, time = rows.select(NEWEST).row(-1)
    pages = {file.key: json.loads(file.data) for file in series.extend(rows, ledger, time)}
    place = places(1, 1)[0]
    newest = next(
        json.loads(file.data) for file in series.newest_documents() if file.key.endswith(f"{place[1]}/history/5m.json")
    )
    starts = [row["start_time"] for row in newest["data"]]
    page = newest
    while (key := f"v1/buckets/{page['next_cursor']}.json") in pages:
        page = pages[key]
        starts = [row["start_time"] for row in page["data"]] + starts

    assert len(newest["data"]) <= 36
    assert sorted(starts) == starts
    assert iso(time - 86_400) >= starts[0] > iso(time - 86_400 - 3 * 3_600)
    assert page["next_cursor"] is not None
    assert sum(page["bucket"] == "5m" for page in pages.values()) <= 9


@pytest.mark.parametrize("apart", [HOUR.seconds, pytest.param(60 * HOUR.seconds, marks=pytest.mark.slow)])
def test_pools_that_had_a_price(apart: int) -> None:
    """A pool had one since a time if a run of that time's hour or later had one; one that never had any never had."""
    historian = Historian(MemoryStore())
    (never, early, late), ledger = places(1, 3), LEDGER
    for number in range(8):
        time = MONDAY + apart * number
        priced = late if number > 3 else early
        observed = [
            replace(item, price=(7, 7) if item.place == priced else None, tvl_usd_cents=None)
            for item in observe(Random(number), [never, early, late], ledger + number, time)
        ]
        series, _ = historian.carry_on(observed, ledger + number, time)
        historian.run(observed, ledger + number, time)
    last_of_early, last_of_late = MONDAY + 3 * apart, MONDAY + 7 * apart

    assert {early, late} == series.priced_since(MONDAY)
    assert {early, late} == series.priced_since(last_of_early + HOUR.seconds - 1)
    assert {late} == series.priced_since(last_of_early + HOUR.seconds)
    assert {late} == series.priced_since(last_of_late + HOUR.seconds - 1)
    assert set() == series.priced_since(last_of_late + HOUR.seconds)


# -- what is kept between runs: used when it fits the manifest, recomputed when it does not ----------------------------


def after_runs(count: int, step: int = 1800, pools: int = 2) -> Historian:
    """A store after some runs."""
    historian = Historian(MemoryStore())
    random = Random(count)
    for number in range(count):
        ledger, time = LEDGER + number, MONDAY + number * step
        historian.run(observe(random, places(1, pools), ledger, time), ledger, time)
    return historian


def loaded(historian: Historian, before: int) -> Series:
    return load_series(historian.store, read_history_manifest(historian.store), before)


@pytest.mark.parametrize("damage", ["cut", "flipped", "version"])
def test_a_damaged_state_is_not_used(damage: str) -> None:
    """Whatever happened to the state, it is either whole or not used at all."""
    historian = after_runs(3)
    state = historian.store.get(STATE_KEY)
    assert state is not None
    data = bytearray(state.data)
    if damage == "version":
        kept = msgspec.msgpack.decode(bytes(data[32:])) | {"version": 0}
        other = msgspec.msgpack.encode(kept)
        historian.store.put(STATE_KEY, hashlib.sha256(other).digest() + other)
    else:
        data[-1] ^= damage == "flipped"
        historian.store.put(STATE_KEY, bytes(data[: len(data) - (damage == "cut")]))

    assert 0 == loaded(historian, LEDGER + 3).through_ledger


@pytest.mark.slow
def test_older_days_are_read_by_who_renders_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that renders no day leaves the older days alone. Others read them, or compute them again if lost."""
    historian = Historian(MemoryStore())
    days = DAY.page_buckets * (DAY.pages + 2)
    for number in (*range(0, days, 24), days, days + 1):
        time = MONDAY + number * DAY.seconds
        historian.run(observe(Random(number), places(1, 1), LEDGER + number, time), LEDGER + number, time)
    older = historian.store.get(OLDER_KEY)
    assert older is not None
    asked, get = list[str](), historian.store.get

    def noting(key: str) -> StoredObject | None:
        asked.append(key)
        return get(key)

    monkeypatch.setattr(historian.store, "get", noting)
    for found in (older.data, older.data[::-1], b"", None):
        if found is None:
            historian.store.delete([OLDER_KEY])
        else:
            historian.store.put(OLDER_KEY, found)
        asked.clear()
        series = loaded(historian, LEDGER + days + 2)
        assert (encoded_state(series), []) == (encoded_state(loaded(historian, LEDGER + days + 2)), asked_for(asked))
        kept = series.pools.get(OLDER)

        assert kept.equals(pl.read_parquet(older.data))
        assert kept.height
        assert [OLDER_KEY] == asked_for(asked)


def test_lost_older_days_are_stored_again() -> None:
    """The next run that renders days computes them from the history and stores them; later runs have them."""
    historian = Historian(MemoryStore())
    days = DAY.page_buckets * (DAY.pages + 2)

    def run(number: int) -> None:
        time = MONDAY + number * DAY.seconds
        historian.run(observe(Random(number), places(1, 1), LEDGER + number, time), LEDGER + number, time)

    for number in (*range(0, days, 60), days, days + 1):
        run(number)
    older = historian.store.get(OLDER_KEY)
    historian.store.delete([OLDER_KEY])
    run(days + 2)

    assert older is not None
    assert older == historian.store.get(OLDER_KEY)


def asked_for(asked: list[str]) -> list[str]:
    """How often the older days were asked for."""
    return [key for key in asked if key == OLDER_KEY]


def test_a_state_of_another_history_is_not_used() -> None:
    """A state with other observations than the manifest lists, or of ledgers from the run on, is left alone."""
    historian = after_runs(4)
    manifest = manifest_of(historian.store)
    shorter = msgspec.structs.replace(manifest, files=manifest.files[:-1])
    other = msgspec.structs.replace(
        manifest, files=[msgspec.structs.replace(manifest.files[0], rows=3), *manifest.files[1:]]
    )

    assert LEDGER + 3 == load_series(historian.store, manifest, LEDGER + 4).through_ledger
    assert 0 == load_series(historian.store, manifest, LEDGER + 3).through_ledger
    assert 0 == load_series(historian.store, shorter, LEDGER + 4).through_ledger
    assert 0 == load_series(historian.store, other, LEDGER + 4).through_ledger
    assert 0 == load_series(historian.store, None, LEDGER + 4).through_ledger


def test_a_state_of_a_run_without_rows_that_the_history_lacks_is_not_used() -> None:
    """A run without rows changes no row count. The state that has it fits only a history that has it, too."""
    historian = after_runs(1)
    before = manifest_of(historian.store)
    historian.run([], LEDGER + 1, MONDAY + 300)

    assert LEDGER + 1 == loaded(historian, LEDGER + 2).through_ledger
    assert 0 == load_series(historian.store, before, LEDGER + 2).through_ledger


@pytest.mark.parametrize("damage", ["is missing", "is not the file", "has 5 rows, but it has 2"])
def test_a_lost_history_file_is_named(damage: str) -> None:
    """A file that the manifest names and the store does not have, or has otherwise, is an error and no gap."""
    historian = after_runs(3)
    manifest = manifest_of(historian.store)
    key = manifest.files[1].key
    if damage.startswith("has"):
        manifest.files[1] = msgspec.structs.replace(manifest.files[1], rows=5)
    else:
        historian.store.delete([key])
    if damage == "is not the file":
        historian.store.put(key, b"PAR1")

    with pytest.raises(StoreError, match=f"{key} {damage}"):
        list(catch_up(historian.store, manifest, LEDGER + 3, Series()))
    manifest.files[1] = msgspec.structs.replace(manifest.files[1], rows=2)
    # A series that knows it already has no need of it.
    assert [] == list(catch_up(historian.store, manifest, LEDGER + 3, loaded(historian, LEDGER + 3)))
