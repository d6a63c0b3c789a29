"""Single requests to an S3 bucket: bounded in time, tried again while that can help, and refused in plain words.

boto3 makes all requests but the bulk of the writes (s3_upload.py). Neither client retries by itself: every attempt
goes through `Attempts`, which asks before each one whether this publisher may still write.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from exporter.errors import ExporterError, StoreError
from exporter.stores.s3_connection import S3Connection
from exporter.stores.s3_errors import RefusedError, explained, refusal_of
from exporter.stores.s3_headers import SHA256, ObjectHeaders
from exporter.stores.s3_options import S3Options
from exporter.stores.store import utc_now

MAX_DELETED = 1000
"""So many objects are removed by one request."""

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was read. ``etag`` is without quotes; the times are the server's, to the second."""

    data: bytes
    etag: str
    modified: datetime
    answered: datetime


@dataclass(frozen=True, slots=True)
class Described:
    """What a HEAD tells of an object; ``sha256`` is None where somebody else wrote it."""

    etag: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a listing; the key is the store's, the etag without quotes."""

    key: str
    size: int
    etag: str
    modified: datetime


class Attempts:
    """Tries a request again while that can help, with a growing pause, at most so often and so long."""

    def __init__(self, options: S3Options, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep

    def make(self, request: Callable[[], _R], before: Callable[[], None] | None = None) -> _R:
        """Make a request.

        Args:
            request: makes one attempt.
            before: is called before every attempt; what it raises ends them.

        Raises:
            RefusedError: the last attempt was refused; ``attempts`` and ``doubtful`` tell of the others.
        """
        began = time.monotonic()
        pause = self._options.pause_seconds
        doubtful = False
        for attempt in range(1, self._options.tries + 1):
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
                last = attempt == self._options.tries or elapsed + pause > self._options.deadline_seconds
                if last or not refused.passing:
                    raise refused from error
            self._sleep(pause * random.uniform(0.7, 1.3))
            pause = min(pause * 2, self._options.longest_pause_seconds)
        raise AssertionError("unreachable")


class S3Client:
    """The requests that a store makes, by the keys of the store: the prefix in the bucket is added here.

    Methods raise ConfigError or StoreError, naming the object, except `put`, which raises RefusedError.
    """

    def __init__(self, connection: S3Connection, attempts: Attempts | None = None) -> None:
        self.connection = connection
        self.attempts = attempts or Attempts(connection.options)
        self._bulk_delete = True

    def error(self, refused: RefusedError, action: str, key: str, right: str) -> ExporterError:
        """Say what was refused; see `exporter.stores.s3_errors.explained`."""
        return explained(refused, action, self.connection.bucket, self.connection.full(key), right)

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Found | None:
        """Read an object; None when there is none."""

        def request() -> Found:
            answer = self.connection.boto.get_object(Bucket=self.connection.bucket, Key=self.connection.full(key))
            with answer["Body"] as body:
                data = body.read()
            return Found(data, _bare(answer["ETag"]), answer["LastModified"], _answered(answer))

        return self._read(request, "read", key, "s3:GetObject (and s3:ListBucket, to tell what is missing)")

    def head(self, key: str) -> Described | None:
        """Look at an object without reading it; None when there is none."""

        def request() -> Described:
            answer = self.connection.boto.head_object(Bucket=self.connection.bucket, Key=self.connection.full(key))
            return Described(_bare(answer["ETag"]), answer["ContentLength"], answer["Metadata"].get(SHA256))

        return self._read(request, "look at", key, "s3:GetObject (and s3:ListBucket, to tell what is missing)")

    def entries(self, prefix: str, *, shallow: bool = False) -> Iterator[Entry]:
        """Stream the objects whose keys start with a prefix, 1000 by each request.

        Args:
            prefix: what the keys start with.
            shallow: leave out keys with a slash after the prefix.
        """
        base = len(self.connection.prefix)
        more: dict[str, Any] = {"Delimiter": "/"} if shallow else {}
        while True:

            def request() -> Any:
                return self.connection.boto.list_objects_v2(
                    Bucket=self.connection.bucket,
                    Prefix=self.connection.full(prefix),
                    **more,
                )

            try:
                answer = self.attempts.make(request)
            except RefusedError as refused:
                raise self.error(refused, "list", prefix, "s3:ListBucket") from refused
            for item in answer.get("Contents", ()):
                yield Entry(item["Key"][base:], item["Size"], _bare(item["ETag"]), item["LastModified"])
            token = answer.get("NextContinuationToken")
            if not answer.get("IsTruncated"):
                return
            if not token or token == more.get("ContinuationToken"):
                raise StoreError(f"cannot list {self.connection.uri}/{prefix}: the server's listing does not advance")
            more["ContinuationToken"] = token

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes, headers: ObjectHeaders, match: str | None) -> str:
        """Make one attempt to write an object, and return its etag.

        Args:
            key: its key.
            data: its bytes.
            headers: its headers.
            match: the etag that must stand there, as it is sent; None: there must be no object.
        """
        condition: Any = {"IfNoneMatch": "*"} if match is None else {"IfMatch": match}
        answer = self.connection.boto.put_object(
            Bucket=self.connection.bucket,
            Key=self.connection.full(key),
            Body=data,
            ContentType=headers.content_type,
            CacheControl=headers.cache_control,
            Metadata=headers.metadata,
            **condition,
        )
        return _bare(answer["ETag"])

    def delete(self, keys: Sequence[str], before: Callable[[], None]) -> None:
        """Remove up to 1000 objects; keys that have none are skipped."""
        left = [*keys]
        if self._bulk_delete and len(left) > 1:
            try:
                self._delete_together(left, before)
                return
            except RefusedError as refused:
                if refused.status not in (400, 405, 501):
                    raise self.error(refused, "delete", left[0], _DELETE) from refused
                self._bulk_delete = False
        for key in left:
            try:
                self.attempts.make(lambda: self._delete_one(key), before)  # noqa: B023 - called at once
            except RefusedError as refused:
                if not refused.absent:
                    raise self.error(refused, "delete", key, _DELETE) from refused

    def abort_uploads(self, started_before: datetime, before: Callable[[], None]) -> int:
        """Abort multipart uploads that were begun before a time and never completed; returns how many."""
        boto, bucket = self.connection.boto, self.connection.bucket
        aborted = 0
        markers: dict[str, Any] = {}
        while True:

            def request() -> Any:
                prefix = self.connection.prefix
                return boto.list_multipart_uploads(Bucket=bucket, Prefix=prefix, **markers)  # noqa: B023

            try:
                answer = self.attempts.make(request)
                for upload in answer.get("Uploads", ()):
                    if upload["Initiated"] < started_before:
                        self._abort(upload["Key"], upload["UploadId"], before)
                        aborted += 1
            except RefusedError as refused:
                right = "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload"
                raise self.error(refused, "abort unfinished uploads to", "", right) from refused
            following = {"KeyMarker": answer.get("NextKeyMarker"), "UploadIdMarker": answer.get("NextUploadIdMarker")}
            if not answer.get("IsTruncated") or following == markers:
                return aborted
            markers = following

    def _read(self, request: Callable[[], _R], action: str, key: str, right: str) -> _R | None:
        try:
            return self.attempts.make(request)
        except RefusedError as refused:
            if refused.absent:
                return None
            raise self.error(refused, action, key, right) from refused

    def _delete_together(self, left: list[str], before: Callable[[], None]) -> None:
        """Remove objects with one request; those that the server could not remove just then are tried again."""
        base = len(self.connection.prefix)

        def request() -> None:
            answer = self.connection.boto.delete_objects(
                Bucket=self.connection.bucket,
                Delete={"Objects": [{"Key": self.connection.full(key)} for key in left], "Quiet": True},
            )
            refusals = [error for error in answer.get("Errors", ()) if error.get("Code") != "NoSuchKey"]
            if refusals:
                left[:] = [error["Key"][base:] for error in refusals]
                code = refusals[0].get("Code", "")
                raise RefusedError(403 if code == "AccessDenied" else 200, code)

        self.attempts.make(request, before)

    def _delete_one(self, key: str) -> None:
        self.connection.boto.delete_object(Bucket=self.connection.bucket, Key=self.connection.full(key))

    def _abort(self, key: str, upload: str, before: Callable[[], None]) -> None:
        def request() -> None:
            self.connection.boto.abort_multipart_upload(Bucket=self.connection.bucket, Key=key, UploadId=upload)

        try:
            self.attempts.make(request, before)
        except RefusedError as refused:
            if refused.status != 404:  # completed or aborted meanwhile
                raise


_DELETE = "s3:DeleteObject"


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
