"""Stores, which keep a tree: one small interface, with a folder, an S3 bucket or memory behind it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from exporter.errors import ConfigError
from exporter.stores.folder import FolderStore
from exporter.stores.store import Store
from exporter.user_files import user_path

_SCHEME = re.compile(
    r"\s*((?:s3|https?|file|s3a|s3n|gs|gcs|az|abfss?|wasbs?|r2|ftp|sftp|hdfs)(?=:)|[A-Z][A-Z0-9+.-]*(?=://))",
    re.IGNORECASE,
)
"""The beginning of a URI. Slashes may be missing: nobody means a folder called ``s3:``."""


def scheme_of(uri: str) -> str | None:
    """The scheme of a URI in small letters, even if its slashes are missing; None for the path of a folder."""
    match = _SCHEME.match(uri)
    return None if match is None else match[1].lower()


def open_store(uri: str) -> Store:
    """Open the store that ``output.uri`` names: a path, ``file://`` with a path, or ``s3://``. No request is made yet.

    Raises `ConfigError` for anything else.
    """
    if uri.lower().startswith("s3://"):
        # boto3 takes long to load, so only those who use a bucket load it.
        from exporter.stores.s3_client import parse_s3_uri
        from exporter.stores.s3_store import S3Store

        return S3Store(*parse_s3_uri(uri))
    if not uri.strip() or "\0" in uri:
        raise ConfigError("output.uri is empty; give the path of a folder, for example ./public")
    name = scheme_of(uri)
    if name is None:
        return FolderStore(user_path(uri))
    if name == "file":
        with suppress(ValueError):
            parts = urlsplit(uri)
            if parts.netloc in ("", "localhost") and parts.path.startswith("/"):
                return FolderStore(Path(parts.path))
    # The URI itself is not repeated: it may hold a secret.
    if name == "s3":
        hint = "a bucket is written s3://bucket/prefix, with two slashes and nothing before them"
    elif name in ("http", "https"):
        hint = "nothing can be published over HTTP: give the bucket behind that address as s3://bucket/prefix"
    else:
        hint = "accepted are the path of a folder, file:///absolute/path and s3://bucket/prefix"
    raise ConfigError(
        f"output.uri begins with {name}:, but nothing can be written there; {hint}. (For a folder of that name, put ./ "
        "in front)"
    )
