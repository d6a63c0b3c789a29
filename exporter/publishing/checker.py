"""Checking a tree file by file: what follows from one file is judged at once, the rest when all are there."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from html import unescape
from itertools import islice
from posixpath import join, normpath
from typing import Any, NamedTuple, TypeVar

import jsonschema_rs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.errors import CheckError, DecodeError, pluralize
from exporter.exact import JSON_INTEGER_MAX, utilization_bps
from exporter.history.changes_table import rows_before
from exporter.history.manifest import decode_history_manifest, folder_of, span_of
from exporter.parquet_bounds import open_parquet
from exporter.render.openapi import VERSION_FIELD
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    Census,
    DataPackage,
    HistoryFile,
    HistoryManifest,
    MarketSummary,
    OpenApiDocument,
    ProofList,
    SystemStatus,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    CHANGES_TABLE,
    DAILY_ROLLUP,
    EVIDENCE,
    HISTORY_MANIFEST_KEY,
    HOURLY_ROLLUP,
    LATEST_PARQUET,
    OPENAPI_KEY,
    PAGE,
    PROOF,
    RECENT,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    TOTALS_PAGE,
    YIELDS,
    Family,
    kind_of,
    parse_key,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import content_type
from exporter.tree.pools import AssetDetail
from exporter.tree.problems import Problem
from exporter.tree.read_back import parse_back
from exporter.tree.routes import route
from exporter.tree.run_listing import RunListing
from exporter.tree.values import as_written

MAX_FAULTS = 20

MAX_FAULT_CHARACTERS = 400
"""A fault may repeat what a file says, and a file may say anything."""

Schemas = dict[str, jsonschema_rs.Draft202012Validator]
_Model = TypeVar("_Model")


SHOWN_FAULTS = 20


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong: the key of the file in which it shows, and what it is."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


_ROLLUPS = (DAILY_ROLLUP.template, HOURLY_ROLLUP.template)


class TreeFaultsError(CheckError):
    """A tree fails its checks; ``faults`` say what is wrong, by key."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        shown = [f"  {fault}" for fault in faults[:SHOWN_FAULTS]]
        if len(faults) > len(shown):
            shown.append(f"  and {len(faults) - len(shown)} more")
        super().__init__("\n".join((f"the tree fails its checks: {pluralize(len(faults), 'fault')}", *shown)))
        self.faults = tuple(faults)


@dataclass(slots=True)
class CheckSummary:
    """How much was checked. A check of little proves little.

        >>> summary.pools, summary.links > 0
        (24, True)
        >>> summary.lines()[0].startswith("run ")
        True

    ``files`` and ``bytes`` are by kind, ``documents`` by the name of their model, ``markets`` and ``pools`` those with
    one of their own. ``validated`` were also held against the schemas of the tree's OpenAPI document, whose ``version``
    is that of the exporter. ``links`` were followed to a file. ``rerendered`` files came out of the run's evidence and
    the history byte for byte; ``not_rerendered`` says why none was, None also for a sample.
    """

    run_id: str = ""
    ledger: int = 0
    complete: bool = True
    version: str = ""
    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    validated: int = 0
    markets: int = 0
    pools: int = 0
    links: int = 0
    history_files: int = 0
    history_rows: int = 0
    requests: int = 0
    rerendered: int = 0
    not_rerendered: str | None = None

    def as_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(sorted(it.items())) if isinstance(it, Counter) else it for name, it in values.items()}

    def lines(self) -> list[str]:
        kinds = ", ".join(
            f"{count:,} {kind} ({pluralize(self.bytes[kind], 'byte')})" for kind, count in sorted(self.files.items())
        )
        models = ", ".join(f"{count:,} {name}" for name, count in sorted(self.documents.items()))
        lines = [
            f"run {self.run_id} at ledger {self.ledger}" + ("" if self.complete else ", a sample of it"),
            f"files: {kinds}",
            f"documents: {models}",
            f"{pluralize(self.pools, 'pool')} of {pluralize(self.markets, 'market')}, "
            f"{pluralize(self.links, 'link')} followed",
            f"history: {pluralize(self.history_files, 'file')} with {pluralize(self.history_rows, 'row')}",
        ]
        if self.validated:
            lines.append(f"{pluralize(self.validated, 'document')} validated against the tree's own OpenAPI document")
        if self.requests:
            lines.append(f"{pluralize(self.requests, 'public URL')} asked for")
        if self.rerendered:
            lines.append(f"{pluralize(self.rerendered, 'file')} rendered again from evidence, byte for byte")
        if self.not_rerendered is not None:
            lines.append(f"not rendered again: {self.not_rerendered}")
        return lines


_ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)


class ParquetFacts(NamedTuple):
    """``rows`` is None if unreadable; ``ledgers`` and ``closed`` (times) are the first and last, None without rows."""

    bytes: int
    sha256: str
    rows: int | None = None
    ledgers: tuple[int, int] | None = None
    closed: tuple[datetime, datetime] | None = None


def read_parquet(data: bytes, sha256: str) -> ParquetFacts:
    """Read a file of the history. Raises `CheckError`."""
    try:
        columns = ["observed_ledger", "ledger_close_time"]
        table = open_parquet(data, columns).read(columns)
        ledgers, closed = (tuple(pc.min_max(column).as_py().values()) for column in table.columns)
    except DecodeError as error:
        raise CheckError(str(error)) from error
    except _ARROW_ERRORS as error:
        raise CheckError(f"pyarrow cannot read it: {error}") from error
    if not table.num_rows:
        return ParquetFacts(len(data), sha256, 0)
    return ParquetFacts(len(data), sha256, table.num_rows, ledgers, closed)


@dataclass(slots=True)
class TreeChecker:
    """Checks one tree. Files are added one by one, web pages best last; none is kept.

    ``partial``: of a sample; ``own_files_only``: without what earlier runs left. ``listed`` are the run's files.
    """

    ledger: int
    page_sizes: Sequence[int]
    partial: bool = False
    own_files_only: bool = False
    listed: RunListing = field(default_factory=lambda: RunListing.of(()))
    summary: CheckSummary = field(default_factory=CheckSummary)
    seen: set[str] = field(default_factory=set)
    links: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Keys that must be there in the end and were not when a file led to them: that file, and what is wrong if not."""
    wanted: list[str] = field(default_factory=list)
    """The keys of older pages of histories that documents led to."""
    _faults: set[Fault] = field(default_factory=set)
    _documents: dict[type, Any] = field(default_factory=dict)
    _parquet: dict[str, ParquetFacts] = field(default_factory=dict)
    _schemas: Schemas = field(default_factory=dict)

    def one(self, model: type[_Model]) -> _Model | None:
        """The document of a model of which a tree has one."""
        document: _Model | None = self._documents.get(model)
        return document

    def there(self, key: str) -> bool:
        """Whether a link to a file leads somewhere. Counts the link."""
        self.summary.links += 1
        return key in self.seen or (self.partial and key in self.listed)

    def fault(self, key: str, *texts: str) -> None:
        for text in texts:
            cut = text if len(text) <= MAX_FAULT_CHARACTERS else text[: MAX_FAULT_CHARACTERS - 1] + "…"
            self._faults.add(Fault(key, cut.replace("\n", " ")))

    def add_rendered(self, file: RenderedFile) -> None:
        self.add(file.key, file.data, sha256=file.sha256)

    def add(self, key: str, data: bytes, *, sha256: str | None = None) -> None:
        """Add a file."""
        if key in self.seen:
            self.fault(key, "is there twice")
            return
        self.seen.add(key)
        kind = kind_of(key)
        self.summary.files[kind.value] += 1
        self.summary.bytes[kind.value] += len(data)
        sha256 = sha256 or hashlib.sha256(data).hexdigest()
        parsed = parse_key(key)
        if not data:
            self.fault(key, "is empty")
            return
        try:
            if key.endswith(".html"):
                self._follow_links(key, links_of(key, data))
                return
            model = self._read(key, data, sha256, *(parsed or (None, {})))
            if model in self._schemas:
                self.summary.validated += 1
                self.fault(key, *schema_faults(self._schemas, model, decode_json(data, object)))
        except CheckError as error:
            self.fault(key, str(error).removeprefix(f"{key}: "))
        except (ValueError, RecursionError) as error:
            self.fault(key, f"cannot be read: {error}")

    def use_schemas(self, openapi: bytes) -> None:
        try:
            self._schemas = _schemas_in(openapi)
        except (CheckError, msgspec.DecodeError, KeyError, AttributeError) as error:
            self.fault(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def finish(self) -> CheckSummary:
        """Judge the whole. Raises `TreeFaultsError` with all faults, and `CheckError` without a status document."""
        status = self.one(SystemStatus)
        if status is None:
            self._raise_faults()
            raise CheckError(f"{STATUS_KEY} is missing, so no run is published")
        openapi = self.one(OpenApiDocument)
        if openapi is not None:
            self.summary.version = str(openapi.info.get(VERSION_FIELD))
        elif not self.partial and OPENAPI_KEY not in self.seen:
            self.fault(OPENAPI_KEY, "is missing")
        if status.manifest_key != RUN.key(run_id=status.run_id):
            self.fault(STATUS_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
        if not self.partial and status.evidence_key not in self.seen:
            self.fault(STATUS_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")
        self._check_history(status)
        for target, (key, text) in self.links.items():
            if target not in self.seen:
                self.fault(key, text)
        self.summary.ledger, self.summary.run_id = status.observed_ledger, status.run_id
        self.summary.complete = not self.partial
        self.summary.markets = self.summary.documents[MarketSummary.__name__]
        self.summary.pools = self.summary.documents[AssetDetail.__name__]
        self._raise_faults()
        return self.summary

    def _raise_faults(self) -> None:
        if self._faults:
            raise TreeFaultsError(sorted(self._faults))

    def _read(self, key: str, data: bytes, sha256: str, family: Family | None, names: Mapping[str, str]) -> str | None:
        if family is RUN_FILES:
            RunListing.from_parquet(data)
        elif key.endswith(".parquet"):
            if family is CHANGES_TABLE:
                rows_before(data, 0)
            elif family is not LATEST_PARQUET:
                self._parquet[key] = ParquetFacts(len(data), sha256)
                self._parquet[key] = read_parquet(data, sha256)
        elif family is EVIDENCE or family is PROOF:
            if names["sha256"] != sha256:
                raise CheckError(f"its content has the digest {sha256}")
        elif key.endswith(".json") and family is not YIELDS:
            return self._read_document(key, data)
        elif content_type(key) is None:
            raise CheckError("no file of a tree has such an extension")
        return None

    def _read_document(self, key: str, data: bytes) -> str:
        document = parse_back(key, data)
        model = type(document)
        self.summary.documents[model.__name__] += 1
        if key == HISTORY_MANIFEST_KEY:
            decode_history_manifest(data)
        if isinstance(document, SystemStatus | HistoryManifest | OpenApiDocument | ProofList | Census):
            self._documents[model] = document
        self._follow(key, document)
        return model.__name__

    def _follow(self, key: str, document: Any) -> None:
        """See that a document is of the run's ledger, and follow its links."""
        ledger: Any = getattr(document, "observed_ledger", None)
        if isinstance(document, AssetHistory | TotalsHistory):  # its pages may be of earlier runs
            wrong = ledger > self.ledger and not key.startswith((BUCKET_PAGE.prefix, TOTALS_PAGE.prefix))
        else:
            wrong = ledger not in (None, self.ledger) and not isinstance(document, HistoryManifest)
        if wrong:
            self.fault(key, f"$.observed_ledger is {ledger}, but the run is of ledger {self.ledger}")
        match document:
            case AssetDetail():
                self.fault(key, *contradictions(document))
            case AssetsPage(next_cursor=str(cursor)):
                if not self.there(target := PAGE.key(cursor=cursor)):
                    self.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
            case AssetHistory(next_cursor=str(cursor)) | TotalsHistory(next_cursor=str(cursor)):
                self.summary.links += 1
                # The sweep removes recent pages a day after they were published; others may be of an earlier run, which
                # no manifest lists.
                if not cursor.startswith(RECENT) and not self.own_files_only and not self.partial:
                    target = (BUCKET_PAGE if isinstance(document, AssetHistory) else TOTALS_PAGE).key(cursor=cursor)
                    self.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
                    self.wanted.append(target)
            case DataPackage():
                # A file of the history may have been compacted since; it stays until the next run's package.
                # Rollups are written after the package is rendered; the history's manifest answers for them.
                for path in [path for resource in document.resources for path in resource.path]:
                    if path not in _ROLLUPS and kind_of(path) is not FileKind.HISTORY and not self.partial:
                        self.summary.links += 1
                        self.links.setdefault(path, (key, f"leads to {path}, which is not there"))

    def _follow_links(self, key: str, links: Iterable[str]) -> None:
        """Follow the links of a page. What is not there may come: it is noted, with the first page that leads to it."""
        for link in links:
            # A file's name answers for itself.
            if link[1:] in self.links or ("." in link and link[1:] in self.seen):
                self.summary.links += 1
                continue
            path, _, query = link.partition("?")
            if path[1:] in _ROLLUPS:  # written after the pages are rendered; the history's manifest answers for them
                continue
            answer = route(path, query, sorted(self.page_sizes))
            if isinstance(answer, Problem):
                self.fault(key, f"links to {link}, which is answered with {answer.status}")
            elif not any(map(self.there, answer.keys)):
                self.links.setdefault(answer.keys[0], (key, f"links to {link}, but {answer.keys[0]} is not there"))

    def _check_history(self, status: SystemStatus) -> None:
        """See that the history's manifest describes its files, and that it reaches to the run."""
        history = self.one(HistoryManifest)
        if history is None:
            if self._parquet:
                self.fault(HISTORY_MANIFEST_KEY, "is missing, though the history has files")
            return
        newest = max((file.last_ledger for file in history.files), default=0)
        for name, found in (("observed_ledger", history.observed_ledger), ("files", newest)):
            if found != status.observed_ledger:
                text = f"$.{name} reaches to ledger {found}, but the run is of ledger {status.observed_ledger}"
                self.fault(HISTORY_MANIFEST_KEY, text)
        for file in history.files:
            if file.key in self.seen:
                self.summary.links += 1
                self.fault(file.key, *self._file_faults(file))
            elif not self.partial and not (self.own_files_only and file.last_ledger < status.observed_ledger):
                self.fault(file.key, "is missing, though the history's manifest lists it")

    def _file_faults(self, file: HistoryFile) -> Iterator[str]:
        facts = self._parquet.get(file.key)
        if facts is not None and (facts.bytes, facts.sha256) != (file.bytes, file.sha256):
            yield "does not have the bytes that the history's manifest gives for it"
        if facts is None or facts.rows is None:
            return
        self.summary.history_files += 1
        self.summary.history_rows += facts.rows
        if facts.rows != file.rows:
            yield f"has {facts.rows} rows, but {file.rows} in the history's manifest"
        if facts.ledgers is not None and facts.ledgers != (file.first_ledger, file.last_ledger):
            yield (
                f"has rows of ledgers {facts.ledgers[0]} to {facts.ledgers[1]}, but {file.first_ledger} to "
                f"{file.last_ledger} in the history's manifest"
            )
        begins, ends = span_of(folder_of(file.key))
        for closed in facts.closed or ():
            if not begins <= closed < ends:
                at = as_written(closed)
                yield f"is of a ledger that closed at {at}, which is another day or month than its folder's"
                return


MAX_LINKS = 100_000
"""In one page; more are not followed."""

_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
"""How a link begins that leaves the tree: with a scheme or a host."""

_LINK = re.compile(r"""\s(?:href|src)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


def links_of(key: str, data: bytes) -> tuple[str, ...]:
    """The links of a web page that stay inside the tree, as paths from its root with their query strings."""
    links = dict.fromkeys(islice(_LINK.findall(data.decode("utf-8", "replace")), MAX_LINKS))
    folder = "".join(f"{name}/" for name in key.split("/")[:-1])
    inside = (_inside(folder, unescape(link)) for link in links)
    return tuple(dict.fromkeys(link for link in inside if link is not None))


@lru_cache(maxsize=1 << 12)
def _inside(folder: str, link: str) -> str | None:
    """Where a link leads from a page in a folder; None outside the tree."""
    target = link.strip().partition("#")[0]
    if not target or _ELSEWHERE.match(target):
        return None
    path, mark, query = target.partition("?")
    joined = normpath(join("/", folder, path))
    return joined + ("/" if path[-1:] in ("", "/") and joined != "/" else "") + mark + query


def contradictions(row: AssetDetail) -> Iterator[str]:
    """A pool's fields that do not follow from its others by the definitions of the API."""
    supplied, borrowed = int(row.total_supplied), int(row.total_borrowed)
    utilization = min(utilization_bps(borrowed, supplied), JSON_INTEGER_MAX)
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        whole, _, fraction = row.oracle_price_usd.partition(".")
        exponent = min(row.decimals + len(fraction), 1_000)  # a lie about the decimals costs no time
        least = supplied * int(whole + fraction) * 100 // 10**exponent
        if int(row.tvl_usd_cents) < least:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {least}"


@lru_cache(maxsize=4)
def _schemas_in(openapi: bytes) -> Schemas:
    """The compiled schemas of an OpenAPI document. Checking many trees of one version compiles them once."""
    return schemas_of(decode_json(openapi, OpenApiDocument).components["schemas"])


def schemas_of(components: Mapping[str, Any]) -> Schemas:
    """Compile a stranger's schemas: none is fetched, every pattern ends. Raises `CheckError`."""
    compiled = {}
    for name, schema in components.items():
        if not isinstance(schema, dict):
            raise CheckError(f"$.components.schemas: {name} is not a schema")
        try:
            compiled[name] = jsonschema_rs.Draft202012Validator(
                {**schema, "components": {"schemas": components}},
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(),  # of all its engines the one that never goes back
            )
        except ValueError as error:
            raise CheckError(f"$.components.schemas: {name} is not known here: {_first_line(error)}") from error
    return compiled


def schema_faults(schemas: Schemas, name: str, value: Any) -> Iterator[str]:
    """The faults of a decoded JSON value by the schema of a name."""
    for error in islice(schemas[name].iter_errors(value), MAX_FAULTS):
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        yield f"is not as the OpenAPI document says: ${place}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
