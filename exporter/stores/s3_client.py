"""Requests to a bucket by boto3: bounded in time, tried again while that can help, each write on a condition.

boto3 does not retry by itself: every request goes through `S3Client.attempt`, which asks before each try whether this
publisher may still write.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import exporter
from exporter.bounds import FILE_BYTES, TooLargeError
from exporter.errors import ConfigError, ExporterError, ImmutableKeyError, LostRaceError, StoreError
from exporter.http_environment import check_aws, proxy_of
from exporter.stores.s3_errors import CREDENTIALS_ADVICE, RefusedError, explained, refusal_of
from exporter.stores.store import ObjectInfo, etag_of, immutable_key_message, moved_message, utc_now
from exporter.tree.families import family_of, kind_of
from exporter.tree.files import MAX_KEY_BYTES, is_key
from exporter.tree.headers import cache_control, content_type

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_s3 import S3Client as BotoClient


@dataclass(frozen=True, slots=True)
class S3Options:
    """Bounds of requests. Each pause between tries is twice the last; none begins after the deadline.

    A publisher that died keeps others out for ``lease_seconds``: more than twice ``margin_seconds``.
    """

    concurrency: int = 48
    connect_seconds: float = 10.0
    read_seconds: float = 30.0
    tries: int = 6
    pause_seconds: float = 0.25
    longest_pause_seconds: float = 4.0
    deadline_seconds: float = 120.0
    lease_seconds: float = 150.0

    @property
    def margin_seconds(self) -> float:
        """How long before its hold ends a publisher begins no request that changes anything: more than one takes."""
        return 1.1 * (self.connect_seconds + self.read_seconds)


MAX_DELETED = 1000

LONGEST_KEY = 400
"""The longest of the exporter's own keys; a prefix must leave room for it."""

PUT_RIGHT = "s3:PutObject"

PRIVATE = "private, no-store"
"""The cache lifetime of the publisher's own records, which no edge should serve at all."""

LEASE_KEY = ".exporter.lease"
"""Who is publishing. No key of a store can begin with a dot, so listings, sweeps and checks never meet it."""

ROUNDS = 4
"""How often a write is begun again when the object vanishes between the refusal and the look."""

_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")

SHA256 = "sha256"

_R = TypeVar("_R")


_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_FORM = "accepted: s3://bucket or s3://bucket/prefix (the prefix as the path of a folder, A-Z a-z 0-9 _ = ~ + @ , . -)"


def parse_s3_uri(uri: str) -> tuple[str, str]:
    """The bucket and the prefix. The `ConfigError` never repeats the URI: it may hold a secret."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ConfigError(f"output.uri is not a URI; {_FORM}") from None
    if "@" in parts.netloc:
        raise ConfigError(f"output.uri holds credentials; put them into the environment instead. {_FORM}")
    if parts.scheme != "s3" or parts.query or parts.fragment or uri.endswith(("?", "#")):
        raise ConfigError(f"output.uri is not a plain s3:// URI; {_FORM}")
    return parts.netloc, parts.path[1:].removesuffix("/")


def _variables() -> str:
    """The names of the variables of AWS that are set, for an error that one of them may have caused."""
    names = sorted(name for name, value in os.environ.items() if name.startswith("AWS_") and value)
    return f" (set are {', '.join(names)})" if names else ""


def _add_content_md5(params: dict[str, Any], **_: Any) -> None:
    """Ceph before 18 refuses to delete many objects at once without this header; all others accept it."""
    from base64 import b64encode
    from hashlib import md5

    digest = md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", b64encode(digest).decode())


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


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was read. ``etag`` is without quotes; the times are the server's, to the second."""

    data: bytes
    etag: str
    modified: datetime
    answered: datetime


@dataclass(frozen=True, slots=True)
class Described:
    """The answer to a HEAD of an object; ``sha256`` is None where somebody else wrote it."""

    etag: str
    sha256: str | None


class S3Client:
    """The requests that a store makes, by its own keys: the prefix in the bucket is added here.

    Every write is conditional: on there being no object, or on the etag of the one that was seen. So a publisher that
    lost its hold without noticing cannot replace what a later one wrote.

    Methods raise `ConfigError` or `StoreError`, except `put` and `attempt`, which raise `RefusedError`. Ceph before 18
    wants the etag of ``If-Match`` without quotes, unlike the standard; that is found out by the first such write.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: S3Options,
        session: Session | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        if not _BUCKET.fullmatch(bucket):
            raise ConfigError(f"output.uri: {bucket[:80]!r} cannot be the name of a bucket; {_FORM}")
        if prefix and (not is_key(prefix) or len(prefix) > MAX_KEY_BYTES - LONGEST_KEY):
            raise ConfigError(f"output.uri: {prefix[:80]!r} cannot be a prefix in a bucket; {_FORM}")
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
        return f"s3://{self.bucket}/{self.prefix}".removesuffix("/")

    def full(self, key: str) -> str:
        return self.prefix + key

    @property
    def boto(self) -> BotoClient:
        """The boto3 client, for many threads. Raises `ConfigError` without usable credentials."""
        with self._lock:
            if self._boto is None:
                self._boto = self._make_boto()
            return self._boto

    def close(self) -> None:
        with self._lock:
            if self._boto is not None:
                self._boto.close()
            self._boto = None

    def _make_boto(self) -> BotoClient:
        from boto3.session import Session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        check_aws()
        config = Config(
            connect_timeout=self.options.connect_seconds,
            read_timeout=self.options.read_seconds,
            retries={"mode": "standard", "total_max_attempts": 1},  # `attempt` retries
            max_pool_connections=self.options.concurrency + 4,
            # Checking our own parameters and building the SDK's own name again took a fifth of each small write.
            parameter_validation=False,
            user_agent=f"lending-markets-exporter/{exporter.__version__}",
            # Ceph before 18 and others refuse the checksums that boto3 adds by itself.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        try:
            # boto3 looks at AWS_DEFAULT_REGION only; other tools and hosts of jobs set AWS_REGION.
            session = self._session or Session(region_name=os.environ.get("AWS_REGION") or None)
            if session.get_credentials() is None:
                raise ConfigError(f"output.uri: no credentials for {self.uri}; {CREDENTIALS_ADVICE}")
        except (BotoCoreError, OSError, ValueError) as error:
            raise ConfigError(
                f"output.uri: no credentials for {self.uri}: {error}{_variables()}; {CREDENTIALS_ADVICE}"
            ) from error
        try:
            client = session.client("s3", config=config, endpoint_url=self._endpoint_url)
            endpoint = client.meta.endpoint_url
            if not (urlsplit(endpoint).hostname or "").endswith(_AWS):
                # Few servers other than AWS have a name of their own for each bucket.
                config = config.merge(Config(s3={"addressing_style": "path"}))
            proxy = proxy_of(endpoint, socks=False)
            # botocore's own rule does not know networks in NO_PROXY.
            config = config.merge(Config(proxies={} if proxy is None else dict.fromkeys(("http", "https"), proxy)))
            client.close()
            client = session.client("s3", config=config, endpoint_url=self._endpoint_url)
        except (BotoCoreError, OSError, ValueError) as error:
            raise ConfigError(
                f"output.uri: no client for {self.uri}: {type(error).__name__}{_variables()}; check AWS_REGION and "
                "AWS_ENDPOINT_URL_S3 (a URL that begins with http:// or https://)"
            ) from error
        client.meta.events.register("before-call.s3.DeleteObjects", _add_content_md5)
        return client

    def attempt(self, request: Callable[[], _R], before: Callable[[], None] | None = None) -> _R:
        """Make a request; ``before`` is called before each try, and may end them. Raises `RefusedError`."""
        began = time.monotonic()
        pause = self.options.pause_seconds
        doubtful = False
        for attempt in range(1, self.options.tries + 1):
            if before is not None:
                before()
            try:
                return request()
            except Exception as error:
                refused = refusal_of(error)
                if refused is None:
                    raise
                refused.attempts = attempt
                refused.doubtful = doubtful = doubtful or refused.doubtful
                elapsed = time.monotonic() - began
                last = attempt == self.options.tries or elapsed + pause > self.options.deadline_seconds
                if last or not refused.passing:
                    raise refused from error
            time.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(pause * 2, self.options.longest_pause_seconds)
        raise AssertionError("unreachable")

    def error(self, refused: RefusedError, action: str, key: str, right: str) -> ExporterError:
        return explained(refused, action, self.bucket, self.full(key), right)

    def get(self, key: str) -> Found | None:
        def request() -> Found:
            answer = self.boto.get_object(Bucket=self.bucket, Key=self.full(key))
            with answer["Body"] as body:
                data = body.read(FILE_BYTES + 1)
            if len(data) > FILE_BYTES:
                excess = TooLargeError(FILE_BYTES)
                raise StoreError(f"cannot read {self.uri}/{key}: {excess}") from excess
            return Found(data, _bare(answer["ETag"]), answer["LastModified"], _answered(answer))

        return self._read(request, "read", key)

    def head(self, key: str) -> Described | None:
        def request() -> Described:
            answer = self.boto.head_object(Bucket=self.bucket, Key=self.full(key))
            return Described(_bare(answer["ETag"]), answer["Metadata"].get(SHA256))

        return self._read(request, "look at", key)

    def entries(self, prefix: str, *, shallow: bool = False) -> Iterator[ObjectInfo]:
        """Stream the objects whose keys start with a prefix; ``shallow``: without those with a slash after it."""
        base = len(self.prefix)
        more: dict[str, Any] = {"Delimiter": "/"} if shallow else {}
        while True:

            def request() -> Any:
                return self.boto.list_objects_v2(
                    Bucket=self.bucket,
                    Prefix=self.full(prefix),
                    **more,
                )

            try:
                answer = self.attempt(request)
            except RefusedError as refused:
                raise self.error(refused, "list", prefix, "s3:ListBucket") from refused
            for item in answer.get("Contents", ()):
                yield ObjectInfo(item["Key"][base:], item["Size"], item["LastModified"], _bare(item["ETag"]))
            token = answer.get("NextContinuationToken")
            if not answer.get("IsTruncated"):
                return
            if not token or token == more.get("ContinuationToken"):
                raise StoreError(f"cannot list {self.uri}/{prefix}: the server's listing does not advance")
            more["ContinuationToken"] = token

    def put(self, key: str, data: bytes, headers: Mapping[str, Any], match: str | None) -> str:
        """Make one attempt to write; gives the etag. ``match`` is the etag that must be there, None: no object."""
        condition: Any = {"IfNoneMatch": "*"} if match is None else {"IfMatch": match}
        answer = self.boto.put_object(Bucket=self.bucket, Key=self.full(key), Body=data, **headers, **condition)
        return _bare(answer["ETag"])

    def write(
        self,
        key: str,
        data: bytes,
        expected: str | None,
        *,
        may_write: Callable[[], None] | None = None,
        immutable: bool = False,
        ours_alone: bool = False,
    ) -> tuple[str, bool]:
        """Write an object if the one with the ``expected`` etag is still there (None: if there is none).

        Gives the etag, and whether it was written just now. When a condition fails, what is there is read: our own
        bytes, where an earlier attempt took effect and only its answer was lost, are as good as a success; with
        ``ours_alone`` only where this call may have written them. ``may_write`` raises when nothing may be written any
        more; it is asked before every attempt. Raises `ImmutableKeyError`, `LostRaceError`.
        """
        headers = object_headers(key, data)
        quoted = self.quotes_etags
        for _ in range(ROUNDS):
            match = f'"{expected}"' if quoted and expected is not None else expected
            try:
                etag = self.attempt(partial(self.put, key, data, headers, match), may_write)
            except RefusedError as refused:
                if not refused.condition_failed and (refused.status != 409 or refused.passing):
                    raise self.error(refused, "write", key, PUT_RIGHT) from refused
                doubtful, cause = refused.doubtful, refused
            else:
                self.quotes_etags = quoted
                return etag, True
            current = self.get(key)
            if current is not None and current.data == data and (doubtful or not ours_alone):
                return current.etag, doubtful
            if current is not None and immutable:
                raise ImmutableKeyError(immutable_key_message(key))
            if (None if current is None else current.etag) != expected:
                raise LostRaceError(moved_message(key))
            if not cause.condition_failed:  # what is there is what was expected, so this is no lost race
                raise self.error(cause, "write", key, PUT_RIGHT) from cause
            quoted = quoted and expected is None
        if expected is None:
            raise StoreError(
                f"the server says that {key} is there already, and shows no such object: it has keys below that name, "
                "or does not implement If-None-Match as S3 does. Nothing can be published to it safely"
            )
        raise StoreError(
            f"the server refuses to write {key} unless it changed; it does not implement "
            "conditional writes as S3 does, and nothing can be published to it safely"
        )

    def delete(self, keys: Sequence[str], before: Callable[[], None]) -> None:
        """Remove up to 1000 objects; keys that have none are skipped, those that fail for a moment tried again."""
        left, base = [*keys], len(self.prefix)

        def request() -> None:
            answer = self.boto.delete_objects(
                Bucket=self.bucket,
                Delete={"Objects": [{"Key": self.full(key)} for key in left], "Quiet": True},
            )
            refusals = [error for error in answer.get("Errors", ()) if error.get("Code") != "NoSuchKey"]
            if refusals:
                left[:] = [error["Key"][base:] for error in refusals]
                code = refusals[0].get("Code", "")
                raise RefusedError(403 if code == "AccessDenied" else 200, code)

        try:
            self.attempt(request, before)
        except RefusedError as refused:
            raise self.error(refused, "delete", left[0], "s3:DeleteObject") from refused

    def _read(self, request: Callable[[], _R], action: str, key: str) -> _R | None:
        try:
            return self.attempt(request)
        except RefusedError as refused:
            if refused.absent:
                return None
            right = "s3:GetObject (and s3:ListBucket, to see what is missing)"
            raise self.error(refused, action, key, right) from refused


def _bare(etag: str) -> str:
    return etag.strip('"')


def _answered(answer: Mapping[str, Any]) -> datetime:
    """When the server answered, by its own clock; by ours only where it does not say."""
    text = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return utc_now()
    return moment if moment.tzinfo is not None else utc_now()
