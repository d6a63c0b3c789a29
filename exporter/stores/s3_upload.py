"""How one object is sent: by obstore, whose requests do not wait for the interpreter, or by boto3 where that cannot.

Both make a single attempt, with the same headers and under the same condition, and let their own errors out;
`exporter.stores.s3_client.Attempts` and `exporter.stores.s3_errors` treat them alike.
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from exporter.errors import StoreError
from exporter.stores.s3_connection import S3Connection
from exporter.stores.s3_headers import ObjectHeaders

if TYPE_CHECKING:
    from obstore.store import S3Store as ObstoreBucket

    from exporter.stores.s3_client import S3Client


_CREDENTIALS_AGE = timedelta(minutes=2)
"""boto3 is asked for the credentials again after so long; it renews those that are about to expire."""


LARGE_BYTES = 1024 * 1024
"""obstore bounds the time of a whole request, which is too short for larger objects on a slow line; boto3 does not."""


class Uploader(Protocol):
    """Sends one object."""

    def put(self, key: str, data: bytes, headers: ObjectHeaders, match: str | None) -> str:
        """Make one attempt to write an object under a condition; see `exporter.stores.s3_client.S3Client.put`."""
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
        """See Uploader."""
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
