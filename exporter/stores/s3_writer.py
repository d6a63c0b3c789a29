"""Conditional writes of single objects, and what is made of it when a condition was not met.

Every write is conditional: on there being no object, or on the etag of the one that was seen. So a publisher that lost
its hold without noticing cannot replace what a later one wrote. When a condition fails, the writer reads what is
there now: its own bytes, where an earlier attempt took effect and only its answer was lost, are as good as a success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from exporter.errors import ImmutableKeyError, LostRaceError, StoreError
from exporter.stores.s3_client import SHA256, RefusedError, S3Client
from exporter.stores.store import etag_of, immutable_key_message, moved_message
from exporter.tree.families import family_of, kind_of
from exporter.tree.headers import cache_control, content_type

PUT_RIGHT = "s3:PutObject"

PRIVATE = "private, no-store"
"""The cache lifetime of the publisher's own records, which no edge should serve at all."""

LEASE_KEY = ".exporter.lease"
"""Who is publishing. No key of a store can begin with a dot, so listings, sweeps and checks never meet it."""

ROUNDS = 4
"""How often a write is begun again when the object vanishes between the refusal and the look."""


def object_headers(key: str, data: bytes) -> Mapping[str, Any]:
    """Content type, cache lifetime and digest, as boto3 takes them; they depend on the key and the bytes alone."""
    family = family_of(key)
    private = family is not None and not family.public
    kind = "application/json" if key == LEASE_KEY else content_type(key)
    return {
        "ContentType": kind or "application/octet-stream",
        "CacheControl": PRIVATE if private else cache_control(kind_of(key)),
        "Metadata": {SHA256: etag_of(data)},
    }


class Placed(NamedTuple):
    """The current etag of the object, and whether it was written just now."""

    etag: str
    written: bool


def write_object(
    client: S3Client,
    may_write: Callable[[], None],
    key: str,
    data: bytes,
    expected: str | None,
    *,
    immutable: bool = False,
    document: str | None = None,
    ours_alone: bool = False,
) -> Placed:
    """Write an object if the one with the ``expected`` etag is still there (None: if there is none).

    ``may_write`` raises when nothing may be written any more; it is asked before every attempt. ``document`` is the one
    that this is the alias of. With ``ours_alone`` the same bytes count only where this call may have written them.
    Raises `ImmutableKeyError`, `LostRaceError`.
    """
    headers = object_headers(document or key, data)
    quoted = client.quotes_etags
    for _ in range(ROUNDS):
        match = f'"{expected}"' if quoted and expected is not None else expected
        try:
            etag = client.attempt(partial(client.put, key, data, headers, match), may_write)
        except RefusedError as refused:
            if not refused.condition_failed and (refused.status != 409 or refused.passing):
                raise client.error(refused, "write", key, PUT_RIGHT) from refused
            doubtful = refused.doubtful
        else:
            client.quotes_etags = quoted
            return Placed(etag, True)
        current = client.get(key)
        if current is not None and current.data == data and (doubtful or not ours_alone):
            return Placed(current.etag, doubtful)
        if current is not None and immutable:
            raise ImmutableKeyError(immutable_key_message(key))
        if (None if current is None else current.etag) != expected:
            raise LostRaceError(moved_message(key))
        quoted = quoted and expected is None
    if expected is None:
        raise StoreError(f"{key} is removed again and again while it is written; another publisher may be at work")
    raise StoreError(
        f"the server refuses to write {key} unless it changed; it does not implement "
        "conditional writes as S3 does, and nothing can be published to it safely"
    )
