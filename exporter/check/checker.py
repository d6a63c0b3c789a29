"""Checking a tree file by file: what follows from one file is judged at once, the rest when all are there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from exporter.check.history_files import ParquetFacts, check_history, read_parquet
from exporter.check.public_urls import follow_links, links_of
from exporter.check.summary import CheckSummary, Whole
from exporter.errors import CheckError
from exporter.render.openapi import VERSION_FIELD
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    Census,
    DataPackage,
    HistoryManifest,
    ManifestFile,
    MarketSummary,
    OpenApiDocument,
    ProofList,
    SystemStatus,
    TotalsHistory,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    EVIDENCE,
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

BPS = 10_000

MAX_DIGITS = 100
"""Of an amount or a price: those of contracts have 39, and Python refuses to convert more than 4,300 at once."""

MAX_EXPONENT = 1_000
"""No token has this many decimals; the value of one that says so is not computed."""

Schemas = dict[str, jsonschema_rs.Draft202012Validator]


class TreeChecker:
    """Checks one tree. Files are added one by one, web pages best last; none is kept."""

    def __init__(self, whole: Whole) -> None:
        self.whole = whole
        self._parquet: dict[str, ParquetFacts] = {}
        self._schemas: Schemas = {}

    def add_rendered(self, file: RenderedFile) -> None:
        self.add(file.key, file.data, sha256=file.sha256)

    def add(self, key: str, data: bytes, *, sha256: str | None = None) -> None:
        """Add a file."""
        whole = self.whole
        if key in whole.seen:
            whole.fault(key, "is there twice")
            return
        whole.seen.add(key)
        kind = kind_of(key)
        whole.summary.files[kind.value] += 1
        whole.summary.bytes[kind.value] += len(data)
        sha256 = sha256 or hashlib.sha256(data).hexdigest()
        found = parse_key(key)
        if not data:
            whole.fault(key, "is empty")
            return
        try:
            if key.endswith(".html"):
                follow_links(whole, key, links_of(key, data))
                return
            model = self._read(key, data, sha256, *(found or (None, {})))
            if model in self._schemas:
                whole.summary.validated += 1
                whole.fault(key, *schema_faults(self._schemas, model, decode_json(data, object)))
        except CheckError as error:
            whole.fault(key, str(error).removeprefix(f"{key}: "))
        except (ValueError, RecursionError) as error:
            whole.fault(key, f"cannot be read: {error}")

    def use_schemas(self, openapi: bytes) -> None:
        try:
            self._schemas = schemas_of(decode_json(openapi, OpenApiDocument).components["schemas"])
        except (CheckError, msgspec.DecodeError, KeyError, AttributeError) as error:
            self.whole.fault(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def take_over(self, files: Iterable[ManifestFile]) -> None:
        """Accept documents of the run before, whose checker saw them, that this run has unchanged."""
        self.whole.seen.update(file.key for file in files)

    def wanted(self) -> list[str]:
        """Older pages of histories that documents led to since this was asked, and that the run does not list."""
        wanted, self.whole.wanted = self.whole.wanted, []
        return sorted({key for key in wanted if key not in self.whole.seen and key not in self.whole.listed})

    def finish(self) -> CheckSummary:
        """Judge the whole. Raises `TreeFaultsError` that has all faults, `CheckError` where no pointer was added."""
        whole = self.whole
        status = whole.one(SystemStatus)
        if status is None:
            whole.raise_faults()
            raise CheckError(f"{POINTER_KEY} is missing, so no run is published")
        openapi = whole.one(OpenApiDocument)
        if openapi is not None:
            whole.summary.version = str(openapi.info.get(VERSION_FIELD))
        elif not whole.partial and OPENAPI_KEY not in whole.seen:
            whole.fault(OPENAPI_KEY, "is missing")
        if status.manifest_key != RUN.key(run_id=status.run_id):
            whole.fault(POINTER_KEY, f"$.manifest_key is {status.manifest_key}, not that of run {status.run_id}")
        if not whole.partial and status.evidence_key not in whole.seen:
            whole.fault(POINTER_KEY, f"$.evidence_key is {status.evidence_key}, which is missing")
        check_history(whole, status, self._parquet)
        for target, (key, text) in whole.links.items():
            if target not in whole.seen:
                whole.fault(key, text)
        whole.summary.ledger, whole.summary.run_id = status.observed_ledger, status.run_id
        whole.summary.complete = not whole.partial
        whole.summary.markets = whole.summary.documents[MarketSummary.__name__]
        whole.summary.pools = whole.summary.documents[AssetDetail.__name__]
        whole.raise_faults()
        return whole.summary

    def _read(self, key: str, data: bytes, sha256: str, family: Family | None, names: Mapping[str, str]) -> str | None:
        whole = self.whole
        if family is RUN_FILES:
            RunListing.from_parquet(data)
        elif key.endswith(".parquet"):
            if family is LATEST_PARQUET:
                whole.latest = sha256  # it must have the bytes of the run's own file
                return None
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
        whole, document = self.whole, parse_back(key, data)
        model = type(document)
        whole.summary.documents[model.__name__] += 1
        if isinstance(document, SystemStatus | HistoryManifest | OpenApiDocument | ProofList | Census):
            whole.documents[model] = key, document
        whole.fault(key, *judge(whole, key, document))
        return model.__name__


def judge(whole: Whole, key: str, document: Any) -> Iterator[str]:
    """What is wrong with a document by itself, and with its links so far."""
    observed_ledger: Any = getattr(document, "observed_ledger", None)
    if isinstance(document, AssetHistory | TotalsHistory):  # its pages may be of earlier runs
        wrong = observed_ledger > whole.ledger and not key.startswith((BUCKET_PAGE.prefix, TOTALS_PAGE.prefix))
    else:
        wrong = observed_ledger not in (None, whole.ledger) and not isinstance(document, HistoryManifest)
    if wrong:
        yield f"$.observed_ledger is {observed_ledger}, but the run is of ledger {whole.ledger}"
    match document:
        case AssetDetail():
            yield from contradictions(document)
        case AssetsPage(next_cursor=str(cursor)):
            if not whole.there(target := PAGE.key(cursor=cursor)):
                whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
        case AssetHistory(next_cursor=str(cursor)) | TotalsHistory(next_cursor=str(cursor)):
            whole.summary.links += 1
            # The sweep removes recent pages a day after they were published; others may be of an earlier run, which no
            # manifest lists.
            if not cursor.startswith(RECENT) and not whole.own_files_only and not whole.partial:
                page = BUCKET_PAGE if isinstance(document, AssetHistory) else TOTALS_PAGE
                target = page.key(cursor=cursor)
                whole.links.setdefault(target, (key, f"next_cursor leads to {target}, which is not there"))
                whole.wanted.append(target)
        case DataPackage():
            # A file of the history may have been compacted since; it stays until the next run's package.
            for path in [path for resource in document.resources for path in resource.path]:
                if kind_of(path) is not FileKind.HISTORY and not whole.partial:
                    whole.summary.links += 1
                    whole.links.setdefault(path, (key, f"leads to {path}, which is not there"))


def contradictions(row: AssetDetail) -> Iterator[str]:
    """A pool's contradictions: fields that follow from others by the definitions of the API."""
    for name in ("total_supplied", "total_borrowed", "tvl_usd_cents", "oracle_price_usd"):
        if len(getattr(row, name) or "") > MAX_DIGITS:
            yield f"{name} has more than {MAX_DIGITS} characters"
            return
    supplied, borrowed = int(row.total_supplied), int(row.total_borrowed)
    utilization = borrowed * BPS // supplied if supplied else 0
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        whole, _, fraction = row.oracle_price_usd.partition(".")
        exponent = row.decimals + len(fraction)
        least = supplied * int(whole + fraction) * 100 // 10**exponent if exponent <= MAX_EXPONENT else 0
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
