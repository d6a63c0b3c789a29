"""Checking a tree file by file: what follows from one file is judged at once, the rest when all are there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import jsonschema_rs
import msgspec

from exporter.check.history_files import ParquetFacts, check_history, read_parquet
from exporter.check.public_urls import follow_links, links_of
from exporter.check.summary import CheckSummary, Fault, TreeFaultsError
from exporter.errors import CheckError
from exporter.exact import JSON_INTEGER_MAX
from exporter.history.manifest import decode_history_manifest
from exporter.render.openapi import VERSION_FIELD
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    Census,
    DataPackage,
    HistoryManifest,
    MarketSummary,
    OpenApiDocument,
    ProofList,
    SystemStatus,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    EVIDENCE,
    HISTORY_MANIFEST_KEY,
    LATEST_PARQUET,
    OPENAPI_KEY,
    PAGE,
    POINTER_KEY,
    PROOF,
    RECENT,
    RUN,
    RUN_FILES,
    TOTALS_PAGE,
    YIELDS,
    Family,
    kind_of,
    parse_key,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import content_type
from exporter.tree.pools import AssetDetail
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import RunListing

MAX_FAULTS = 20

MAX_FAULT_CHARACTERS = 400
"""A fault may repeat what a file says, and a file may say anything."""

Schemas = dict[str, jsonschema_rs.Draft202012Validator]
_Model = TypeVar("_Model")


@dataclass(slots=True)
class TreeChecker:
    """Checks one tree. Files are added one by one, web pages best last; none is kept.

    ``partial``: of a sample; ``own_files_only``: without what earlier runs left of the history. ``listed`` are the
    run's files.
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
        found: _Model | None = self._documents.get(model)
        return found

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
        found = parse_key(key)
        if not data:
            self.fault(key, "is empty")
            return
        try:
            if key.endswith(".html"):
                follow_links(self, key, links_of(key, data))
                return
            model = self._read(key, data, sha256, *(found or (None, {})))
            if model in self._schemas:
                self.summary.validated += 1
                self.fault(key, *schema_faults(self._schemas, model, decode_json(data, object)))
        except CheckError as error:
            self.fault(key, str(error).removeprefix(f"{key}: "))
        except (ValueError, RecursionError) as error:
            self.fault(key, f"cannot be read: {error}")

    def use_schemas(self, openapi: bytes) -> None:
        try:
            self._schemas = schemas_of(decode_json(openapi, OpenApiDocument).components["schemas"])
        except (CheckError, msgspec.DecodeError, KeyError, AttributeError) as error:
            self.fault(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def finish(self) -> CheckSummary:
        """Judge the whole. Raises `TreeFaultsError` that has all faults, `CheckError` where no pointer was added."""
        status = self.one(SystemStatus)
        if status is None:
            self._raise_faults()
            raise CheckError(f"{POINTER_KEY} is missing, so no run is published")
        openapi = self.one(OpenApiDocument)
        if openapi is not None:
            self.summary.version = str(openapi.info.get(VERSION_FIELD))
        elif not self.partial and OPENAPI_KEY not in self.seen:
            self.fault(OPENAPI_KEY, "is missing")
        if status.manifest_key != RUN.key(run_id=status.run_id):
            self.fault(POINTER_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
        if not self.partial and status.evidence_key not in self.seen:
            self.fault(POINTER_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")
        check_history(self, status, self._parquet)
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
            if family is not LATEST_PARQUET:
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
                for path in [path for resource in document.resources for path in resource.path]:
                    if kind_of(path) is not FileKind.HISTORY and not self.partial:
                        self.summary.links += 1
                        self.links.setdefault(path, (key, f"leads to {path}, which is not there"))


def contradictions(row: AssetDetail) -> Iterator[str]:
    """A pool's fields that do not follow from its others by the definitions of the API."""
    supplied, borrowed = int(row.total_supplied), int(row.total_borrowed)
    utilization = min(borrowed * 10_000 // supplied, JSON_INTEGER_MAX) if supplied else 0
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        whole, _, fraction = row.oracle_price_usd.partition(".")
        exponent = min(row.decimals + len(fraction), 1_000)  # a lie about the decimals costs no time
        least = supplied * int(whole + fraction) * 100 // 10**exponent
        if int(row.tvl_usd_cents) < least:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {least}"


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
