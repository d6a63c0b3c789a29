"""Checks the files of a published tree, which has files of earlier runs, or a sample of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from exporter.audit.document_schemas import Schemas, schema_faults, schemas_in
from exporter.errors import CheckError
from exporter.publishing.checker import TreeChecker
from exporter.publishing.faults import Fault
from exporter.tree.decoding import decode_json
from exporter.tree.documents import AssetHistory, Census, DataPackage, OpenApiDocument, ProofList, TotalsHistory
from exporter.tree.families import BUCKET_PAGE, OPENAPI_KEY, RECENT, TOTALS_PAGE
from exporter.tree.run_listing import RunListing


class PublishedTreeChecker(TreeChecker):
    """Checks a published tree: also the files that earlier runs left, and documents against the tree's own schemas.

    Attributes:
        listing: the listing of the run's files.
        is_sample: whether only a sample of the files is added, so that a missing file is no fault.
        older_pages: the keys of older pages of histories that documents led to.
        validated: number of documents that were validated against the schemas.
    """

    remembered = (*TreeChecker.remembered, OpenApiDocument, ProofList, Census)
    expects_earlier_files = True

    def __init__(self, ledger: int, page_sizes: Sequence[int], listing: RunListing, *, is_sample: bool) -> None:
        super().__init__(ledger, page_sizes)
        self.listing, self.is_sample = listing, is_sample
        self.older_pages: list[str] = []
        self.validated = 0
        self._schemas: Schemas = {}

    def use_schemas(self, openapi: bytes) -> None:
        """Validate documents that are added from now on against the schemas of this OpenAPI document."""
        try:
            self._schemas = schemas_in(openapi)
        except (CheckError, msgspec.DecodeError, KeyError, AttributeError) as error:
            self.fault(OPENAPI_KEY, f"its schemas cannot be used: {error}")

    def is_there(self, key: str) -> bool:
        """Whether a file was added, or is listed and only not in the sample."""
        return super().is_there(key) or (self.is_sample and key in self.listing)

    def missing(self, key: str, text: str) -> None:
        """Record that a file is missing, unless it may only not be in the sample."""
        if not self.is_sample:
            super().missing(key, text)

    def judge_document(self, key: str, data: bytes, document: Any) -> None:
        """Check a document as that of a run, and then against its schema."""
        super().judge_document(key, data, document)
        name = type(document).__name__
        if name in self._schemas:
            self.validated += 1
            self.fault(key, *schema_faults(self._schemas, name, decode_json(data, object)))

    def follow(self, key: str, document: Any) -> None:
        """Follow the links of a document. In a sample, what a data package or a history leads to is not looked for."""
        if self.is_sample and isinstance(document, DataPackage):
            return
        super().follow(key, document)
        match document:
            case AssetHistory(next_cursor=str(cursor)) | TotalsHistory(next_cursor=str(cursor)) if not self.is_sample:
                # The sweep removes recent pages a day after they were published. Other pages may have been written by
                # an earlier run, and no manifest lists them.
                if not cursor.startswith(RECENT):
                    target = (BUCKET_PAGE if isinstance(document, AssetHistory) else TOTALS_PAGE).key(cursor=cursor)
                    fault = Fault(key, f"next_cursor leads to {target}, which is not there")
                    self.pending_links.setdefault(target, fault)
                    self.older_pages.append(target)
