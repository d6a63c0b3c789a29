"""Checks a published tree: reads its files in the right order, and begins again if a run is published meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgspec
import polars as pl
from msgspec.structs import fields

from exporter.audit.check_summary import CheckSummary
from exporter.audit.manifest_faults import manifest_faults, proof_faults, proof_list_faults
from exporter.audit.public_urls import check_public_urls
from exporter.audit.published_checker import PublishedTreeChecker
from exporter.audit.rollup_faults import rollup_faults
from exporter.audit.tree_reading import Decoded, decoded, read_each, required
from exporter.bounds import DOCUMENT_BYTES, FILE_BYTES
from exporter.errors import CheckError, SourceError
from exporter.history.manifest import file_ledgers
from exporter.past.archive.stellar_proof import RefusedError, read_trust
from exporter.publishing.checker import CheckCounts
from exporter.publishing.faults import Fault, TreeFaultsError
from exporter.publishing.published_state import unfinished_run
from exporter.publishing.sweep_state import SWEEP_STATE_KEY, decode_sweep_state
from exporter.render.openapi import VERSION_FIELD
from exporter.stores.tree_sources import HttpSource, TreeSource, open_tree
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import (
    Census,
    HistoryManifest,
    Intent,
    OpenApiDocument,
    ProofList,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import (
    ALL_HISTORY_PREFIX,
    CENSUS,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    MONTH_ROLLUP,
    OPENAPI_KEY,
    PROOF,
    PROOFS,
    STATUS_KEY,
    TRUST,
    family_of,
    lacks_extension,
    parse_key,
)
from exporter.tree.run_listing import RunListing, listing_of

MAX_INTENT_BYTES = 64 * 1024
"""Number of bytes that are read of the intent of a run."""

MAX_ROUNDS = 3
"""How often a check is tried, if another run is published during it."""

PUBLIC_URL_FILES = 50
"""Number of files that are also asked for at their public URLs."""

ALWAYS_READ = ("v1/markets.json", "v1/protocol/", OPENAPI_KEY, "index.html")
"""Beginnings of the keys that are in every sample."""


def check_files(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check every file of the tree at a URI, and its links: the first part of `exporter.audit.check.check_tree`."""

    async def check() -> CheckSummary:
        async with open_tree(uri) as source:
            return await check_source(source, sample, progress)

    return asyncio.run(check())


async def check_source(
    source: TreeSource, sample: int | None = None, progress: Callable[[int], None] = lambda _: None
) -> CheckSummary:
    """Check every file of a tree that is open already, as `check_files` does.

    With ``sample``, only so many files of each kind are checked. ``progress`` is called with the number of files that
    were read. Raises `CheckError` if the tree fails its checks, and `SourceError` if it cannot be read.
    """
    for _ in range(MAX_ROUNDS):
        before = await required(source, STATUS_KEY)
        try:
            outcome: CheckSummary | CheckError = await (await _Check.begin(source, before, sample, progress)).run()
        except CheckError as error:
            outcome = error
        if await source.get(STATUS_KEY, FILE_BYTES) == before:
            if isinstance(outcome, CheckError):
                raise outcome
            return outcome
    raise SourceError(f"{source.uri}: {MAX_ROUNDS} times a new run was published during the check; check it again")


class _Check:
    """One try at checking a tree. Each step gives the checker what it reads, and the faults that it finds."""

    def __init__(
        self,
        source: TreeSource,
        status: SystemStatus,
        listing: RunListing,
        sample: int | None,
        progress: Callable[[int], None],
    ) -> None:
        self._source, self._status, self._listing = source, status, listing
        self._sample, self._progress = sample, progress
        self._drawn = Random(status.run_id)
        self._checker = PublishedTreeChecker(
            status.observed_ledger, status.page_sizes, listing, is_sample=sample is not None
        )

    @classmethod
    async def begin(
        cls, source: TreeSource, published: bytes, sample: int | None, progress: Callable[[int], None]
    ) -> _Check:
        """Begin with the documents that say what else there is: the status document, the manifest and the listing.

        ``published`` has the bytes of the status document. Raises `CheckError` if one of them is missing or no such
        document.
        """
        with suppress(msgspec.DecodeError):  # `decoded` reports that
            refuse_other_format(f"{source.uri}: {STATUS_KEY}", published)
        status = decoded(STATUS_KEY, published, SystemStatus)
        manifest_bytes = await required(source, status.manifest_key)
        manifest = decoded(status.manifest_key, manifest_bytes, RunManifest)
        listing_bytes = await required(source, manifest.files_key)
        listing = listing_of(manifest.files_key, manifest.files_sha256, listing_bytes)
        check = cls(source, status, listing, sample, progress)
        if OPENAPI_KEY in listing and (openapi := await source.get(OPENAPI_KEY, FILE_BYTES)) is not None:
            check._checker.use_schemas(openapi)
        check._checker.add(STATUS_KEY, published)
        check._checker.add(status.manifest_key, manifest_bytes)
        check._checker.add(manifest.files_key, listing_bytes)
        for fault in manifest_faults(status, manifest, manifest_bytes, listing):
            check._checker.fault(fault.key, fault.text)
        return check

    async def run(self) -> CheckSummary:
        """Do the other steps. Raises `CheckError` if the tree has faults."""
        status, source = self._status, self._source
        await self._check_files_of_run()
        await self._check_history()
        await self._check_rollups()
        await self._check_proofs()
        await self._check_single(CENSUS.only_key, Census)
        await self._check_risk()
        self._check_extensions()
        requests = 0
        if isinstance(source, HttpSource):
            count = self._sample or PUBLIC_URL_FILES
            requests = await check_public_urls(source, self._checker, status, self._listing, count, self._drawn)
        try:
            return self._summary(self._checker.finish(), requests)
        except TreeFaultsError as error:
            unfinished = await _unfinished(source, status)
            if unfinished is None:
                raise
            raise TreeFaultsError((*error.faults, unfinished)) from None

    def _summary(self, counts: CheckCounts, requests: int) -> CheckSummary:
        openapi = self._checker.single_document(OpenApiDocument)
        return CheckSummary(
            **{item.name: getattr(counts, item.name) for item in fields(counts)},
            complete=not self._checker.is_sample,
            version="" if openapi is None else str(openapi.info.get(VERSION_FIELD)),
            validated=self._checker.validated,
            requests=requests,
        )

    async def _check_files_of_run(self) -> None:
        """Check the files that the run lists. Web pages come last, because they lead to all other files."""
        chosen = self._listing.frame
        if self._sample is not None:
            chosen = _sample(chosen, self._sample, self._drawn)
        is_web_page = pl.col("key").str.ends_with(".html")
        for files in (chosen.filter(~is_web_page), chosen.filter(is_web_page)):
            rows = files.select("key", "bytes", "sha256").iter_rows()
            async for (key, size, sha256), data in read_each(self._source, rows, self._progress):
                if data is None:
                    self._checker.fault(key, "is missing, though the run's manifest lists it")
                    continue
                actual = hashlib.sha256(data)
                self._checker.add(key, data, sha256=actual.hexdigest())
                if (len(data), actual.digest()) != (size, sha256):
                    self._checker.fault(key, "does not have the bytes that the run's manifest gives for it")
            await self._check_older_pages()

    async def _check_older_pages(self) -> None:
        """Check pages that no manifest lists. Each may lead to one that is older still."""
        checker = self._checker
        while checker.older_pages:
            unread = sorted(
                {key for key in checker.older_pages if key not in checker.seen and key not in self._listing}
            )
            checker.older_pages.clear()
            sized = [(key, DOCUMENT_BYTES) for key in unread]
            async for (key, _), data in read_each(self._source, sized, self._progress):
                if data is None:
                    checker.fault(key, "is missing")
                else:
                    checker.add(key, data)

    async def _check_single(self, key: str, model: type[Decoded]) -> Decoded | None:
        """Read and check a document that a tree has only once; None if it is missing or faulty."""
        data = await self._source.get(key, FILE_BYTES)
        if data is None:
            return None
        self._checker.add(key, data)
        return self._checker.single_document(model)

    async def _check_history(self) -> None:
        """Check the manifest of the history, and the files of earlier runs."""
        history = await self._check_single(HISTORY_MANIFEST_KEY, HistoryManifest)
        if history is None:
            if HISTORY_MANIFEST_KEY not in self._checker.seen:
                self._checker.fault(HISTORY_MANIFEST_KEY, "is missing")
            return
        newest = max((file.last_ledger for file in history.files), default=0)
        if newest < self._checker.ledger:
            self._checker.fault(HISTORY_MANIFEST_KEY, f"ends at ledger {newest}, and is older than the published run")
        earlier = {file.key: file.bytes for file in history.files if file.key not in self._listing}
        keys = list(earlier)
        if self._sample is not None and len(keys) > self._sample:
            keys = self._drawn.sample(keys, self._sample)
        async for (key, _), content in read_each(self._source, [(key, earlier[key]) for key in keys], self._progress):
            if content is not None:
                self._checker.add(key, content)
            elif self._sample is not None:
                self._checker.fault(key, "is missing")

    async def _check_rollups(self) -> None:
        """Check the rollups, and again if there are faults: somebody who publishes writes them before the manifest."""
        faults: list[Fault] = []
        loop = asyncio.get_running_loop()

        def read(key: str) -> bytes | None:
            return asyncio.run_coroutine_threadsafe(self._source.get(key, FILE_BYTES), loop).result()

        for _ in range(MAX_ROUNDS):
            data = await self._source.get(HISTORY_MANIFEST_KEY, FILE_BYTES)
            try:
                manifest = None if data is None else decoded(HISTORY_MANIFEST_KEY, data, HistoryManifest)
            except CheckError:
                return  # `_check_history` recorded that fault
            if manifest is None:
                return
            months = self._source.keys(MONTH_ROLLUP.prefix)
            faults = await asyncio.to_thread(
                lambda: list(rollup_faults(manifest, read, months, recompute=self._sample is None))  # noqa: B023
            )
            faults += await _unnamed_files(self._source, manifest, self._status.run_id)
            if not faults:
                return
        for fault in faults:
            self._checker.fault(fault.key, fault.text)

    async def _check_proofs(self) -> None:
        """Check the list of proofs, what it names, and the newest proofs."""
        proof_list = await self._check_single(PROOFS.only_key, ProofList)
        if proof_list is None:
            return
        self._checker.fault(PROOFS.only_key, *proof_list_faults(self._status, proof_list))
        files = dict[str, bytes]()
        for key in dict.fromkeys(
            (proof_list.verifier, proof_list.trust, *(proof.proof_key for proof in proof_list.proofs))
        ):
            content = await self._source.get(key, FILE_BYTES)
            if content is None:
                self._checker.fault(key, f"is missing, though {PROOFS.only_key} names it")
                continue
            files[key] = content
            if family_of(key) is PROOF:
                self._checker.add(key, content)
        try:
            trust = read_trust(files.get(TRUST.only_key, b""))
        except RefusedError as error:
            self._checker.fault(TRUST.only_key, str(error))
            return
        newest = max((proof.proven_at for proof in proof_list.proofs), default="")
        for proof in proof_list.proofs:
            # The published list of trust made the newest proofs. Earlier proofs may have been made by another list.
            if proof.proven_at == newest and proof.proof_key in files:
                self._checker.fault(proof.proof_key, *proof_faults(proof, files[proof.proof_key], trust))

    async def _check_risk(self) -> None:
        """Check the risk document that the status document names."""
        status, checker = self._status, self._checker
        if status.risk_key is None:
            return
        risk = await self._source.get(status.risk_key, FILE_BYTES)
        if risk is None:
            checker.fault(status.risk_key, f"is missing, though {STATUS_KEY} names it")
            return
        checker.add(status.risk_key, risk)
        if hashlib.sha256(risk).hexdigest() != status.risk_sha256:
            checker.fault(status.risk_key, f"does not have the SHA-256 that {STATUS_KEY} gives for it")

    def _check_extensions(self) -> None:
        """Name files that a server could send without a type. A sample does not look for them."""
        if self._sample is None:
            for key in sorted(filter(lacks_extension, self._source.keys("v1/") or ())):
                self._checker.fault(
                    key, "has no extension: a copy by an earlier version, or somebody else's; remove it"
                )


async def _unfinished(source: TreeSource, status: SystemStatus) -> Fault | None:
    """The fault that a run died while it replaced documents, which explains other faults; None if none did."""
    data = await source.get(INTENT_KEY, MAX_INTENT_BYTES)
    try:
        unfinished = unfinished_run(status, decode_json(data or b"", Intent))
    except msgspec.DecodeError:
        return None
    if unfinished is None:
        return None
    undone_from = unfinished.replaced_ledger
    return Fault(
        INTENT_KEY,
        f"a run at ledger {unfinished.observed_ledger} began to replace documents and has not finished; run again"
        + ("" if undone_from is None else f" with --replace-ledger {undone_from}"),
    )


def _sample(files: pl.DataFrame, count: int, drawn: Random) -> pl.DataFrame:
    """A sample of the listed files: at most ``count`` out of each folder of the second level."""
    chosen = set[str]()
    by_folder: dict[str, list[str]] = {}
    for key in files["key"]:
        if key.startswith(ALWAYS_READ):
            chosen.add(key)
        else:
            by_folder.setdefault("/".join(key.split("/")[:2]), []).append(key)
    for keys in by_folder.values():
        chosen.update(keys if len(keys) <= count else drawn.sample(keys, count))
    return files.filter(pl.col("key").is_in(chosen))


_FOREIGN = "is no file of a history, but whoever reads the whole folder reads it, too: move it away"


async def _unnamed_files(source: TreeSource, manifest: HistoryManifest, run_id: str) -> list[Fault]:
    """A fault for each Parquet file below the history's folder that belongs to no history.

    That is a file of rows that neither the manifest nor the publisher's private files name, and a file that no history
    has by that name. Programs that read the whole folder read it, too.
    """
    present = {key for key in source.keys(ALL_HISTORY_PREFIX) or () if key.endswith(".parquet")}
    foreign = [Fault(key, _FOREIGN) for key in sorted(present) if parse_key(key) is None]
    unnamed = {key for key in present if file_ledgers(key) is not None} - {file.key for file in manifest.files}
    if not unnamed:
        return foreign
    record = await source.get(SWEEP_STATE_KEY, DOCUMENT_BYTES)
    sweep_state = decode_sweep_state(record)
    intent = await source.get(INTENT_KEY, MAX_INTENT_BYTES)
    with suppress(msgspec.DecodeError):
        begun = decode_json(intent or b"", Intent)
        if begun.run_id != run_id:  # that run died, or is still at work
            unnamed.discard(begun.history_key or "")
    what = "belongs to no manifest: put back the newest v1/history.json, or run exporter history rebuild"
    if record is None:
        what += (
            f". But {SWEEP_STATE_KEY} is missing, which names the files of undone runs: if a run with --replace-ledger "
            "undid this one, move the file away, because a rebuild would bring it back"
        )
    return [*foreign, *(Fault(key, what) for key in sorted(unnamed - sweep_state.history.keys()))]
