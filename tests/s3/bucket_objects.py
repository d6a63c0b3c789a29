"""What S3 does with the requests that a store makes: the objects of one bucket, strongly consistent, in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import quote, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from exporter.stores.store import Clock

BUCKET = "bucket"

_KEPT_HEADERS = ("content-type", "cache-control", "content-encoding")
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_NAMESPACE = ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'

CODES = {
    400: "BadRequest",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}


@dataclass(frozen=True, slots=True)
class Stored:
    """An object: its bytes, when it was written, and the headers it was written with."""

    data: bytes
    modified: datetime
    headers: Mapping[str, str]

    @property
    def etag(self) -> str:
        """MD5, as for every object that was put in one part."""
        return hashlib.md5(self.data, usedforsecurity=False).hexdigest()


@dataclass(slots=True)
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Objects:
    """The objects of the bucket. Nothing here is safe for threads; ``headers`` have lower-case names everywhere."""

    def __init__(self, clock: Clock) -> None:
        self.by_key: dict[str, Stored] = {}
        self._clock = clock

    def answer(
        self, operation: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        if bucket != BUCKET:
            return error(404, "NoSuchBucket", key)
        match operation:
            case "GET" | "HEAD":
                return self._read(key, with_body=operation == "GET")
            case "PUT":
                return self._write(key, headers, body)
            case "DELETE MANY":
                return self._delete_many(body)
            case "LIST":
                return self._list(query)
            case "BUCKET":
                return Reply(200)
        return error(501, "NotImplemented", key)

    def _read(self, key: str, *, with_body: bool) -> Reply:
        stored = self.by_key.get(key)
        if stored is None:
            return error(404, "NoSuchKey", key)
        modified = format_datetime(stored.modified, usegmt=True)
        headers = {**stored.headers, "ETag": f'"{stored.etag}"', "Last-Modified": modified}
        return Reply(200, headers | {"Content-Length": str(len(stored.data))}, stored.data if with_body else b"")

    def _write(self, key: str, headers: Mapping[str, str], body: bytes) -> Reply:
        digest = headers.get("x-amz-content-sha256", "")
        if len(digest) == 64 and digest != hashlib.sha256(body).hexdigest():
            return error(400, "XAmzContentSHA256Mismatch", key)
        refused = self._refused(key, headers)
        if refused is not None:
            return refused
        kept = {
            name: value for name, value in headers.items() if name in _KEPT_HEADERS or name.startswith("x-amz-meta-")
        }
        stored = Stored(body, self._clock(), {"content-type": "binary/octet-stream"} | kept)
        self.by_key[key] = stored
        return Reply(200, {"ETag": f'"{stored.etag}"'})

    def _refused(self, key: str, headers: Mapping[str, str]) -> Reply | None:
        """Judge the condition of a write."""
        present = self.by_key.get(key)
        if headers.get("if-none-match") == "*" and present is not None:
            return error(412, "PreconditionFailed", key)
        if "if-match" in headers:
            if present is None:
                return error(404, "NoSuchKey", key)
            if not _names(headers["if-match"], present.etag):
                return error(412, "PreconditionFailed", key)
        return None

    def _delete_many(self, body: bytes) -> Reply:
        root = ElementTree.fromstring(body)
        keys = [element.text or "" for element in root.iter() if element.tag.rpartition("}")[2] == "Key"]
        if len(keys) > 1000:
            return error(400, "MalformedXML", "")
        for key in keys:
            self.by_key.pop(key, None)
        return Reply(200, _xml(), f"{_XML}<DeleteResult{_NAMESPACE}></DeleteResult>".encode())

    def _list(self, query: Mapping[str, str]) -> Reply:
        """Folders of a listing with a delimiter are left out: no store looks at them."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        start = unquote(query.get("continuation-token", ""))
        found = [
            key
            for key in sorted(self.by_key)
            if key > start and key.startswith(prefix) and not (delimiter and delimiter in key[len(prefix) :])
        ]
        entries = []
        for key in found[:1000]:
            stored = self.by_key[key]
            moment = stored.modified.strftime("%Y-%m-%dT%H:%M:%S.") + f"{stored.modified.microsecond // 1000:03}Z"
            entries.append(
                f"<Contents><Key>{quote(key)}</Key><LastModified>{moment}</LastModified>"
                f"<ETag>&quot;{stored.etag}&quot;</ETag><Size>{len(stored.data)}</Size></Contents>"
            )
        truncated = len(found) > 1000
        token = f"<NextContinuationToken>{quote(found[999])}</NextContinuationToken>" if truncated else ""
        body = (
            f"{_XML}<ListBucketResult{_NAMESPACE}><EncodingType>url</EncodingType>"
            f"<IsTruncated>{str(truncated).lower()}</IsTruncated>{token}{''.join(entries)}</ListBucketResult>"
        )
        return Reply(200, _xml(), body.encode())


def operation_of(method: str, key: str, query: Mapping[str, str]) -> str:
    if not key:
        if method == "GET":
            return "LIST" if "list-type" in query else "BUCKET"
        return "DELETE MANY" if method == "POST" and "delete" in query else "BUCKET"
    return method


def _names(tag: str, etag: str) -> bool:
    return tag.strip('"') == etag


def _xml() -> dict[str, str]:
    return {"Content-Type": "application/xml"}


def error(status: int, code: str, key: str) -> Reply:
    body = f"{_XML}<Error><Code>{code}</Code><Message>{code}</Message><Key>{escape(key)}</Key></Error>"
    return Reply(status, _xml(), body.encode())
