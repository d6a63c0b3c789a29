"""Checks the answers at the public URLs of a tree: whether the web server follows the rules of the API."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Container, Iterator
from random import Random

import msgspec
import polars as pl

from exporter.publishing.checker import TreeChecker
from exporter.stores.tree_sources import Answer, HttpSource
from exporter.tree.decoding import decode_json
from exporter.tree.documents import AssetsPage, SystemStatus
from exporter.tree.families import (
    BUCKET_PAGE,
    EMPTY_PAGE_KEY,
    HISTORY_FILES_PREFIX,
    OPENAPI_KEY,
    RUN,
    STATUS_KEY,
    is_listing,
    parse_key,
)
from exporter.tree.headers import PROBLEM_CONTENT_TYPE, content_type
from exporter.tree.problems import Problem
from exporter.tree.routes import MAX_LIMIT
from exporter.tree.run_listing import RunListing

MAX_PROBLEM_BYTES = 64 * 1024
_INVALID_CONTRACT = "C" + "A" * 55
"""An address that has the form of a contract's, but a wrong checksum, so that no contract has it."""

ALWAYS_ASKED = ("v1/assets/index.json", "v1/assets/limit/", "v1/markets.json", OPENAPI_KEY)
"""Beginnings of the keys that are in every sample."""

EXPECTED_ERRORS = (
    ("v1/assets?limit=-1", 400),
    ("v1/assets?limit=1.5", 400),
    (f"v1/assets?limit={MAX_LIMIT + 1}", 400),
    ("v1/assets?market=XLM", 400),
    ("v1/assets?token=XLM", 400),
    ("v1/assets?sort=tvl", 400),
    ("v1/markets?page=2", 400),
    ("v1/tokens?sort=tvl", 400),
    ("v1/pools?limit=5", 400),
    (f"v1/pools?market={_INVALID_CONTRACT}&token={_INVALID_CONTRACT}", 400),
    ("v1/assets?cursor=unknown", 404),
    ("v1/markets/XLM", 400),
    (f"v1/markets/{_INVALID_CONTRACT}", 404),
    ("v1/nothing", 404),
)
"""URLs that must be refused, each with the HTTP status of the answer."""

EMPTY_URLS = (
    f"v1/assets?market={_INVALID_CONTRACT}",
    f"v1/assets?token={_INVALID_CONTRACT}&limit=0",
    f"v1/pools?token={_INVALID_CONTRACT}",
)


async def check_public_urls(
    source: HttpSource, checker: TreeChecker, status: SystemStatus, listing: RunListing, count: int, drawn: Random
) -> int:
    """Ask for files, and for what must be refused, at their public URLs. The checker records what is wrong.

    ``count`` files are chosen by ``drawn``, besides those of `ALWAYS_ASKED`. Returns the number of requests.
    """
    files = listing.frame
    always = [key for key in files["key"] if key.startswith(ALWAYS_ASKED)]
    keys = [key for key in files["key"] if content_type(key) == "application/json" and not key.startswith(RUN.prefix)]
    chosen = dict.fromkeys((*always, *(keys if len(keys) <= count else drawn.sample(keys, count))))
    stated = files.filter(pl.col("key").is_in([*chosen, EMPTY_PAGE_KEY]))
    sizes, digests = (dict(stated.select("key", name).iter_rows()) for name in ("bytes", "sha256"))
    expected = [("v1/system/status", STATUS_KEY)]
    expected += [(url, key) for key in chosen for url in public_urls(key, sorted(status.page_sizes), listing)]
    if EMPTY_PAGE_KEY in digests:
        expected += [(url, EMPTY_PAGE_KEY) for url in EMPTY_URLS]
    await asyncio.gather(
        *(
            _check_file(source, checker, url, key, digests.get(key), sizes.get(key, MAX_PROBLEM_BYTES))
            for url, key in expected
        ),
        *(_check_error(source, checker, url, code) for url, code in EXPECTED_ERRORS),
    )
    return len(expected) + len(EXPECTED_ERRORS) + await _check_ranges(source, checker, files)


def public_urls(key: str, sizes: list[int], listed: Container[str]) -> Iterator[str]:
    """The public URLs of a file. The index of a listing also answers limits that have no file in ``listed``."""

    def limited(url: str, size: int) -> Iterator[str]:
        # The last limit before the next size is answered with the same page.
        above = next((other for other in sizes if other > size), MAX_LIMIT + 1)
        joint = "&" if "?" in url else "?"
        yield from dict.fromkeys(f"{url}{joint}limit={limit}" for limit in (size, above - 1 if size else 0))

    family, names = parse_key(key) or (None, {})
    if family is not None and family.url is not None:
        if "limit" in names:
            yield from limited(family.url.rpartition("limit=")[0][1:-1].format(**names), int(names["limit"]))
        elif not key.startswith(BUCKET_PAGE.prefix):  # the key of an older page does not name its history
            url = family.url.format(**names)[1:]
            yield url
            if is_listing(key) and family.model is AssetsPage:
                folder = key.removesuffix("index.json")
                for size in sizes:
                    if f"{folder}limit/{size}.json" not in listed:
                        yield from limited(url, size)
    yield key


async def _check_file(
    source: HttpSource, checker: TreeChecker, url: str, key: str, digest: bytes | None, size: int
) -> None:
    answer = await source.ask(url, size)
    if answer.status != 200:
        checker.fault(f"/{url}", f"is answered with HTTP status {answer.status}, not with {key}")
        return
    if digest is not None and hashlib.sha256(answer.body).digest() != digest:
        checker.fault(f"/{url}", f"is answered with other bytes than those of {key}")
    checker.fault(f"/{url}", *_header_faults(answer, content_type(key)))


async def _check_error(source: HttpSource, checker: TreeChecker, url: str, code: int) -> None:
    answer = await source.ask(url, MAX_PROBLEM_BYTES)
    if answer.status != code:
        checker.fault(f"/{url}", f"is answered with HTTP status {answer.status}, not {code}")
        return
    try:
        document = decode_json(answer.body, Problem)
    except msgspec.DecodeError as error:
        checker.fault(f"/{url}", f"is not answered with a problem document: {error}")
    else:
        if document.status != code:
            checker.fault(f"/{url}", f"is answered with a problem document of status {document.status}, not {code}")
    checker.fault(f"/{url}", *_header_faults(answer, PROBLEM_CONTENT_TYPE))


def _header_faults(answer: Answer, expected_type: str | None) -> Iterator[str]:
    """The faults of an answer's headers."""
    actual_type = answer.headers.get("content-type", "").partition(";")[0].strip()
    if actual_type != expected_type:
        yield f"has the content type {actual_type!r}, not {expected_type!r}"
    if answer.headers.get("access-control-allow-origin") != "*":
        yield "is answered without access-control-allow-origin: *, so web pages cannot read it"


async def _check_ranges(source: HttpSource, checker: TreeChecker, files: pl.DataFrame) -> int:
    """Check that a server which offers ranges answers them rightly, because readers of Parquet rely on them.

    Returns the number of requests.
    """
    is_table = pl.col("key").str.starts_with(HISTORY_FILES_PREFIX) & pl.col("key").str.ends_with(".parquet")
    tables = files.filter(is_table)
    for key, size in tables.select("key", "bytes").iter_rows():
        answer = await source.ask(key, size, {"range": "bytes=0-3"})
        offered = "bytes" in answer.headers.get("accept-ranges", "")
        if answer.status != 206:
            if offered:
                checker.fault(key, f"offers ranges, but answers one with HTTP status {answer.status}")
            continue
        stated = answer.headers.get("content-range", "")
        if answer.body != b"PAR1" or stated != f"bytes 0-3/{size}":
            checker.fault(key, f"answers the range of its first 4 bytes with {len(answer.body)} as {stated!r}")
    return tables.height
