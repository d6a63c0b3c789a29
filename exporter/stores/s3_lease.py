"""The lease of a publisher on an S3 bucket: a small object that names its holder, who renews it while it works.

A bucket has no lock that ends with the process that took it. So a lease ends by itself, ``lease_seconds`` after it was
last renewed. Other publishers judge that by the server's clock alone, which is the ``Date`` of an answer against the
``Last-Modified`` of the lease. The holder counts from the moment at which it asked for the last renewal, so that its
lease never ends later by its own clock than by the server's. It writes nothing once less time is left than a request
may take.

That keeps two honest publishers apart. A machine that was suspended at the wrong moment may still send a request after
its lease ended. Therefore every write has a condition, too (`S3Client.write`).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, timedelta

import msgspec

from exporter.errors import ConfigError, ExporterError, LostRaceError
from exporter.stores.s3_client import LEASE_KEY, PUT_RIGHT, BucketObject, S3Client, object_headers
from exporter.stores.s3_errors import RefusedError
from exporter.stores.store import in_parallel
from exporter.tree.decoding import decode_json

MAX_LEASE_SECONDS = 3600
"""Longest lease that is believed."""

CLOCK_GRACE_SECONDS = 2
"""Time that others wait after a lease ended, because the server's times are cut to whole seconds."""

MAX_ROUNDS = 3
"""How often a publisher tries to take a lease that somebody else changes at the same moment."""

Monotonic = Callable[[], float]
"""A function that returns the seconds of a clock that never goes back."""


class _Lease(msgspec.Struct, frozen=True):
    """The content of the lease.

    Attributes:
        holder: a random name of the publisher; None for a lease that nobody holds.
        lease_seconds: how long it lasts after it was written.
        renewals: how often it was renewed, so that every renewal has other bytes and another etag.
    """

    holder: str | None
    lease_seconds: float
    renewals: int


def monotonic() -> float:
    """Seconds since the machine started. On Linux they include the time during which it was suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Lease:
    """The lease of one publisher. `acquire` takes it, a thread renews it, and `release` gives it back."""

    def __init__(self, client: S3Client, clock: Monotonic) -> None:
        self._client, self._uri = client, client.uri
        self._options = client.options
        self._clock = clock
        self._holder: str | None = secrets.token_hex(16)
        self._renewals = 0
        self._etag = ""
        self._ends = 0.0  # by our clock, which is never later than the end by the server's clock
        self._lost = ""
        self._ended = threading.Event()
        self._renewing = threading.Lock()
        self._thread = threading.Thread(target=self._renew_until_released, name="s3-lease", daemon=True)

    @classmethod
    def acquire(cls, client: S3Client, *, clock: Monotonic = monotonic, renewing: bool = True) -> Lease:
        """Take the lease. Raises `LostRaceError` at once if somebody else holds it.

        With ``renewing=False``, the caller has to renew it.
        """
        lease = cls(client, clock)
        lease._take()
        if renewing:
            lease._thread.start()
        return lease

    @classmethod
    def write_free(cls, client: S3Client, clock: Monotonic) -> None:
        """Write a lease that nobody holds. Raises `LostRaceError` if somebody holds it."""
        lease = cls(client, clock)
        lease._holder = None
        lease._take()

    def check(self) -> None:
        """Raise `LostRaceError` if the lease was lost, or may end before a request does that begins now."""
        if self._lost:
            raise LostRaceError(self._lost)
        if self._clock() + self._options.margin_seconds >= self._ends:
            self._lose("it could not be renewed in time")
            raise LostRaceError(self._lost)

    def confirm(self) -> None:
        """Ask the server whether the lease is still ours. Raises `LostRaceError` if it is not."""
        with self._renewing:
            head = self._client.head(LEASE_KEY)
            if head is None or head.etag != self._etag:
                self._lose("another publisher took it")
                raise LostRaceError(self._lost)

    def renew(self) -> None:
        """Make the lease last ``lease_seconds`` from now on.

        Raises `LostRaceError` if somebody else took it. After a `StoreError` the lease is as it was.
        """
        with self._renewing:
            asked = self._clock()
            self._renewals += 1
            try:
                self._etag = self._write(self._holder, self._etag, self._refuse_after_release)
            except LostRaceError:
                self._lose("another publisher took it")
                raise LostRaceError(self._lost) from None
            self._ends = asked + self._options.lease_seconds

    def release(self) -> None:
        """Give the lease back, so that another publisher can take it at once."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._lost:
            return
        self._renewals += 1
        # It is overwritten, because not every server can delete on a condition. If this fails, the lease runs out.
        with suppress(ExporterError):
            self._write(None, self._etag)

    def _take(self) -> None:
        for _ in range(MAX_ROUNDS):
            asked = self._clock()
            current = self._client.get(LEASE_KEY)
            if current is not None:
                self._refuse_if_held(current)
            with suppress(LostRaceError):
                self._etag = self._write(self._holder, None if current is None else current.etag)
                self._ends = asked + self._options.lease_seconds
                self._refuse_careless_server()
                return
        raise LostRaceError(f"another publisher got hold of {self._uri} at this moment; let it finish and run again")

    def _refuse_if_held(self, current: BucketObject) -> None:
        try:
            lease = decode_json(current.data, _Lease)
        except msgspec.DecodeError:
            lease = _Lease("", -1, 0)
        if lease.holder is None:
            return
        believable = 0 <= lease.lease_seconds <= MAX_LEASE_SECONDS
        seconds = lease.lease_seconds if believable else self._options.lease_seconds
        until = current.modified + timedelta(seconds=seconds + CLOCK_GRACE_SECONDS)
        if current.answered < until:
            raise LostRaceError(
                f"another publisher holds {self._uri} until {until.astimezone(UTC):%H:%M:%S} UTC, or longer while it "
                "works; let it finish and run again"
            )

    def _refuse_careless_server(self) -> None:
        """Raise `ConfigError` if the server accepts a write whose condition is not met. Asked once for each client."""
        if self._client.conditions_work:
            return
        body = self._body(self._holder)

        def check_refused(match: str | None) -> None:
            try:
                self._client.attempt(lambda: self._client.put(LEASE_KEY, body, object_headers(LEASE_KEY, body), match))
            except RefusedError as refused:
                if refused.status != 412:
                    raise self._client.error(refused, "write", LEASE_KEY, PUT_RIGHT) from refused
                return
            raise ConfigError(
                f"output.uri: the server of {self._uri} ignores If-{'None-' if match is None else ''}Match, so two "
                "publishers could overwrite each other; use AWS S3, Cloudflare R2, Ceph RADOS Gateway, "
                "MinIO or SeaweedFS"
            )

        unmet_conditions = (None, f'"{"0" * 32}"')
        workers = min(len(unmet_conditions), self._options.concurrency)
        for _ in in_parallel(unmet_conditions, check_refused, workers=workers, stop=threading.Event()):
            pass
        self._client.conditions_work = True

    def _renew_until_released(self) -> None:
        pause = self._options.lease_seconds / 5
        while not self._ended.wait(pause):
            try:
                self.renew()
                pause = self._options.lease_seconds / 5
            except (LostRaceError, _ReleasedError):
                return
            except Exception:
                # Whatever it is, it may pass. If it does not, the lease runs out, and `check` says so.
                pause = self._options.lease_seconds / 20

    def _write(self, holder: str | None, expected: str | None, may_write: Callable[[], None] | None = None) -> str:
        return self._client.write(LEASE_KEY, self._body(holder), expected, may_write=may_write)[0]

    def _refuse_after_release(self) -> None:
        if self._ended.is_set():
            raise _ReleasedError

    def _body(self, holder: str | None) -> bytes:
        return msgspec.json.encode(_Lease(holder, self._options.lease_seconds, self._renewals))

    def _lose(self, why: str) -> None:
        self._lost = (
            f"the hold on {self._uri} was lost ({why}); another publisher may be at work there, so this run was not "
            "finished. Run again"
        )


class _ReleasedError(Exception):
    """The lease is being released, so it need not be renewed any more."""
