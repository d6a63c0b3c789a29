"""The headers of each object of a bucket: content type, cache lifetime, and the digest of its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.stores.store import etag_of
from exporter.tree.families import family_of, is_alias, kind_of
from exporter.tree.headers import cache_control, content_type

SHA256 = "sha256"
"""The name of the digest among an object's metadata."""

PRIVATE = "private, no-store"
"""The cache lifetime of the publisher's own records, which no edge should serve at all."""

LEASE_KEY = ".exporter.lease"
"""Who is publishing. No key of a store can begin with a dot, so listings, sweeps and checks never meet it."""

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ObjectHeaders:
    """The headers of one object."""

    content_type: str
    cache_control: str
    metadata: Mapping[str, str]


def object_headers(key: str, data: bytes, document: str | None = None) -> ObjectHeaders:
    """The headers of an object.

    The digest depends on the bytes alone, never on the run, so an unchanged object stays as it is.

    Args:
        key: its key in the store.
        data: its bytes.
        document: the document that it is the alias of, if it is one.
    """
    key = document or key
    family = family_of(key)
    if family is not None and not family.public:
        lifetime = PRIVATE
    else:
        lifetime = cache_control(kind_of(key))
    kind = _JSON if is_alias(key) or key == LEASE_KEY else content_type(key)
    return ObjectHeaders(kind or "application/octet-stream", lifetime, {SHA256: etag_of(data)})
