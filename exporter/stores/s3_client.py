"""Requests to a bucket: bounded in time, tried again while that can help, and refused in plain words.

`S3Client` makes all requests by boto3, which does not retry by itself: every one goes through `S3Client.attempt`,
which asks before each try whether this publisher may still write. What boto3 reports becomes a `RefusedError`, and
`explained` turns that into what people read.
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
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import exporter
from exporter.errors import ConfigError, ExporterError, StoreError
from exporter.stores.store import utc_now
from exporter.tree.files import MAX_KEY_BYTES, is_key

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_s3 import S3Client as BotoClient


@dataclass(frozen=True, slots=True)
class S3Options:
    """Bounds of requests. Each pause between tries is twice the last; none begins after the deadline.

    A publisher that died keeps others out for ``lease_seconds``: more than twice ``margin_seconds``.
    """

    concurrency: int = 48
    in_flight_bytes: int = 64 * 1024 * 1024
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


MAX_LEASE_SECONDS = 3600
"""A lease that claims to last longer is not believed."""

MAX_DELETED = 1000

LONGEST_KEY = 400
"""The longest of the exporter's own keys; a prefix must leave room for it."""

_AWS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")

SHA256 = "sha256"

UNREACHABLE = "Unreachable"
TIMEOUT = "Timeout"
CUT_OFF = "CutOff"
UNTRUSTED = "Untrusted"
NO_CREDENTIALS = "NoCredentials"

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    (
        *(TIMEOUT, UNREACHABLE, CUT_OFF, "ConditionalRequestConflict", "InternalError", "OperationAborted"),
        *("RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"),
    )
)
_BAD_CREDENTIALS = frozenset(
    (
        *(NO_CREDENTIALS, "ExpiredToken", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken"),
        *("SignatureDoesNotMatch", "TokenRefreshRequired"),
    )
)
_FULL = frozenset({"QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull"})
_OTHER_REGION = frozenset({"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"})

CREDENTIALS_ADVICE = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in AWS_PROFILE, or give the job a role "
    "(OIDC: AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE)"
)

_R = TypeVar("_R")


class RefusedError(Exception):
    """One request had no success; `explained` makes what people read of it.

    ``status`` is 0 where there was no answer; ``code`` is the server's word, or one of the constants of this module.
    ``doubtful`` says that one of the attempts may have taken effect.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"HTTP status {status} {code}" if status else code)
        self.status = status
        self.code = code
        self.attempts = 1
        self.doubtful = not status or status >= 500

    @property
    def passing(self) -> bool:
        return self.code in _PASSING_CODES or self.status in _PASSING_STATUSES

    @property
    def condition_failed(self) -> bool:
        """Whether something else is under the key than the request was conditional on."""
        return self.status == 412 or self.absent

    @property
    def absent(self) -> bool:
        return self.status == 404 and self.code in ("", "404", "NoSuchKey", "NotFound")


def refusal_of(error: BaseException) -> RefusedError | None:
    """Return what boto3 reports; None for an error that is not its own."""
    if isinstance(error, RefusedError):
        return error
    from botocore import exceptions as botocore
    from urllib3.exceptions import HTTPError

    if isinstance(error, botocore.ClientError):
        if error.operation_name.startswith(("AssumeRole", "GetRoleCredentials")):
            return RefusedError(0, NO_CREDENTIALS)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return RefusedError(status, error.response.get("Error", {}).get("Code", ""))
    no_credentials = (
        *(botocore.NoCredentialsError, botocore.PartialCredentialsError, botocore.CredentialRetrievalError),
        *(botocore.UnauthorizedSSOTokenError, botocore.SSOError, botocore.TokenRetrievalError),
    )
    # Of HTTPError, which botocore lets out where an answer breaks off, and of its own errors, the special ones first.
    codes: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
        ((HTTPError, botocore.IncompleteReadError, botocore.ResponseStreamingError), CUT_OFF),
        ((botocore.ReadTimeoutError, botocore.ConnectTimeoutError), TIMEOUT),
        ((botocore.SSLError,), UNTRUSTED),
        ((botocore.HTTPClientError, botocore.ConnectionError), UNREACHABLE),
        (no_credentials, NO_CREDENTIALS),
        ((botocore.BotoCoreError,), type(error).__name__),
    )
    return next((RefusedError(0, code) for kinds, code in codes if isinstance(error, kinds)), None)


def explained(refused: RefusedError, action: str, bucket: str, key: str, right: str) -> ExporterError:
    """``action`` is a verb, ``key`` an object, a prefix or nothing, ``right`` the permission that it needs."""
    code, status = refused.code, refused.status
    what = f"cannot {action} s3://{bucket}/{key}: "
    if code in _BAD_CREDENTIALS or status == 401:
        if code == NO_CREDENTIALS:
            return ConfigError(f"output.uri: no credentials for s3://{bucket}; {CREDENTIALS_ADVICE}")
        return ConfigError(f"output.uri: the credentials for s3://{bucket} are refused ({code}); {CREDENTIALS_ADVICE}")
    if code == "NoSuchBucket":
        return ConfigError(f"output.uri: there is no bucket {bucket} at this endpoint; create it, or correct the name")
    if code in _OTHER_REGION or status in (301, 307):
        return ConfigError(
            f"output.uri: the bucket {bucket} is in another region or at another endpoint ({code or status}); set "
            "AWS_REGION, and AWS_ENDPOINT_URL_S3 for a server that is not AWS"
        )
    if code == "RequestTimeTooSkewed":
        return ConfigError(f"{what}the clock of this machine is wrong; set it and run again")
    if status == 501 or code == "NotImplemented":
        return ConfigError(
            f"{what}the server does not implement this request (it needs {right}); use AWS S3, Cloudflare R2 or a "
            "recent Ceph RADOS Gateway"
        )
    if code in _FULL:
        return StoreError(
            f"{what}the bucket is full ({code}); raise its quota or remove what else is in it, and run again"
        )
    if status == 403:
        return StoreError(f"{what}access is denied; allow {right} on the bucket and its objects to these credentials")
    if code == UNTRUSTED:
        return StoreError(f"{what}the server's certificate is not trusted; set AWS_CA_BUNDLE to the authority's file")
    if code in (TIMEOUT, UNREACHABLE, CUT_OFF):
        reason = {TIMEOUT: "no answer in time", CUT_OFF: "the answer broke off"}.get(code, "the server is not reached")
        return StoreError(
            f"{what}{reason} ({refused.attempts} tries); check AWS_REGION, AWS_ENDPOINT_URL_S3 and the network, and "
            "run again"
        )
    tries = f" ({refused.attempts} tries)" if refused.passing else ""
    return StoreError(f"{what}the server answers with {refused}{tries}; run again, and if it lasts look at the bucket")


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


def _add_content_md5(params: dict[str, Any], **_: Any) -> None:
    """Ceph before 18 refuses to delete many objects at once without this header; all others accept it."""
    from base64 import b64encode
    from hashlib import md5

    digest = md5(params["body"], usedforsecurity=False).digest()
    params["headers"].setdefault("Content-MD5", b64encode(digest).decode())


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


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a listing; the key is the store's, the etag without quotes."""

    key: str
    size: int
    etag: str
    modified: datetime


class S3Client:
    """The requests that a store makes, by its own keys: the prefix in the bucket is added here.

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
        except BotoCoreError as error:
            raise ConfigError(f"output.uri: no credentials for {self.uri}: {error}; {CREDENTIALS_ADVICE}") from error
        try:
            client = session.client("s3", config=config, endpoint_url=self._endpoint_url)
            if not (urlsplit(client.meta.endpoint_url).hostname or "").endswith(_AWS):
                # Few servers other than AWS have a name of their own for each bucket.
                client.close()
                config = config.merge(Config(s3={"addressing_style": "path"}))
                client = session.client("s3", config=config, endpoint_url=self._endpoint_url)
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(
                f"output.uri: no client for {self.uri}: {type(error).__name__}; check AWS_REGION and "
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
                data = body.read()
            return Found(data, _bare(answer["ETag"]), answer["LastModified"], _answered(answer))

        return self._read(request, "read", key)

    def head(self, key: str) -> Described | None:
        def request() -> Described:
            answer = self.boto.head_object(Bucket=self.bucket, Key=self.full(key))
            return Described(_bare(answer["ETag"]), answer["Metadata"].get(SHA256))

        return self._read(request, "look at", key)

    def entries(self, prefix: str, *, shallow: bool = False) -> Iterator[Entry]:
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
                yield Entry(item["Key"][base:], item["Size"], _bare(item["ETag"]), item["LastModified"])
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
