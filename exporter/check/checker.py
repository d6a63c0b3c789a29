"""Checking a tree file by file: what can be told of one file is judged at once, the rest when all are there.

checker = TreeChecker(observed_ledger)
checker.add("v1/assets/index.json", data)      # in any order; the bytes are not kept
looked = checker.finish()                      # or TreeFaultsError
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from exporter.check.agreement import KINDS, UNKNOWN, check_manifest, check_status, judge_documents
from exporter.check.history_files import ParquetFacts, check_history, read_parquet
from exporter.check.made_again import MadeAgain
from exporter.check.public_urls import check_links, links_of
from exporter.check.walks import check_walks, find_listing
from exporter.check.watcher_files import Watched, check_watched, read_feed, read_metrics
from exporter.check.whole import Looked, Page, Seen, Whole
from exporter.errors import CheckError
from exporter.tree.decoding import decode_json
from exporter.tree.documents import (
    AssetHistory,
    AssetsPage,
    HistoryManifest,
    OpenApiDocument,
    PoolSnapshot,
    RunManifest,
    SystemStatus,
    TotalsHistory,
    token_of,
)
from exporter.tree.families import (
    BUCKET_PAGE,
    EMPTY_PAGE,
    EVIDENCE,
    LATEST_PARQUET,
    METRICS,
    OPENAPI_KEY,
    PAGE,
    POINTER_KEY,
    RUN,
    RUN_FILES,
    TOTALS_PAGE,
    YIELDS,
    assets_folder,
    kind_of,
    page_key,
    parse_key,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.headers import content_type
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import ManifestOfAnyAge, RunListing, listing_of

RECENT = 32
"""So many first pages are remembered."""


class TreeChecker:
    """Checks one tree. Files are added one by one; of most of them only what walks and sums need is kept."""

    def __init__(
        self,
        observed_ledger: int,
        *,
        partial: bool = False,
        own_files_only: bool = False,
        listed: Container[str] = frozenset(),
        rows: Sequence[PoolSnapshot] | None = None,
    ) -> None:
        """Begin.

        Args:
            observed_ledger: the run's ledger.
            partial: only a sample is added. What is not added is not missed if it is ``listed``.
            own_files_only: only files of the run itself are added, not the history of earlier runs.
            listed: the keys that the run's manifest lists; needed for a sample only.
            rows: what the tree must list as its pools, where that is known otherwise.
        """
        self._ledger, self._rows = observed_ledger, rows
        self.whole = Whole(partial=partial, own_files_only=own_files_only, listed=listed)
        self._parquet: dict[str, ParquetFacts] = {}
        self._watched: dict[str, Watched] = {}
        self._made_again = None if partial or own_files_only else MadeAgain()
        self._wanted: set[str] = set()
        self._schemas: Schemas | None = None
        # A filter of few pools has the same first page in many sizes.
        self._recent: dict[str, Page] = {}

    def add_rendered(self, file: RenderedFile) -> None:
        """Add a file as it comes from its renderer, and hold it against what that says of it."""
        self.add(file.key, file.data, sha256=file.sha256, written=file.document, links=file.links)

    def add(
        self,
        key: str,
        data: bytes,
        *,
        of_run: bool = True,
        sha256: str | None = None,
        written: msgspec.Struct | None = None,
        links: tuple[str, ...] | None = None,
    ) -> None:
        """Add a file.

        Args:
            key: its key.
            data: its bytes.
            of_run: False for a file that the run's manifest does not list, and need not list.
            sha256: the digest of the bytes, where it was computed already.
            written: the document that the bytes must say, where that is known.
            links: where the web page leads inside the tree, where that is known.
        """
        whole = self.whole
        if key in whole.seen:
            whole.faults.add(key, "is there twice")
            return
        if not of_run:
            whole.unlisted.add(key)
        kind = kind_of(key)
        whole.looked.files[kind.value] += 1
        whole.looked.bytes[kind.value] += len(data)
        digest = bytes.fromhex(sha256) if sha256 is not None else hashlib.sha256(data).digest()
        whole.seen[key] = Seen(len(data), digest.hex())
        if not data:
            whole.faults.add(key, "is empty")
            return
        token, filters = token_of(digest), _filters(key)
        if filters is not None and (page := whole.pages.get(token) or self._recent.get(token)) is not None:
            self._add_head(key, filters, page)
            return
        try:
            model = self._read(key, data, filters, token, written, links)
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
            self.whole.faults.add(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def add_missing(self, key: str) -> None:
        """Say that a file which should be there is not; so a key that is wanted is not asked for again."""
        self.whole.faults.add(key, "is missing")
        self._wanted.discard(key)

    def next_of(self, key: str) -> str | None:
        """The token of the page after one of all pools; None after the last, and for what is no such page."""
        if match := PAGE.pattern.fullmatch(key):
            page = self.whole.pages.get(match["cursor"])
        else:
            listing = assets_folder(None, None)
            page = self.whole.heads.get(listing, {}).get(key[len(listing) + 1 : -len(".json")])
        return None if page is None else page.next_cursor

    def wanted(self) -> list[str]:
        """Keys that documents lead to and that neither were added nor need be listed: older pages of histories."""
        self._wanted.difference_update(self.whole.seen)
        return sorted(self._wanted)

    def finish(self) -> Looked:
        """Judge the whole.

        Raises:
            TreeFaultsError: it fails its checks, all of which are named.
            CheckError: nothing was added at all.
        """
        whole = self.whole
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
        if find_listing(whole, self._rows):
            check_walks(whole, status)
            judge_documents(whole, status)
            check_status(whole, status)
        check_manifest(whole, status)
        check_history(whole, status, self._parquet)
        check_watched(whole, status, self._watched)
        check_links(whole, status)
        if self._made_again is not None:
            self._made_again.check(whole, status)
        whole.looked.ledger, whole.looked.run_id = status.observed_ledger, status.run_id
        whole.looked.complete = not whole.partial
        whole.faults.raise_any()
        return whole.looked

    def _read(
        self,
        key: str,
        data: bytes,
        filters: Mapping[str, str] | None,
        token: str,
        written: msgspec.Struct | None,
        links: tuple[str, ...] | None,
    ) -> str | None:
        """Take a file apart; gives the name of its model if it is a document."""
        whole = self.whole
        if PAGE.pattern.fullmatch(key):
            page = whole.table.read_page(key, data)
            self._count("AssetsPage", len(page.rows))
            if key != page_key(token):
                raise CheckError(f"its content has the token {token}")
            whole.pages[token] = page
            return "AssetsPage"
        if filters is not None:
            page = whole.table.read_page(key, data)
            self._add_head(key, filters, page)
            if len(self._recent) >= RECENT:
                self._recent.clear()
            self._recent[token] = page
            return "AssetsPage"
        if key.endswith(".parquet"):
            if key == LATEST_PARQUET.template:
                return None  # it must have the bytes of the run's own file
            if RUN_FILES.pattern.fullmatch(key):
                whole.listings[key] = RunListing.from_parquet(data)
                return None
            facts = read_parquet(data, self._ledger)
            if isinstance(facts, str):
                raise CheckError(facts)
            self._parquet[key] = facts
            if self._made_again is not None:
                self._made_again.add(key, data, whole.history)
        elif match := EVIDENCE.pattern.fullmatch(key):
            if match["sha256"] != whole.seen[key].sha256:
                raise CheckError(f"its content has the digest {whole.seen[key].sha256}")
        elif key.endswith(".html"):
            whole.links[key] = links_of(key, data) if links is None else links
        elif YIELDS.pattern.fullmatch(key):
            decode_json(data, object)
        elif key.endswith(".json"):
            return self._read_document(key, data, written)
        elif key.endswith(".atom"):
            self._watched[key] = read_feed(data)
        elif key == METRICS.template:
            self._watched[key] = read_metrics(data)
        elif content_type(key) is None:
            raise CheckError("no file of a tree has such an extension")
        return None

    def _add_head(self, key: str, filters: Mapping[str, str], page: Page) -> None:
        self._count("AssetsPage", len(page.rows))
        folder = assets_folder(filters.get("market"), filters.get("token"))
        self.whole.heads.setdefault(folder, {})[key[len(folder) + 1 : -len(".json")]] = page

    def _read_document(self, key: str, data: bytes, written: msgspec.Struct | None) -> str | None:
        whole = self.whole
        if RUN.pattern.fullmatch(key):
            manifest = decode_json(data, ManifestOfAnyAge)
            whole.manifests[key] = manifest
            if manifest.files is not None:
                whole.listings[key] = listing_of(manifest, None)
                return None
        document = parse_back(key, data, written)
        self._count(type(document).__name__, 0)
        match document:
            case SystemStatus():
                whole.status = document
            case RunManifest():
                pass
            case HistoryManifest():
                whole.history = document
                whole.unlisted.add(key)  # it continues the one that stands, so no single run lists it
            case _:
                keep = KINDS.get(type(document), UNKNOWN).keep
                whole.documents.setdefault(type(document), {})[key] = keep(document)
                if isinstance(document, AssetHistory | TotalsHistory) and document.next_cursor is not None:
                    page = BUCKET_PAGE if isinstance(document, AssetHistory) else TOTALS_PAGE
                    self._wanted.add(page.key(cursor=document.next_cursor))
        return type(document).__name__

    def _count(self, model: str, rows: int) -> None:
        self.whole.looked.documents[model] += 1
        self.whole.looked.rows += rows


MAX_FAULTS = 20
"""So many faults of one document are named."""


def _filters(key: str) -> Mapping[str, str] | None:
    """What the key of a first page says of its rows; None for any other key."""
    found = parse_key(key) if kind_of(key) is FileKind.DOCUMENT else None
    return found[1] if found is not None and found[0].model is AssetsPage and found[0] is not EMPTY_PAGE else None


class Schemas:
    """The schemas of an OpenAPI document, by name. They are a stranger's: none is fetched, every pattern ends soon."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        """Compile them. Raises `CheckError` for one that is no schema, or that refers to none of the others."""
        self._validators = {}
        for name, schema in components.items():
            if not isinstance(schema, dict):
                raise CheckError(f"$.components.schemas: {name} is no schema")
            try:
                self._validators[name] = jsonschema_rs.Draft202012Validator(
                    {**schema, "components": {"schemas": components}},
                    offline=True,
                    pattern_options=jsonschema_rs.RegexOptions(),  # of all its engines the one that never goes back
                )
            except ValueError as error:
                raise CheckError(f"$.components.schemas: {name} is not known here: {_first_line(error)}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._validators

    def faults(self, name: str, value: Any) -> Iterator[str]:
        """What is wrong with a decoded JSON value by the schema of a name."""
        for count, error in enumerate(self._validators[name].iter_errors(value)):
            if count == MAX_FAULTS:
                return
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            yield f"is not as the OpenAPI document says: ${place}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
