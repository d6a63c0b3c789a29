"""Conditional writes of single objects, and what is made of it when a condition was not met.

Every write is conditional: on there being no object, or on the etag of the one that was seen. So a publisher that lost
its hold without noticing cannot replace what a later one wrote. When a condition fails, the writer reads what is
there now: its own bytes, where an earlier attempt took effect and only its answer was lost, are as good as a success.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from exporter.errors import ImmutableKeyError, LostRaceError, StoreError
from exporter.stores.s3_client import RefusedError, S3Client
from exporter.stores.s3_headers import ObjectHeaders
from exporter.stores.store import immutable_key_message, moved_message

PUT_RIGHT = "s3:PutObject"

ROUNDS = 4
"""How often a write is begun again when the object vanishes between the refusal and the look."""


class Placed(NamedTuple):
    """The current etag of the object, and whether it was written just now."""

    etag: str
    written: bool


class Writer:
    """Writes objects under a condition. Its methods may be called by many threads."""

    def __init__(self, client: S3Client, may_write: Callable[[], None]) -> None:
        """Begin.

        Args:
            client: to write and to look with.
            may_write: raises when nothing may be written any more; asked before every attempt.
        """
        self._client = client
        self._may_write = may_write

    def create(self, key: str, data: bytes, headers: ObjectHeaders) -> Placed:
        """Write an immutable object, unless the same bytes are there.

        Raises:
            ImmutableKeyError: other bytes are there.
        """
        for _ in range(ROUNDS):
            refused = self._put(key, data, headers, None)
            if isinstance(refused, str):
                return Placed(refused, True)
            current = self._client.get(key)
            if current is not None:
                if current.data != data:
                    raise ImmutableKeyError(immutable_key_message(key))
                return Placed(current.etag, refused.doubtful)
        raise StoreError(f"{key} is removed again and again while it is written; another publisher may be at work")

    def replace(
        self,
        key: str,
        data: bytes,
        headers: ObjectHeaders,
        expected: str | None,
        *,
        ours_alone: bool = False,
    ) -> Placed:
        """Write an object if the one with the expected etag is still there (None: if there is none).

        Args:
            key: its key.
            data: its bytes.
            headers: its headers.
            expected: the etag of what is to be replaced.
            ours_alone: the same bytes count only where this call may have written them.

        Raises:
            LostRaceError: something else is there.
        """
        connection = self._client.connection
        quoted = connection.quotes_etags
        for _ in range(ROUNDS):
            match = f'"{expected}"' if quoted and expected is not None else expected
            refused = self._put(key, data, headers, match)
            if isinstance(refused, str):
                connection.quotes_etags = quoted
                return Placed(refused, True)
            current = self._client.get(key)
            if current is not None and current.data == data and (refused.doubtful or not ours_alone):
                return Placed(current.etag, refused.doubtful)
            if (None if current is None else current.etag) != expected:
                raise LostRaceError(moved_message(key))
            quoted = quoted and expected is None
        raise StoreError(
            f"the server refuses to write {key} unless it changed; it does not implement "
            "conditional writes as S3 does, and nothing can be published to it safely"
        )

    def _put(self, key: str, data: bytes, headers: ObjectHeaders, match: str | None) -> str | RefusedError:
        """Write an object: its etag, or the refusal because of the condition."""
        try:
            return self._client.attempts.make(lambda: self._client.put(key, data, headers, match), self._may_write)
        except RefusedError as refused:
            if refused.condition_failed or (refused.status == 409 and not refused.passing):
                return refused
            raise self._client.error(refused, "write", key, PUT_RIGHT) from refused
