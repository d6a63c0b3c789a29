"""A publish over an earlier one, disturbed at every single call that it makes to the bucket, one after the other.

After each the old run or the new one is published and whole, and a later run repairs what was left and completes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from exporter.errors import ExitCode, LostRaceError, StoreError
from exporter.stores.s3_client import LEASE_KEY, S3Options
from exporter.stores.s3_store import S3Store
from tests.examples import spread, strides
from tests.s3.places import (
    AFTER_ITS_LEASE,
    FAST,
    GUARD_SECONDS,
    ONE_BY_ONE,
    JumpingClock,
    WirePlace,
    assert_readable,
    assert_settled,
    attempt,
    begins_to_pause,
    code_of,
    hold_up,
    open_place,
    publish_ledger,
)
from tests.s3.wire_bucket import PASSING, Answer, Stored, WireBucket

OLD, NEW, LATER, LAST = 100, 102, 103, 105
WORKERS = 8
"""How many cases are done at a time if all are."""


def options_for(fault: str, seconds: float = FAST.read_seconds) -> S3Options:
    """Options of a client that waits briefly for a dead server, and otherwise as long as a busy machine needs."""
    if not fault.startswith("no answer"):
        return ONE_BY_ONE
    return replace(ONE_BY_ONE, connect_seconds=seconds, read_seconds=seconds)


class Scene:
    """A bucket in which the old run is published, each time it is set."""

    def __init__(self) -> None:
        self.clock = JumpingClock()
        self.bucket = WireBucket(self.clock)
        self.place = WirePlace(self.bucket)
        self._base: dict[str, Stored] = {}
        self._stores: list[S3Store] = []

    def __enter__(self) -> Scene:
        self.bucket.__enter__()
        publish_ledger(self.store("old"), OLD)
        self._base = dict(self.bucket.objects)
        return self

    def __exit__(self, *_: object) -> None:
        self._close_stores()
        self.bucket.__exit__(None, None, None)

    def store(self, client: str, options: S3Options = ONE_BY_ONE) -> S3Store:
        """A store of a client of this name, until the scene is set again."""
        made = open_place(self.place, client, options)
        self._stores.append(made)
        return made

    def _close_stores(self) -> None:
        while self._stores:
            self._stores.pop().close()

    def set(self) -> None:
        """Restore the state in which the old run is published."""
        self._close_stores()
        with self.bucket.lock:
            self.bucket.forget()
            self.bucket.objects.clear()
            self.bucket.objects.update(self._base)

    def calls(self) -> int:
        """How many calls an undisturbed publish of the new run makes."""
        self.set()
        publish_ledger(self.store("counted"), NEW)
        assert_settled(self.place, NEW)
        return len(self.bucket.calls_of("counted"))


def every_case(names: list[str], case: Callable[[Scene, str, int], bool], stride: int) -> dict[tuple[str, int], bool]:
    """Do a case for every fault at every call, some at a time, each in a bucket of its own; or few, in one bucket."""

    def done(scene: Scene, cases: list[tuple[str, int]]) -> dict[tuple[str, int], bool]:
        found = {}
        for name, position in cases:
            try:
                found[name, position] = case(scene, name, position)
            except BaseException as error:
                error.add_note(f"{name} at call {position}: {scene.bucket.calls_of('disturbed')}")
                raise
        return found

    with Scene() as scene:
        calls = scene.calls()
        assert calls > 40
        wanted = spread([(name, position) for name in names for position in range(calls)], stride)
        if stride > 1:
            return done(scene, wanted)

    def work(start: int) -> dict[tuple[str, int], bool]:
        with Scene() as scene:
            return done(scene, wanted[start::WORKERS])

    with ThreadPoolExecutor(WORKERS) as pool:
        return {key: result for found in pool.map(work, range(WORKERS)) for key, result in found.items()}


def passing(scene: Scene, name: str, position: int) -> bool:
    """Something passes by: the run does not even notice."""
    scene.set()
    scene.bucket.disturb("disturbed", position, PASSING[name])
    publish_ledger(scene.store("disturbed", options_for(name, 2.0)), NEW)

    assert_settled(scene.place, NEW)
    return True


def lasting(scene: Scene, name: str, position: int) -> bool:
    """A fault that lasts: the run fails with an error that names it, readers are served, and a later run repairs all.

    Gives whether the run had become the published one.
    """
    scene.set()
    client = "disturbed"
    if name == "dies":
        scene.bucket.kill(client, position)
    else:
        fault = Answer(403, "AccessDenied") if name == "access denied" else PASSING[name]
        scene.bucket.disturb(client, position, fault, more=10_000)
    error = attempt(scene.store(client, options_for(name)), NEW)
    scene.bucket.calm()
    if error is not None:
        assert isinstance(error, StoreError | LostRaceError)
        assert error.__cause__ is not None or isinstance(error, LostRaceError)

    published = assert_readable(scene.place, OLD, NEW)
    assert error is not None or published == NEW
    if b'"holder":"' in scene.place.objects()[LEASE_KEY]:
        with pytest.raises(LostRaceError):  # it may still be at work, for all the others can know
            publish_ledger(scene.store("hasty"), LATER)
    scene.clock.advance(AFTER_ITS_LEASE)
    if published == OLD and position % 2:
        publish_ledger(scene.store("again"), NEW)
        assert_settled(scene.place, NEW)
    publish_ledger(scene.store("later"), LATER)
    assert_settled(scene.place, LATER)
    return published == NEW


def pausing(scene: Scene, name: str, position: int) -> bool:
    """A run pauses until its hold is over and a newer run is published, and then goes on.

    Its own clock paused as well, so it believes in its hold: only the conditions of its writes can stop it. Gives
    whether it succeeded, as it does only if its status document had been swapped.
    """
    scene.set()
    stall = hold_up(scene.bucket, "disturbed", position)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(attempt, scene.store("disturbed"), NEW)
        try:
            begins_to_pause(scene.bucket, "disturbed", stall)
            scene.clock.advance(AFTER_ITS_LEASE)
            publish_ledger(scene.store("newer"), LATER)
            assert_settled(scene.place, LATER)
        finally:
            stall.until.set()
        error = running.result(GUARD_SECONDS)
    assert code_of(error) in (0, ExitCode.LOST_RACE, ExitCode.SOURCE)
    assert_settled(scene.place, LATER)
    scene.clock.advance(AFTER_ITS_LEASE)
    publish_ledger(scene.store("last"), LAST)
    assert_settled(scene.place, LAST)
    return error is None


@strides(613)
def test_something_passes_by(stride: int) -> None:
    """A call that is refused, lost or cut off once is repeated, and the run is published as if nothing had been."""
    assert every_case([*PASSING], passing, stride)


@strides(523)
def test_readers_keep_their_run_if_every_later_call_fails(stride: int) -> None:
    """If every call from one on fails, readers keep the run that they have, and a later run completes."""
    names = [*PASSING, "access denied", "dies"]
    if stride > 1:  # without an answer a case takes seconds
        names = [name for name in names if not name.startswith("no answer")]
    assert_switched(every_case(names, lasting, stride), stride)


@strides(97)
def test_a_run_that_pauses(stride: int) -> None:
    """A run that goes on too late takes nothing back from the newer one, wherever it paused."""
    assert_switched(every_case(["pauses"], pausing, stride), stride)


def assert_switched(became: dict[tuple[str, int], bool], stride: int) -> None:
    """Check that the swap of the status document, near the end, is what publishes the new run."""
    for name in {name for name, _ in became}:
        switched = [became[key] for key in sorted(became) if key[0] == name]
        assert sorted(switched) == switched
        assert stride > 1 or 1 <= switched.count(True) <= 10
