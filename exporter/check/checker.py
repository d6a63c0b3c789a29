"""Checking a tree file by file: what can be told of one file is judged at once, the rest when all are there.

checker = TreeChecker(observed_ledger)
checker.add("v1/assets/index.json", data)      # in any order; the bytes are not kept
looked = checker.finish()                      # or TreeFaultsError
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Container

import msgspec

from exporter.check.faults import Looked
from exporter.check.history import ParquetFacts, check_history, read_parquet
from exporter.check.kinds import KINDS, UNKNOWN, judge_documents
from exporter.check.links import check_links, links_of
from exporter.check.rows import Page
from exporter.check.run_records import check_manifest, check_status
from exporter.check.schemas import Schemas
from exporter.check.walks import check_walks, find_listing
from exporter.check.whole import Seen, Whole
from exporter.errors import CheckError
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    PAGE_TOKEN_LENGTH,
    AssetHistory,
    HistoryManifest,
    OpenApiDocument,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import OPENAPI_KEY, POINTER_KEY, bucket_page_key, kind_of
from exporter.tree.files import FileKind
from exporter.tree.headers import content_type
from exporter.tree.read_back import parse_back

_PAGE = re.compile(r"v1/pages/(?P<token>[A-Za-z0-9_-]+)\.json")
_HEAD = re.compile(
    r"(?P<folder>v1/assets(/market/C[A-Z2-7]{55})?(/token/C[A-Z2-7]{55})?)"
    r"/(?P<name>index|limit/(?:0|[1-9][0-9]{0,9}))\.json"
)

RECENT = 32
"""So many first pages are remembered with their bytes."""


class TreeChecker:
    """Checks one tree. Files are added one by one; of most of them only what walks and sums need is kept."""

    def __init__(
        self,
        observed_ledger: int,
        *,
        partial: bool = False,
        own_files_only: bool = False,
        listed: Container[str] = frozenset(),
    ) -> None:
        """Begin.

        Args:
            observed_ledger: the run's ledger.
            partial: only a sample is added. What is not added is not missed if it is ``listed``.
            own_files_only: only files of the run itself are added, not the history of earlier runs.
            listed: the keys that the run's manifest lists; needed for a sample only.
        """
        self._ledger = observed_ledger
        self._whole = Whole(partial=partial, own_files_only=own_files_only, listed=listed)
        self._parquet: dict[str, ParquetFacts] = {}
        self._wanted: set[str] = set()
        self._schemas: Schemas | None = None
        # A filter of few pools has the same first page in most sizes.
        self._recent: dict[bytes, tuple[Seen, Page]] = {}

    def add(self, key: str, data: bytes, *, of_run: bool = True) -> None:
        """Add a file; ``of_run`` is False for one that the run's manifest does not list, and need not list."""
        whole = self._whole
        if key in whole.seen:
            whole.faults.add(key, "is there twice")
            return
        if not of_run:
            whole.unlisted.add(key)
        kind = kind_of(key)
        whole.looked.files[kind.value] += 1
        whole.looked.bytes[kind.value] += len(data)
        known = self._recent.get(data)
        if known is not None and (match := _HEAD.fullmatch(key)):
            whole.seen[key], page = known
            self._add_head(match, page)
            return
        digest = hashlib.sha256(data)
        whole.seen[key] = Seen(len(data), digest.hexdigest())
        if not data:
            whole.faults.add(key, "is empty")
            return
        try:
            model = self._read(key, data, kind, digest.digest())
            if model is not None and self._schemas is not None and model in self._schemas:
                whole.looked.validated += 1
                whole.faults.add_all(key, self._schemas.faults(model, decode_json(data, object)))
        except CheckError as error:
            whole.faults.add(key, str(error).removeprefix(f"{key}: "))
        except (ValueError, RecursionError) as error:
            whole.faults.add(key, f"cannot be read: {error}")

    def use_schemas(self, openapi: bytes) -> None:
        """Validate all documents that are added from now on against the schemas of an OpenAPI document, too."""
        try:
            document = decode_json(openapi, OpenApiDocument)
            self._schemas = Schemas(document.components["schemas"])
        except (CheckError, msgspec.DecodeError, KeyError, AttributeError) as error:
            self._whole.faults.add(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def add_missing(self, key: str) -> None:
        """Say that a file which should be there is not; so a key that is wanted is not asked for again."""
        self._whole.faults.add(key, "is missing")
        self._wanted.discard(key)

    def note(self, key: str, text: str) -> None:
        """Note a fault that was found otherwise."""
        self._whole.faults.add(key, text)

    def asked(self, requests: int) -> None:
        """Count public URLs that were asked for."""
        self._whole.looked.requests += requests

    def next_of(self, key: str) -> str | None:
        """The token of the page after one that was added; None after the last, and for a key that is no page."""
        if match := _PAGE.fullmatch(key):
            page = self._whole.pages.get(match["token"])
        elif match := _HEAD.fullmatch(key):
            page = self._whole.heads.get(match["folder"], {}).get(match["name"])
        else:
            page = None
        return None if page is None else page.next_cursor

    def wanted(self) -> list[str]:
        """Keys that documents lead to and that neither were added nor need be listed: older pages of histories."""
        self._wanted.difference_update(self._whole.seen)
        return sorted(self._wanted)

    def finish(self) -> Looked:
        """Judge the whole.

        Raises:
            TreeFaultsError: it fails its checks, all of which are named.
            CheckError: nothing was added at all.
        """
        whole = self._whole
        if not whole.seen:
            raise CheckError("there is nothing to check: not one file was looked at")
        status = whole.status
        if status is None:
            if POINTER_KEY not in whole.seen:
                whole.faults.add(POINTER_KEY, "is missing, so no run is published")
            whole.faults.raise_any()
            raise CheckError(f"{POINTER_KEY} was not understood")
        if status.observed_ledger != self._ledger:
            whole.faults.add(POINTER_KEY, f"$.observed_ledger is {status.observed_ledger}, not {self._ledger}")
        if find_listing(whole):
            check_walks(whole, status)
            judge_documents(whole, status)
            check_status(whole, status)
        check_manifest(whole, status)
        check_history(whole, status, self._parquet)
        check_links(whole, status)
        whole.looked.ledger, whole.looked.run_id = status.observed_ledger, status.run_id
        whole.looked.complete = not whole.partial
        whole.faults.raise_any()
        return whole.looked

    def _read(self, key: str, data: bytes, kind: FileKind, digest: bytes) -> str | None:
        """Take a file apart; gives the name of its model if it is a document."""
        whole = self._whole
        if match := _PAGE.fullmatch(key):
            page = whole.table.read_page(key, data)
            self._count("AssetsPage", len(page.rows))
            token = base64.urlsafe_b64encode(digest)[:PAGE_TOKEN_LENGTH].decode("ascii")  # `documents.page_token`
            if token != match["token"]:
                raise CheckError(f"its content has the token {token}")
            whole.pages[match["token"]] = page
            return "AssetsPage"
        if match := _HEAD.fullmatch(key):
            page = whole.table.read_page(key, data)
            self._add_head(match, page)
            if len(self._recent) >= RECENT:
                self._recent.clear()
            self._recent[data] = (whole.seen[key], page)
            return "AssetsPage"
        if key.endswith(".parquet"):
            facts = read_parquet(data, self._ledger)
            if isinstance(facts, str):
                raise CheckError(facts)
            self._parquet[key] = facts
        elif key.endswith(".html"):
            whole.links[key] = links_of(key, data)
        elif key.endswith(".json"):
            return self._read_document(key, data, kind)
        elif content_type(key) is None:
            raise CheckError("no file of a tree has such an extension")
        return None

    def _add_head(self, match: re.Match[str], page: Page) -> None:
        self._count("AssetsPage", len(page.rows))
        self._whole.heads.setdefault(match["folder"], {})[match["name"]] = page

    def _read_document(self, key: str, data: bytes, kind: FileKind) -> str:
        whole = self._whole
        document = parse_back(key, data)
        self._count(type(document).__name__, 0)
        match document:
            case SystemStatus():
                whole.status = document
            case RunManifest():
                whole.manifests[key] = document
            case HistoryManifest():
                whole.history = document
                whole.unlisted.add(key)  # it continues the one that stands, so no single run lists it
            case _:
                keep = KINDS.get(type(document), UNKNOWN).keep
                whole.documents.setdefault(type(document), {})[key] = keep(document)
                if isinstance(document, AssetHistory) and document.next_cursor is not None:
                    self._wanted.add(bucket_page_key(document.next_cursor))
        return type(document).__name__

    def _count(self, model: str, rows: int) -> None:
        self._whole.looked.documents[model] += 1
        self._whole.looked.rows += rows
