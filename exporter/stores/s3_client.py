"""Requests to an S3 bucket, made with boto3. They are bounded in time and tried again; every write has a condition.

boto3's own retries are switched off. Every request goes through `S3Client.attempt` instead, which asks before each try
whether this publisher may still write.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

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


class S3Options(Struct, frozen=True):
    """Limits of requests, and how long a lease lasts.

    Attributes:
        concurrency: how many requests are made at the same time.
        tries: how often a request is tried.
        pause_seconds: the pause before the second try; each further pause is twice as long.
        longest_pause_seconds: the limit of that.
        deadline_seconds: no pause begins if it would end later than this after the first try began.
        lease_seconds: how long a publisher that died keeps others out. It has to be more than twice `margin_seconds`.
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
        """Time before the end of its lease in which a publisher begins no write: longer than a request can take."""
        return 1.1 * (self.connect_seconds + self.read_seconds)


MAX_LISTED_PAGES = 10_000
"""A listing ends after this many pages, which have up to 1,000 objects each."""

MAX_DELETED = 1000
"""Largest number of objects that S3 deletes in one request."""

LONGEST_KEY = 400
"""Number of bytes that a prefix has to leave for the exporter's own keys."""

PUT_RIGHT = "s3:PutObject"

PRIVATE = "private, no-store"
"""The ``Cache-Control`` of the publisher's own records, which no edge should serve."""

LEASE_KEY = ".exporter.lease"
"""The key of the lease, which says who is publishing. No key of a tree begins with a dot, so listings, sweeps and
checks never meet it."""

MAX_WRITE_ROUNDS = 4
"""How often a write is begun again, if the object that stood in its way has vanished when it is looked at."""

_AWS_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")

SHA256_METADATA = "sha256"
"""The name of the metadata in which an object carries the SHA-256 of its bytes."""

_R = TypeVar("_R")


_BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_ACCEPTED = (
    "accepted: s3://bucket or s3://bucket/prefix (the prefix as the path of a folder, A-Z a-z 0-9 _ = ~ + @ , . -)"
)


class S3Place(NamedTuple):
    """A place in S3: a bucket, and the prefix of the keys in it; the prefix is empty for the whole bucket."""

    bucket: str
    prefix: str


def parse_s3_uri(uri: str) -> S3Place:
    """The place that an ``s3://`` URI names.

    Raises `ConfigError` for anything else. Its text never repeats the URI, which may contain a secret.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise ConfigError(f"output.uri is not a URI; {_ACCEPTED}") from None
    if "@" in parts.netloc:
        raise ConfigError(f"output.uri holds credentials; put them into the environment instead. {_ACCEPTED}")
    if parts.scheme != "s3" or parts.query or parts.fragment or uri.endswith(("?", "#")):
        raise ConfigError(f"output.uri is not a plain s3:// URI; {_ACCEPTED}")
    return S3Place(parts.netloc, parts.path[1:].removesuffix("/"))


def _variables() -> str:
    """The names of AWS's environment variables that are set, for the text of an error that one of them may cause."""
    names = sorted(name for name, value in os.environ.items() if name.startswith("AWS_") and value)
    return f" (set are {', '.join(names)})" if names else ""


def _add_content_md5(params: dict[str, Any], **_: Any) -> None:
    """Add the header ``Content-MD5``: Ceph before 18 does not delete many objects at once without it."""
    from base64 import b64encode
    from hashlib import md5

    digest = md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", b64encode(digest).decode())


class ObjectHeaders(TypedDict):
    """The headers with which an object is written, as boto3 takes them."""

    ContentType: str
    CacheControl: str
    Metadata: dict[str, str]


def object_headers(key: str, data: bytes) -> ObjectHeaders:
    """The content type, cache lifetime and digest of an object."""
    family = family_of(key)
    is_private = family is not None and not family.public
    kind = "application/json" if key == LEASE_KEY else content_type(key)
    return {
        "ContentType": kind or "application/octet-stream",
        "CacheControl": PRIVATE if is_private else cache_control(kind_of(key)),
        "Metadata": {SHA256_METADATA: etag_of(data)},
    }


class BucketObject(Struct, frozen=True):
    """An object of a bucket, as it was read.

    Attributes:
        etag: the etag, without quotes.
        modified: when the object was last written, by the server's clock, to the second.
        answered: when the server answered, by its clock, to the second.
    """

    data: bytes
    etag: str
    modified: datetime
    answered: datetime


class ObjectHead(Struct, frozen=True):
    """The answer to a HEAD request for an object.

    Attributes:
        etag: the etag, without quotes.
        sha256: the digest that the exporter stored with the object; None if somebody else wrote it.
    """

    etag: str
    sha256: str | None


class S3Client:
    """The requests that a store makes to its bucket. Callers give keys of the store, and the prefix is added here.

    Every write has a condition: that there is no object yet, or that the object still has the etag that was seen. So a
    publisher that lost its hold without noticing cannot replace what a later publisher wrote.

    Methods raise `ConfigError` or `StoreError`. Two do not: `put` raises boto3's own errors, and `attempt`, which wraps
    such requests, raises `RefusedError`.

    Attributes:
        quotes_etags: whether the server expects the etag of ``If-Match`` in quotes, as the standard says. Ceph before
            18 does not, and the first such write finds out.
        conditions_work: whether this server was seen to refuse writes whose condition is not met.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: S3Options,
        session: Session | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        if not _BUCKET_NAME.fullmatch(bucket):
            raise ConfigError(f"output.uri: {bucket[:80]!r} cannot be the name of a bucket; {_ACCEPTED}")
        if prefix and (not is_key(prefix) or len(prefix) > MAX_KEY_BYTES - LONGEST_KEY):
            raise ConfigError(f"output.uri: {prefix[:80]!r} cannot be a prefix in a bucket; {_ACCEPTED}")
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

    def full_key(self, key: str) -> str:
        """The key in the bucket, which has the prefix of the store."""
        return self.prefix + key

    @property
    def boto(self) -> BotoClient:
        """The boto3 client, which threads can share. Raises `ConfigError` if there are no usable credentials."""
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
            # boto3 would check our parameters and build its own user agent for each request: a fifth of a small write.
            parameter_validation=False,
            user_agent=f"lending-markets-exporter/{exporter.__version__}",
            # Ceph before 18 and other servers refuse the checksums that boto3 would add.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        try:
            # boto3 reads only AWS_DEFAULT_REGION, but other tools, and services that run jobs, set AWS_REGION.
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
            if not (urlsplit(endpoint).hostname or "").endswith(_AWS_HOSTS):
                # Few servers besides AWS give each bucket a host name of its own.
                config = config.merge(Config(s3={"addressing_style": "path"}))
            proxy = proxy_of(endpoint, socks=False)
            # botocore would ignore the networks that NO_PROXY names.
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
        """Make a request, and try it again if its failure may pass.

        ``before`` is called before each try, and can end the tries by raising an error. Raises `RefusedError` if the
        last try failed.
        """
        began = time.monotonic()
        pause = self.options.pause_seconds
        may_have_worked = False
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
                may_have_worked = may_have_worked or refused.may_have_worked
                refused.may_have_worked = may_have_worked
                elapsed = time.monotonic() - began
                is_last = attempt == self.options.tries or elapsed + pause > self.options.deadline_seconds
                if is_last or not refused.may_pass:
                    raise refused from error
            time.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(pause * 2, self.options.longest_pause_seconds)
        raise AssertionError("unreachable")

    def error(self, refused: RefusedError, action: str, key: str, right: str) -> ExporterError:
        """The error for people, as `explained` words it."""
        return explained(refused, action, self.bucket, self.full_key(key), right)

    def get(self, key: str) -> BucketObject | None:
        """Read an object; None if there is none."""

        def request() -> BucketObject:
            answer = self.boto.get_object(Bucket=self.bucket, Key=self.full_key(key))
            with answer["Body"] as body:
                data = body.read(FILE_BYTES + 1)
            if len(data) > FILE_BYTES:
                excess = TooLargeError(FILE_BYTES)
                raise StoreError(f"cannot read {self.uri}/{key}: {excess}") from excess
            return BucketObject(data, _unquoted(answer["ETag"]), answer["LastModified"], _time_of(answer))

        return self._read(request, "read", key)

    def head(self, key: str) -> ObjectHead | None:
        """Ask for the etag and the digest of an object; None if there is none."""

        def request() -> ObjectHead:
            answer = self.boto.head_object(Bucket=self.bucket, Key=self.full_key(key))
            return ObjectHead(_unquoted(answer["ETag"]), answer["Metadata"].get(SHA256_METADATA))

        return self._read(request, "look at", key)

    def entries(self, prefix: str, *, shallow: bool = False) -> Iterator[ObjectInfo]:
        """The objects whose keys start with a prefix; with ``shallow``, only those without a slash after the prefix."""
        pages = 0
        more: dict[str, Any] = {"Delimiter": "/"} if shallow else {}
        while True:

            def request() -> tuple[list[ObjectInfo], str | None]:
                answer = self.boto.list_objects_v2(
                    Bucket=self.bucket,
                    Prefix=self.full_key(prefix),
                    **more,
                )
                # A page that is no listing, such as a proxy's, must not look like an empty bucket.
                token = answer.get("NextContinuationToken", "") if answer["IsTruncated"] else None
                return [self._info(item) for item in answer.get("Contents", ())], token

            try:
                infos, token = self.attempt(request)
            except RefusedError as refused:
                raise self.error(refused, "list", prefix, "s3:ListBucket") from refused
            yield from infos
            pages += 1
            if token is None:
                return
            if not token or token == more.get("ContinuationToken") or pages >= MAX_LISTED_PAGES:
                raise StoreError(f"cannot list {self.uri}/{prefix}: the server's listing does not advance")
            more["ContinuationToken"] = token

    def _info(self, item: Mapping[str, Any]) -> ObjectInfo:
        """An object in a listing. Raises ``ValueError`` if its key does not start with the store's prefix."""
        key = item["Key"]
        if not key.startswith(self.prefix):
            raise ValueError("the listing has a key that was not asked for")
        return ObjectInfo(key.removeprefix(self.prefix), item["Size"], item["LastModified"], _unquoted(item["ETag"]))

    def put(self, key: str, data: bytes, headers: ObjectHeaders, match: str | None) -> str:
        """Try once to write an object, and return its etag.

        ``match`` is the etag that the object must have; None if there must be no object.
        """
        write = partial(self.boto.put_object, Bucket=self.bucket, Key=self.full_key(key), Body=data, **headers)
        answer = write(IfNoneMatch="*") if match is None else write(IfMatch=match)
        return _unquoted(answer["ETag"])

    def write(
        self,
        key: str,
        data: bytes,
        expected: str | None,
        *,
        may_write: Callable[[], None] | None = None,
        immutable: bool = False,
        only_own_bytes: bool = False,
    ) -> tuple[str, bool]:
        """Write an object if it still has the ``expected`` etag, or if there is none and ``expected`` is None.

        Returns the etag, and whether the object was written just now. If the condition fails, the object is read. If it
        has the same bytes, that is a success: an earlier try may have written them, and only its answer was lost.

        Args:
            key: the object's key in the store.
            data: its bytes.
            expected: the etag that it must have; None if there must be no object.
            may_write: called before every try; raises an error if nothing may be written any more.
            immutable: whether other bytes are an `ImmutableKeyError` instead of a `LostRaceError`.
            only_own_bytes: whether the same bytes are a success only if this call may have written them.

        Raises `ImmutableKeyError` or `LostRaceError` if the object is another one.
        """
        headers = object_headers(key, data)
        quoted = self.quotes_etags
        for _ in range(MAX_WRITE_ROUNDS):
            match = f'"{expected}"' if quoted and expected is not None else expected
            try:
                etag = self.attempt(partial(self.put, key, data, headers, match), may_write)
            except RefusedError as refused:
                if not refused.condition_failed and (refused.status != 409 or refused.may_pass):
                    raise self.error(refused, "write", key, PUT_RIGHT) from refused
                may_have_worked, cause = refused.may_have_worked, refused
            else:
                self.quotes_etags = quoted
                return etag, True
            current = self.get(key)
            if current is not None and current.data == data and (may_have_worked or not only_own_bytes):
                return current.etag, may_have_worked
            if current is not None and immutable:
                raise ImmutableKeyError(immutable_key_message(key))
            if (None if current is None else current.etag) != expected:
                raise LostRaceError(moved_message(key))
            if not cause.condition_failed:  # the object is the expected one, so no other publisher is the cause
                raise self.error(cause, "write", key, PUT_RIGHT) from cause
            quoted = quoted and expected is None
        raise StoreError(_wrong_conditions_message(key, is_new=expected is None))

    def delete(self, keys: Sequence[str], before: Callable[[], None]) -> None:
        """Remove at most `MAX_DELETED` objects. Keys without an object are skipped.

        ``before`` is called before each try, as in `attempt`. Objects whose removal fails are tried again.
        """
        left, base = [*keys], len(self.prefix)

        def request() -> None:
            answer = self.boto.delete_objects(
                Bucket=self.bucket,
                Delete={"Objects": [{"Key": self.full_key(key)} for key in left], "Quiet": True},
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
            if refused.is_absent:
                return None
            right = "s3:GetObject (and s3:ListBucket, to see what is missing)"
            raise self.error(refused, action, key, right) from refused


def _wrong_conditions_message(key: str, *, is_new: bool) -> str:
    """Why nothing can be written to a server that says that a condition failed, although it holds."""
    if is_new:
        return (
            f"the server says that {key} is there already, and shows no such object: it has keys below that name, "
            "or does not implement If-None-Match as S3 does. Nothing can be published to it safely"
        )
    return (
        f"the server refuses to write {key} unless it changed; it does not implement "
        "conditional writes as S3 does, and nothing can be published to it safely"
    )


def _unquoted(etag: str) -> str:
    return etag.strip('"')


def _time_of(answer: Mapping[str, Any]) -> datetime:
    """The time of an answer by the server's clock, or by this machine's if the answer does not say."""
    text = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return utc_now()
    return moment if moment.tzinfo is not None else utc_now()
