"""Checks a tree file by file.

What a single file shows is judged when the file is added. What needs several files, such as links and the history, is
judged in the end, when all of them were added.
"""

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
    RISK_TABLE,
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

MAX_SCHEMA_FAULTS = 20
"""Largest number of faults that are reported of one document that does not match its schema."""

MAX_FAULT_CHARACTERS = 400
"""Longest text of a fault. A text may quote the file, whose values can have any length."""

Schemas = dict[str, jsonschema_rs.Draft202012Validator]
_Model = TypeVar("_Model")

MAX_SHOWN_FAULTS = 20
"""Largest number of faults that a message lists one by one; it counts the rest."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong in a tree: the key of the file in which it shows, and a text that says what it is."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


_WRITTEN_APART = (DAILY_ROLLUP.template, HOURLY_ROLLUP.template, RISK_TABLE.template)


class TreeFaultsError(CheckError):
    """A tree failed its checks. ``faults`` has everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        shown = [f"  {fault}" for fault in faults[:MAX_SHOWN_FAULTS]]
        if len(faults) > len(shown):
            shown.append(f"  and {len(faults) - len(shown)} more")
        super().__init__("\n".join((f"the tree fails its checks: {pluralize(len(faults), 'fault')}", *shown)))
        self.faults = tuple(faults)


@dataclass(slots=True)
class CheckSummary:
    """How much was checked: a check that read little proves little.

        >>> summary.pools, summary.links > 0
        (24, True)
        >>> summary.lines()[0].startswith("run ")
        True

    Attributes:
        complete: whether the whole tree was checked; False for a sample.
        version: the exporter's version, as the tree's OpenAPI document states it.
        files: number of files, by kind.
        bytes: size of the files, by kind.
        documents: number of documents, by the name of their model.
        validated: number of documents that were also validated against the schemas of the tree's OpenAPI document.
        markets: number of documents of a single market.
        pools: number of documents of a single pool.
        links: number of links that were followed to a file.
        requests: number of public URLs that were asked for.
        rerendered: number of files that rendering the run again from its evidence and the history gave byte for byte.
        not_rerendered: why no file was rendered again; None if some were, and for a sample.
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

    def as_dict(self) -> dict[str, object]:
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
    """What a Parquet file of the history contains.

    Attributes:
        rows: number of rows; None if the file cannot be read.
        ledgers: the first and the last ledger of its rows; None without rows.
        closed: the first and the last close time of its rows; None without rows.
    """

    bytes: int
    sha256: str
    rows: int | None = None
    ledgers: tuple[int, int] | None = None
    closed: tuple[datetime, datetime] | None = None


def read_parquet(data: bytes, sha256: str) -> ParquetFacts:
    """Read the facts of a history file with this SHA-256. Raises `CheckError` if it cannot be read."""
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
    """Checks one tree whose files are added one by one, and keeps none of them in memory.

    Web pages are best added last: then most of their links lead to files that were added already.

    Attributes:
        ledger: the ledger of the run.
        page_sizes: the numbers of pools on a page that the API offers.
        partial: whether only a sample of the files is added, so that a missing file is no fault.
        own_files_only: whether only the run's own files are added, and none that earlier runs left.
        listed: the listing of the run's files.
        seen: the keys of the files that were added.
    """

    ledger: int
    page_sizes: Sequence[int]
    partial: bool = False
    own_files_only: bool = False
    listed: RunListing = field(default_factory=lambda: RunListing.of(()))
    summary: CheckSummary = field(default_factory=CheckSummary)
    seen: set[str] = field(default_factory=set)
    pending_links: dict[str, Fault] = field(default_factory=dict)
    """Links to files that were not added yet, keyed by the file that they lead to.

    The value is the key of the first file with such a link, and the text of the fault if the link's file never comes.
    """
    older_pages: list[str] = field(default_factory=list)
    """The keys of older pages of histories that documents led to."""
    _faults: set[Fault] = field(default_factory=set)
    _documents: dict[type, Any] = field(default_factory=dict)
    _parquet: dict[str, ParquetFacts] = field(default_factory=dict)
    _schemas: Schemas = field(default_factory=dict)

    def single_document(self, model: type[_Model]) -> _Model | None:
        """The document of a model that a tree has only once; None if it was not added."""
        document: _Model | None = self._documents.get(model)
        return document

    def count_link(self, key: str) -> bool:
        """Count a link to a file, and tell whether the file is there."""
        self.summary.links += 1
        return key in self.seen or (self.partial and key in self.listed)

    def fault(self, key: str, *texts: str) -> None:
        """Record what is wrong with a file: a fault for each text."""
        for text in texts:
            cut = text if len(text) <= MAX_FAULT_CHARACTERS else text[: MAX_FAULT_CHARACTERS - 1] + "…"
            self._faults.add(Fault(key, cut.replace("\n", " ")))

    def add_rendered(self, file: RenderedFile) -> None:
        """Add a file that was just rendered."""
        self.add(file.key, file.data, sha256=file.sha256)

    def add(self, key: str, data: bytes, *, sha256: str | None = None) -> None:
        """Check a file by itself, and remember what its links and its facts ask of other files."""
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
        """Validate documents that are added from now on against the schemas of this OpenAPI document."""
        try:
            self._schemas = _schemas_in(openapi)
        except (CheckError, msgspec.DecodeError, KeyError, AttributeError) as error:
            self.fault(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def finish(self) -> CheckSummary:
        """Judge the tree as a whole, after its last file was added.

        Raises `TreeFaultsError` with all faults. Raises `CheckError` if there is no fault, but no status document.
        """
        status = self.single_document(SystemStatus)
        if status is None:
            self._raise_faults()
            raise CheckError(f"{STATUS_KEY} is missing, so no run is published")
        openapi = self.single_document(OpenApiDocument)
        if openapi is not None:
            self.summary.version = str(openapi.info.get(VERSION_FIELD))
        elif not self.partial and OPENAPI_KEY not in self.seen:
            self.fault(OPENAPI_KEY, "is missing")
        if status.manifest_key != RUN.key(run_id=status.run_id):
            self.fault(STATUS_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
        if not self.partial and status.evidence_key not in self.seen:
            self.fault(STATUS_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")
        self._check_history(status)
        for target, fault in self.pending_links.items():
            if target not in self.seen:
                self.fault(fault.key, fault.text)
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
        """Read a file as what its family says it is. Returns the name of a document's model, None for other files."""
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
        """Check that a document belongs to the run's ledger, and follow its links."""
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
                if not self.count_link(target := PAGE.key(cursor=cursor)):
                    self.pending_links.setdefault(
                        target, Fault(key, f"next_cursor leads to {target}, which is not there")
                    )
            case AssetHistory(next_cursor=str(cursor)) | TotalsHistory(next_cursor=str(cursor)):
                self.summary.links += 1
                # The sweep removes recent pages a day after they were published. Other pages may have been written by
                # an earlier run, and no manifest lists them.
                if not cursor.startswith(RECENT) and not self.own_files_only and not self.partial:
                    target = (BUCKET_PAGE if isinstance(document, AssetHistory) else TOTALS_PAGE).key(cursor=cursor)
                    self.pending_links.setdefault(
                        target, Fault(key, f"next_cursor leads to {target}, which is not there")
                    )
                    self.older_pages.append(target)
            case DataPackage():
                # History files are left out: compaction may have replaced one after the package was rendered, and the
                # package names it until the next run. Rollups are left out too: they are written after the package
                # is rendered, and are checked by the history's manifest. A census writes the table of risk, not a run.
                for path in [path for resource in document.resources for path in resource.path]:
                    if path not in _WRITTEN_APART and kind_of(path) is not FileKind.HISTORY and not self.partial:
                        self.summary.links += 1
                        self.pending_links.setdefault(path, Fault(key, f"leads to {path}, which is not there"))

    def _follow_links(self, key: str, links: Iterable[str]) -> None:
        """Follow the links of a web page. A file that is not there may still be added, so its link stays pending."""
        for link in links:
            # A link to the name of a file needs no route.
            if link[1:] in self.pending_links or ("." in link and link[1:] in self.seen):
                self.summary.links += 1
                continue
            path, _, query = link.partition("?")
            if path[1:] in _WRITTEN_APART:  # after the pages; the manifest of the history checks rollups
                continue
            answer = route(path, query, sorted(self.page_sizes))
            if isinstance(answer, Problem):
                self.fault(key, f"links to {link}, which is answered with {answer.status}")
            elif not any(map(self.count_link, answer.keys)):
                self.pending_links.setdefault(
                    answer.keys[0], Fault(key, f"links to {link}, but {answer.keys[0]} is not there")
                )

    def _check_history(self, status: SystemStatus) -> None:
        """Check that the history's manifest describes its files rightly, and ends with the run's ledger."""
        history = self.single_document(HistoryManifest)
        if history is None:
            if self._parquet:
                self.fault(HISTORY_MANIFEST_KEY, "is missing, though the history has files")
            return
        newest = max((file.last_ledger for file in history.files), default=0)
        for name, last_ledger in (("observed_ledger", history.observed_ledger), ("files", newest)):
            if last_ledger != status.observed_ledger:
                text = f"$.{name} reaches to ledger {last_ledger}, but the run is of ledger {status.observed_ledger}"
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
"""Largest number of links of one web page that are followed."""

_OUTSIDE_LINK = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
"""The beginning of a link that leaves the tree: a scheme or a host."""

_LINK = re.compile(r"""\s(?:href|src)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


def links_of(key: str, data: bytes) -> tuple[str, ...]:
    """The links of a web page that stay inside the tree, as paths from its root with their query strings."""
    links = dict.fromkeys(islice(_LINK.findall(data.decode("utf-8", "replace")), MAX_LINKS))
    folder = "".join(f"{name}/" for name in key.split("/")[:-1])
    paths = (_path_inside(folder, unescape(link)) for link in links)
    return tuple(dict.fromkeys(path for path in paths if path is not None))


@lru_cache(maxsize=1 << 12)
def _path_inside(folder: str, link: str) -> str | None:
    """The path that a link on a page of this folder leads to; None if it leaves the tree."""
    target = link.strip().partition("#")[0]
    if not target or _OUTSIDE_LINK.match(target):
        return None
    path, mark, query = target.partition("?")
    joined = normpath(join("/", folder, path))
    is_folder = path[-1:] in ("", "/") and joined != "/"  # normpath removes the slash at the end
    return joined + ("/" if is_folder else "") + mark + query


def contradictions(row: AssetDetail) -> Iterator[str]:
    """Faults of a pool whose fields contradict each other by the definitions of the API."""
    supplied, borrowed = int(row.total_supplied), int(row.total_borrowed)
    utilization = min(utilization_bps(borrowed, supplied), JSON_INTEGER_MAX)
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        dollars, _, fraction = row.oracle_price_usd.partition(".")
        exponent = min(row.decimals + len(fraction), 1_000)  # so that absurd decimals cannot cost much time
        supplied_usd_cents = supplied * int(dollars + fraction) * 100 // 10**exponent
        if int(row.tvl_usd_cents) < supplied_usd_cents:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {supplied_usd_cents}"


@lru_cache(maxsize=4)
def _schemas_in(openapi: bytes) -> Schemas:
    """The compiled schemas of an OpenAPI document, cached because trees of one version have the same document."""
    return schemas_of(decode_json(openapi, OpenApiDocument).components["schemas"])


def schemas_of(components: Mapping[str, Any]) -> Schemas:
    """Compile schemas that anybody may have written: nothing is fetched for them, and no pattern runs for long.

    Raises `CheckError` for a schema that cannot be compiled.
    """
    compiled = {}
    for name, schema in components.items():
        if not isinstance(schema, dict):
            raise CheckError(f"$.components.schemas: {name} is not a schema")
        try:
            compiled[name] = jsonschema_rs.Draft202012Validator(
                {**schema, "components": {"schemas": components}},
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(),  # the one engine that never backtracks
            )
        except ValueError as error:
            raise CheckError(f"$.components.schemas: {name} is not known here: {_first_line(error)}") from error
    return compiled


def schema_faults(schemas: Schemas, name: str, value: Any) -> Iterator[str]:
    """Where a decoded JSON value does not match the named schema, at most `MAX_SCHEMA_FAULTS` texts."""
    for error in islice(schemas[name].iter_errors(value), MAX_SCHEMA_FAULTS):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        yield f"is not as the OpenAPI document says: ${path}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
