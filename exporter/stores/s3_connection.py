"""The way to a bucket: its URI, and clients with the credentials, region and endpoint of the environment.

Everything that boto3 knows is used as it is: ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, profiles, roles
(also by OIDC), ``AWS_REGION`` or ``AWS_DEFAULT_REGION``, ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL``.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from exporter.errors import ConfigError
from exporter.stores.s3_errors import CREDENTIALS_ADVICE
from exporter.stores.s3_options import S3Options
from exporter.stores.store import MAX_KEY_BYTES, is_key

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_s3 import S3Client as BotoClient

LONGEST_KEY = 400
"""What the exporter's own keys need at most; a prefix must leave so much."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_FORM = "accepted: s3://bucket or s3://bucket/prefix (the prefix as the path of a folder, A-Z a-z 0-9 _ = ~ + @ , . -)"


def parse_s3_uri(uri: str) -> tuple[str, str]:
    """Take a URI apart into bucket and prefix (without slashes at its ends).

    Raises:
        ConfigError: it is not of the form s3://bucket/prefix. The message never repeats it: it may hold a secret.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ConfigError(f"output.uri is not a URI; {_FORM}") from None
    if "@" in parts.netloc:
        raise ConfigError(f"output.uri holds credentials; put them into the environment instead. {_FORM}")
    if parts.scheme != "s3" or parts.query or parts.fragment or uri.endswith(("?", "#")):
        raise ConfigError(f"output.uri is not a plain s3:// URI; {_FORM}")
    check_place(parts.netloc, prefix := parts.path[1:].removesuffix("/"))
    return parts.netloc, prefix


def check_place(bucket: str, prefix: str) -> None:
    """Raise ConfigError unless a bucket can have this name and keys can begin with this prefix."""
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(f"output.uri: {bucket[:80]!r} cannot be the name of a bucket; {_FORM}")
    if prefix and (not is_key(prefix) or len(prefix) > MAX_KEY_BYTES - LONGEST_KEY):
        raise ConfigError(f"output.uri: {prefix[:80]!r} cannot be a prefix in a bucket; {_FORM}")


class S3Connection:
    """A bucket, a prefix, and the client to reach it, which is made at the first request.

    Args:
        bucket: the name of the bucket.
        prefix: what all keys of the store begin with in the bucket, without a slash at its end; may be empty.
        options: bounds.
        session: a boto3 session with credentials and region; None: that of the environment.
        endpoint_url: the server; None: that of the environment, or AWS.

    Attributes:
        quotes_etags: whether the server wants the etag of ``If-Match`` in quotes, as the standard says. Ceph before
            18 wants it without; that is found out by the first such write.
        conditions_work: whether the server was seen to refuse writes whose condition is not met.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: S3Options,
        session: Session | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        check_place(bucket, prefix)
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self.options = options
        self._session = session
        self._endpoint_url = endpoint_url
        self._boto: BotoClient | None = None
        self._lock = Lock()
        self.quotes_etags = True
        self.conditions_work = False

    @property
    def uri(self) -> str:
        """The URI, without a slash at its end."""
        return f"s3://{self.bucket}/{self.prefix}".removesuffix("/")

    def full(self, key: str) -> str:
        """The key in the bucket of a key of the store."""
        return self.prefix + key

    @cached_property
    def session(self) -> Session:
        """The boto3 session.

        Raises:
            ConfigError: there are no credentials, or what the environment says is contradictory.
        """
        from boto3.session import Session
        from botocore.exceptions import BotoCoreError

        try:
            # boto3 looks at AWS_DEFAULT_REGION only; other tools and hosts of jobs set AWS_REGION.
            session = self._session or Session(region_name=os.environ.get("AWS_REGION") or None)
            credentials = session.get_credentials()
        except BotoCoreError as error:
            raise ConfigError(f"output.uri: no credentials for {self.uri}: {error}; {CREDENTIALS_ADVICE}") from error
        if credentials is None:
            raise ConfigError(f"output.uri: no credentials for {self.uri}; {CREDENTIALS_ADVICE}")
        return session

    @property
    def boto(self) -> BotoClient:
        """The boto3 client. It may be used by many threads."""
        with self._lock:
            if self._boto is None:
                self._boto = self._open()
            return self._boto

    def close(self) -> None:
        """Close the connections that are open; the next request opens new ones."""
        with self._lock:
            if self._boto is not None:
                self._boto.close()
            self._boto = None

    def _open(self) -> BotoClient:
        client = self._make_boto({})
        if not self._is_aws(client.meta.endpoint_url):
            # Few servers other than AWS have a name of their own for each bucket.
            client.close()
            client = self._make_boto({"addressing_style": "path"})
        client.meta.events.register("before-call.s3.DeleteObjects", _add_content_md5)
        return client

    def _make_boto(self, addressing: Any) -> BotoClient:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(
            connect_timeout=self.options.connect_seconds,
            read_timeout=self.options.read_seconds,
            retries={"mode": "standard", "total_max_attempts": 1},  # exporter.stores.s3_client.Attempts retries
            max_pool_connections=self.options.concurrency + 4,
            # Ceph before 18 and others refuse the checksums that boto3 adds by itself.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3=addressing,
        )
        try:
            return self.session.client("s3", config=config, endpoint_url=self._endpoint_url)
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(
                f"output.uri: no client for {self.uri}: {type(error).__name__}; check AWS_REGION and "
                "AWS_ENDPOINT_URL_S3 (a URL that begins with http:// or https://)"
            ) from error

    @staticmethod
    def _is_aws(endpoint_url: str) -> bool:
        host = urlsplit(endpoint_url).hostname or ""
        return host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


def _add_content_md5(params: dict[str, Any], **_: Any) -> None:
    """Ceph before 18 refuses to delete many objects at once without this header; all others accept it."""
    from base64 import b64encode
    from hashlib import md5

    digest = md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", b64encode(digest).decode())
