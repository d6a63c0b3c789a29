"""What a web server must do with a tree beside handing out its files: public URLs, errors, headers, ranges."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

import msgspec

from exporter.check.checker import TreeChecker
from exporter.check.tree_sources import Answer, HttpSource
from exporter.tree.decoding import decode_json
from exporter.tree.documents import RunManifest, SystemStatus
from exporter.tree.families import EMPTY_PAGE_KEY, POINTER_KEY
from exporter.tree.files import FileKind
from exporter.tree.headers import PROBLEM_CONTENT_TYPE, content_type
from exporter.tree.problems import Problem
from exporter.tree.routes import MAX_LIMIT

MAX_PROBLEM_BYTES = 64 * 1024
_STRANGER = "C" + "A" * 55
"""A well-formed address that is no contract's: its checksum is wrong."""

_HEAD = re.compile(
    r"v1/assets(?:/market/(?P<market>C[A-Z2-7]{55}))?(?:/token/(?P<token>C[A-Z2-7]{55}))?"
    r"/(?:index|limit/(?P<limit>[0-9]+))\.json"
)
_HISTORY = re.compile(r"(?P<path>v1/assets/[^/]+/[^/]+/history)/(?P<bucket>[0-9]+[mhdw])\.json")

ALWAYS_ASKED = ("v1/assets/index.json", "v1/assets/limit/", "v1/markets.json", "v1/openapi.json")
"""How the keys begin that are in every sample."""

ERRORS = (
    ("v1/assets?limit=-1", 400),
    ("v1/assets?limit=1.5", 400),
    (f"v1/assets?limit={MAX_LIMIT + 1}", 400),
    ("v1/assets?market=XLM", 400),
    ("v1/assets?token=XLM", 400),
    ("v1/assets?sort=tvl", 400),
    ("v1/markets?page=2", 400),
    ("v1/assets?cursor=unknown", 404),
    ("v1/markets/XLM", 400),
    (f"v1/markets/{_STRANGER}", 404),
    ("v1/nothing", 404),
)
"""URLs that are answered with a problem document, and the status."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """A public URL (path and query, without the first slash) and the file that answers it."""

    url: str
    key: str
    sha256: str


async def check_public_urls(
    source: HttpSource, checker: TreeChecker, status: SystemStatus, manifest: RunManifest, count: int, drawn: Random
) -> None:
    """Ask for files by their public URLs, and for what must be refused; note every difference.

    Args:
        source: the server.
        checker: is told the faults, by URL, and how many URLs were asked for.
        status: the published run's, for its page sizes.
        manifest: the published run's, for the digests of its files.
        count: how many files are asked for, besides some of which there is only one.
        drawn: which ones.
    """
    digests = {file.key: file.sha256 for file in manifest.files}
    always = [key for key in digests if key.startswith(ALWAYS_ASKED)]
    keys = [key for key in digests if content_type(key) == "application/json" and not key.startswith("v1/runs/")]
    chosen = dict.fromkeys((*always, *(keys if len(keys) <= count else drawn.sample(keys, count))))
    expected = [
        _Expected(url, key, digests[key]) for key in chosen for url in public_urls(key, sorted(status.page_sizes))
    ]
    if EMPTY_PAGE_KEY in digests:
        for url in (f"v1/assets?market={_STRANGER}", f"v1/assets?token={_STRANGER}&limit=0"):
            expected.append(_Expected(url, EMPTY_PAGE_KEY, digests[EMPTY_PAGE_KEY]))
    await asyncio.gather(
        *(
            _check_file(source, checker, wanted, sizes)
            for sizes in [{f.key: f.bytes for f in manifest.files}]
            for wanted in expected
        ),
        *(_check_error(source, checker, url, code) for url, code in ERRORS),
        _check_file(source, checker, _Expected("v1/system/status", POINTER_KEY, ""), {}),
    )
    checker.asked(len(expected) + len(ERRORS) + 1)
    await _check_ranges(source, checker, manifest)


def public_urls(key: str, sizes: list[int]) -> Iterator[str]:
    """The public URLs of a file of the tree, without the first slash."""
    if match := _HEAD.fullmatch(key):
        filters = [f"{name}={match[name]}" for name in ("market", "token") if match[name]]
        for limit in _limits(match["limit"], sizes):
            query = "&".join([*filters, *([f"limit={limit}"] if limit is not None else [])])
            yield f"v1/assets?{query}" if query else "v1/assets"
    elif key.startswith("v1/pages/"):
        yield f"v1/assets?cursor={_name(key)}"
    elif match := _HISTORY.fullmatch(key):
        yield f"{match['path']}?bucket={match['bucket']}"
    elif key.endswith(".json") and key != EMPTY_PAGE_KEY and not key.startswith("v1/buckets/"):
        yield key.removesuffix(".json")
    yield key


def _limits(limit: str | None, sizes: list[int]) -> Iterable[int | None]:
    """The limits that a head page answers: its size, and the last one before the next size."""
    if limit is None:
        return (None,)
    size = int(limit)
    later = [other for other in sizes if other > size]
    return dict.fromkeys((size, later[0] - 1 if later else MAX_LIMIT)) if size else (0,)


def _name(key: str) -> str:
    return key.rpartition("/")[2].removesuffix(".json")


async def _check_file(source: HttpSource, checker: TreeChecker, wanted: _Expected, sizes: dict[str, int]) -> None:
    answer = await source.ask(wanted.url, sizes.get(wanted.key, MAX_PROBLEM_BYTES))

    def fault(text: str) -> None:
        checker.note(f"/{wanted.url}", text)

    if answer.status != 200:
        fault(f"is answered with HTTP status {answer.status}, not with {wanted.key}")
        return
    if wanted.sha256 and hashlib.sha256(answer.body).hexdigest() != wanted.sha256:
        fault(f"is answered with other bytes than those of {wanted.key}")
    found = answer.headers.get("content-type", "").partition(";")[0].strip()
    if found != content_type(wanted.key):
        fault(f"has the content type {found!r}, not {content_type(wanted.key)!r}")
    for text in _cors_faults(answer):
        fault(text)


async def _check_error(source: HttpSource, checker: TreeChecker, url: str, code: int) -> None:
    answer = await source.ask(url, MAX_PROBLEM_BYTES)

    def fault(text: str) -> None:
        checker.note(f"/{url}", text)

    if answer.status != code:
        fault(f"is answered with HTTP status {answer.status}, not {code}")
        return
    if answer.headers.get("content-type", "").partition(";")[0].strip() != PROBLEM_CONTENT_TYPE:
        fault(f"has the content type {answer.headers.get('content-type', '')!r}, not {PROBLEM_CONTENT_TYPE!r}")
    try:
        document = decode_json(answer.body, Problem)
    except msgspec.DecodeError as error:
        fault(f"is not answered with a problem document: {error}")
    else:
        if document.status != code:
            fault(f"is answered with a problem document of status {document.status}, not {code}")
    for text in _cors_faults(answer):
        fault(text)


def _cors_faults(answer: Answer) -> Iterator[str]:
    if answer.headers.get("access-control-allow-origin") != "*":
        yield "is answered without access-control-allow-origin: *, so web pages cannot read it"


async def _check_ranges(source: HttpSource, checker: TreeChecker, manifest: RunManifest) -> None:
    """Where a server offers ranges, as readers of Parquet need them, it must get them right."""
    for file in manifest.files:
        if file.kind != FileKind.HISTORY:
            continue
        answer = await source.ask(file.key, file.bytes, {"range": "bytes=0-3"})
        checker.asked(1)
        offered = "bytes" in answer.headers.get("accept-ranges", "")
        if answer.status != 206:
            if offered:
                checker.note(file.key, f"offers ranges, but answers one with HTTP status {answer.status}")
            continue
        stated = answer.headers.get("content-range", "")
        if answer.body != b"PAR1" or stated != f"bytes 0-3/{file.bytes}":
            checker.note(file.key, f"answers the range of its first 4 bytes with {len(answer.body)} as {stated!r}")
