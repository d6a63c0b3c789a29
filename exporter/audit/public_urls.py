"""The expected answers at the public URLs of a tree: the links in its pages, and the rules of a web server."""

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
    HISTORY_PREFIX,
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
_STRANGER = "C" + "A" * 55
"""A well-formed address that is not a contract's: its checksum is wrong."""

ALWAYS_ASKED = ("v1/assets/index.json", "v1/assets/limit/", "v1/markets.json", OPENAPI_KEY)
"""How the keys begin that are in every sample."""

ERRORS = (
    ("v1/assets?limit=-1", 400),
    ("v1/assets?limit=1.5", 400),
    (f"v1/assets?limit={MAX_LIMIT + 1}", 400),
    ("v1/assets?market=XLM", 400),
    ("v1/assets?token=XLM", 400),
    ("v1/assets?sort=tvl", 400),
    ("v1/markets?page=2", 400),
    ("v1/tokens?sort=tvl", 400),
    ("v1/pools?limit=5", 400),
    (f"v1/pools?market={_STRANGER}&token={_STRANGER}", 400),
    ("v1/assets?cursor=unknown", 404),
    ("v1/markets/XLM", 400),
    (f"v1/markets/{_STRANGER}", 404),
    ("v1/nothing", 404),
)


EMPTY = (f"v1/assets?market={_STRANGER}", f"v1/assets?token={_STRANGER}&limit=0", f"v1/pools?token={_STRANGER}")


async def check_public_urls(
    source: HttpSource, checker: TreeChecker, status: SystemStatus, listed: RunListing, count: int, drawn: Random
) -> None:
    """Ask for ``count`` files ``drawn``, and for what must be refused, by public URLs; note every difference."""
    files = listed.frame
    always = [key for key in files["key"] if key.startswith(ALWAYS_ASKED)]
    keys = [key for key in files["key"] if content_type(key) == "application/json" and not key.startswith(RUN.prefix)]
    chosen = dict.fromkeys((*always, *(keys if len(keys) <= count else drawn.sample(keys, count))))
    stated = files.filter(pl.col("key").is_in([*chosen, EMPTY_PAGE_KEY]))
    sizes, digests = (dict(stated.select("key", name).iter_rows()) for name in ("bytes", "sha256"))
    expected = [("v1/system/status", STATUS_KEY)]
    expected += [(url, key) for key in chosen for url in public_urls(key, sorted(status.page_sizes), listed)]
    if EMPTY_PAGE_KEY in digests:
        expected += [(url, EMPTY_PAGE_KEY) for url in EMPTY]
    await asyncio.gather(
        *(
            _check_file(source, checker, url, key, digests.get(key), sizes.get(key, MAX_PROBLEM_BYTES))
            for url, key in expected
        ),
        *(_check_error(source, checker, url, code) for url, code in ERRORS),
    )
    checker.summary.requests += len(expected) + len(ERRORS)
    await _check_ranges(source, checker, files)


def public_urls(key: str, sizes: list[int], listed: Container[str]) -> Iterator[str]:
    """The public URLs of a file; the index of a listing answers for limits whose files are not ``listed``."""

    def limited(url: str, size: int) -> Iterator[str]:
        # The last limit before the next size is answered with the same page.
        above = next((other for other in sizes if other > size), MAX_LIMIT + 1)
        joint = "&" if "?" in url else "?"
        yield from dict.fromkeys(f"{url}{joint}limit={limit}" for limit in (size, above - 1 if size else 0))

    found = parse_key(key)
    if found is not None and (url := found[0].url) is not None:
        if "limit" in found[1]:
            yield from limited(url.rpartition("limit=")[0][1:-1].format(**found[1]), int(found[1]["limit"]))
        elif not key.startswith(BUCKET_PAGE.prefix):  # the key of an older page does not name its history
            yield (own := url.format(**found[1])[1:])
            if is_listing(key) and found[0].model is AssetsPage:
                folder = key.removesuffix("index.json")
                for size in sizes:
                    if f"{folder}limit/{size}.json" not in listed:
                        yield from limited(own, size)
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


def _header_faults(answer: Answer, wanted: str | None) -> Iterator[str]:
    found = answer.headers.get("content-type", "").partition(";")[0].strip()
    if found != wanted:
        yield f"has the content type {found!r}, not {wanted!r}"
    if answer.headers.get("access-control-allow-origin") != "*":
        yield "is answered without access-control-allow-origin: *, so web pages cannot read it"


async def _check_ranges(source: HttpSource, checker: TreeChecker, files: pl.DataFrame) -> None:
    """Where a server offers ranges, as readers of Parquet need them, it must get them right."""
    tables = pl.col("key").str.starts_with(HISTORY_PREFIX) & pl.col("key").str.ends_with(".parquet")
    for key, size in files.filter(tables).select("key", "bytes").iter_rows():
        answer = await source.ask(key, size, {"range": "bytes=0-3"})
        checker.summary.requests += 1
        offered = "bytes" in answer.headers.get("accept-ranges", "")
        if answer.status != 206:
            if offered:
                checker.fault(key, f"offers ranges, but answers one with HTTP status {answer.status}")
            continue
        stated = answer.headers.get("content-range", "")
        if answer.body != b"PAR1" or stated != f"bytes 0-3/{size}":
            checker.fault(key, f"answers the range of its first 4 bytes with {len(answer.body)} as {stated!r}")
