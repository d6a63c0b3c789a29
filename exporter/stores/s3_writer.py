"""Conditional writes of single objects, and what is made of it when a condition was not met.

Every write is conditional: on there being no object, or on the etag of the one that was seen. So a publisher that lost
its hold without noticing cannot replace what a later one wrote. When a condition fails, the writer looks what stands
there now: its own bytes, where an earlier attempt took effect and only its answer was lost, are as good as a success.

Objects are sent by obstore, whose requests do not wait for the interpreter, or by boto3 where obstore cannot. Both make
a single attempt, with the same headers and under the same condition, and let their own errors out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol

from exporter.errors import ImmutableKeyError, LostRaceError, StoreError
from exporter.stores.s3_client import RefusedError, S3Client, S3Connection
from exporter.stores.s3_headers import ObjectHeaders
from exporter.stores.store import immutable_key_message, moved_message

if TYPE_CHECKING:
    from obstore.store import S3Store as ObstoreBucket

    from exporter.stores.s3_client import S3Client


PUT_RIGHT = "s3:PutObject"

ROUNDS = 4
"""So often a write is begun again when the object vanishes between the refusal and the look."""

_CREDENTIALS_AGE = timedelta(minutes=2)
"""boto3 is asked for the credentials again after so long; it renews those that are about to expire."""


LARGE_BYTES = 1024 * 1024
"""obstore bounds the time of a whole request, which is too short for larger objects on a slow line; boto3 does not."""


class Uploader(Protocol):
    """Sends one object."""

    def put(self, key: str, data: bytes, headers: ObjectHeaders, match: str | None) -> str:
        """Make one attempt to write an object under a condition, as `S3Client.put` does."""
        ...


def uploader_for(client: S3Client) -> Uploader:
    """Choose what the bulk of the writes is sent by: obstore, unless it is not installed or cannot reach the server."""
    connection = client.connection
    if connection.options.use_obstore and find_spec("obstore") is not None and not _needs_boto3(connection):
        return ObstoreUploader(client)
    return client


def _needs_boto3(connection: S3Connection) -> bool:
    """Whether the server is trusted by a file that boto3 alone reads; obstore reads SSL_CERT_FILE and the system's."""
    authorities = os.environ.get("AWS_CA_BUNDLE")
    return (
        connection.boto.meta.endpoint_url.startswith("https:")
        and bool(authorities)
        and authorities != os.environ.get("SSL_CERT_FILE")
    )


class ObstoreUploader:
    """Sends objects by obstore, with the credentials, region and endpoint of the boto3 client; large ones by boto3."""

    def __init__(self, client: S3Client) -> None:
        self._client = client
        self._connection = client.connection
        self._bucket = _open(client.connection)

    def put(self, key: str, data: bytes, headers: ObjectHeaders, match: str | None) -> str:
        if len(data) > LARGE_BYTES:
            return self._client.put(key, data, headers, match)
        import obstore

        result = obstore.put(
            self._bucket,
            self._connection.full(key),
            data,
            attributes={
                "Content-Type": headers.content_type,
                "Cache-Control": headers.cache_control,
                **headers.metadata,
            },
            mode="create" if match is None else {"e_tag": match},
            use_multipart=False,  # the parts of a multipart upload are not bound to a condition everywhere
        )
        etag = result["e_tag"]
        if etag is None:
            raise StoreError(f"the server gave no etag for {self._connection.uri}/{key}; it is no S3 server")
        return etag.strip('"')


def _open(connection: S3Connection) -> ObstoreBucket:
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import S3Store as ObstoreBucket

    meta = connection.boto.meta
    options = connection.options
    return ObstoreBucket(
        connection.bucket,
        # obstore reads the environment, too, and not as boto3 does; what is given here stands above that.
        config={
            "endpoint": meta.endpoint_url,
            "aws_endpoint_url_s3": meta.endpoint_url,
            "conditional_put": "etag",
            "region": connection.session.region_name or "us-east-1",
            "virtual_hosted_style_request": False,
            "skip_signature": False,
        },
        client_options={
            "allow_http": meta.endpoint_url.startswith("http://"),
            "connect_timeout": timedelta(seconds=options.connect_seconds),
            "timeout": timedelta(seconds=options.connect_seconds + options.read_seconds),
        },
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=options.deadline_seconds)},
        credential_provider=Boto3CredentialProvider(connection.session, ttl=_CREDENTIALS_AGE),
    )


class Placed(NamedTuple):
    """The etag of the object that stands now, and whether it was written just now."""

    etag: str
    written: bool


class Writer:
    """Writes objects under a condition. Its methods may be called by many threads."""

    def __init__(self, client: S3Client, may_write: Callable[[], None]) -> None:
        """Begin.

        Args:
            client: to look with.
            may_write: raises when nothing may be written any more; asked before every attempt.
        """
        self._client = client
        self._may_write = may_write

    def create(self, uploader: Uploader, key: str, data: bytes, headers: ObjectHeaders) -> Placed:
        """Write an immutable object, unless the same bytes are there.

        Raises:
            ImmutableKeyError: other bytes are there.
        """
        for _ in range(ROUNDS):
            refused = self._put(uploader, key, data, headers, None)
            if isinstance(refused, str):
                return Placed(refused, True)
            standing = self._client.get(key)
            if standing is not None:
                if standing.data != data:
                    raise ImmutableKeyError(immutable_key_message(key))
                return Placed(standing.etag, refused.doubtful)
        raise StoreError(f"{key} is removed again and again while it is written; another publisher may be at work")

    def replace(
        self,
        uploader: Uploader,
        key: str,
        data: bytes,
        headers: ObjectHeaders,
        expected: str | None,
        *,
        ours_alone: bool = False,
    ) -> Placed:
        """Write an object if the one with the expected etag still stands there (None: if there is none).

        Args:
            uploader: sends it.
            key: its key.
            data: its bytes.
            headers: its headers.
            expected: the etag of what is to be replaced.
            ours_alone: the same bytes count only where this call may have written them.

        Raises:
            LostRaceError: something else stands there.
        """
        connection = self._client.connection
        quoted = connection.quotes_etags
        for _ in range(ROUNDS):
            match = f'"{expected}"' if quoted and expected is not None else expected
            refused = self._put(uploader, key, data, headers, match)
            if isinstance(refused, str):
                connection.quotes_etags = quoted
                return Placed(refused, True)
            standing = self._client.get(key)
            if standing is not None and standing.data == data and (refused.doubtful or not ours_alone):
                return Placed(standing.etag, refused.doubtful)
            if (None if standing is None else standing.etag) != expected:
                raise LostRaceError(moved_message(key))
            quoted = quoted and expected is None
        raise StoreError(
            f"the server refuses to write {key} on the condition that it is as it is; it does not implement "
            "conditional writes as S3 does, and nothing can be published to it safely"
        )

    def _put(
        self, uploader: Uploader, key: str, data: bytes, headers: ObjectHeaders, match: str | None
    ) -> str | RefusedError:
        """Write an object: its etag, or the refusal because of the condition."""
        try:
            return self._client.attempts.make(lambda: uploader.put(key, data, headers, match), self._may_write)
        except RefusedError as refused:
            if refused.condition_failed or (refused.status == 409 and not refused.passing):
                return refused
            raise self._client.error(refused, "write", key, PUT_RIGHT) from refused
