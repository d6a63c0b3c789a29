"""Checking a published tree: which of its files are read, in which order, and what is done when a run comes between."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import msgspec
import polars as pl

from exporter.audit.public_urls import check_public_urls
from exporter.bounds import DOCUMENT_BYTES, FILE_BYTES, TOGETHER_BYTES, TooLargeError
from exporter.errors import CheckError, SourceError
from exporter.history.manifest import file_ledgers, file_reference
from exporter.history.rollups import KINDS, Read, UnreadableHistoryError, differ, holds, updated_rollups
from exporter.past.archive.stellar_proof import RefusedError, Trust, check_proof, read_trust
from exporter.past.archive.trusted_organisations import signed_by
from exporter.publishing.checker import CheckSummary, Fault, TreeChecker, TreeFaultsError
from exporter.publishing.sweep_record import SUPERSEDED_KEY, decode_record
from exporter.stores.tree_sources import HttpSource, TreeSource, open_tree
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.documents import (
    Census,
    HistoryManifest,
    HistoryRollup,
    InputName,
    Intent,
    LiquidationsFile,
    Proof,
    ProofList,
    RunManifest,
    SystemStatus,
)
from exporter.tree.families import (
    CENSUS,
    HISTORY_MANIFEST_KEY,
    HISTORY_PREFIX,
    INTENT_KEY,
    MONTH_ROLLUP,
    OPENAPI_KEY,
    PROOF,
    PROOFS,
    STATUS_KEY,
    TRUST,
    WATCHED,
    family_of,
    kind_of,
    lacks_extension,
)
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import RunListing, listing_of

MAX_INTENT_BYTES = 64 * 1024

TOGETHER = 64

ROUNDS = 3
"""How often a check begins again because another run was published under it."""

PUBLIC_URLS = 50
"""How many files are also asked for by their public URLs."""

ALWAYS_READ = ("v1/markets.json", "v1/protocol/", OPENAPI_KEY, "index.html")
"""How the keys begin that are in every sample."""

LASTING = {kind.key for kind in KINDS}

_INPUTS: tuple[InputName, ...] = ("evidence", "risk", "watched", "history")
"""The order in which a manifest names its inputs."""

_Decoded = TypeVar("_Decoded")


def check_files(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check the files of the published tree at a URI, as `exporter.audit.rerender.check_tree` does first."""

    async def check() -> CheckSummary:
        async with open_tree(uri) as source:
            return await check_source(source, sample, progress)

    return asyncio.run(check())


async def check_source(
    source: TreeSource, sample: int | None = None, progress: Callable[[int], None] = lambda _: None
) -> CheckSummary:
    """Check the published tree of an open source; see `check_files`."""
    for _ in range(ROUNDS):
        before = await required(source, STATUS_KEY)
        try:
            outcome: CheckSummary | CheckError = await _check(source, before, sample, progress)
        except CheckError as error:
            outcome = error
        if await source.get(STATUS_KEY, FILE_BYTES) == before:
            if isinstance(outcome, CheckError):
                raise outcome
            return outcome
    raise SourceError(f"{source.uri}: {ROUNDS} times a new run was published during the check; check it again")


async def required(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    """A file that must be there, with this digest. Raises `CheckError`."""
    most = DOCUMENT_BYTES if key == STATUS_KEY else FILE_BYTES
    data = await source.get(key, most)
    if data is None:
        unpublished = ", so no run is published there" if key == STATUS_KEY else ""
        raise CheckError(f"{source.uri}: {key} is missing{unpublished}")
    if len(data) > most:
        raise CheckError(f"{key}: {TooLargeError(most)}")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CheckError(f"{key} does not have the digest that is stated for it")
    return data


async def document(source: TreeSource, key: str, model: type[_Decoded], sha256: str | None = None) -> _Decoded:
    """A document that must be there, with this digest. Raises `CheckError`."""
    return decoded(key, await required(source, key, sha256), model)


async def _check(
    source: TreeSource, published: bytes, sample: int | None, progress: Callable[[int], None]
) -> CheckSummary:
    with suppress(msgspec.DecodeError):  # which is said next
        refuse_other_format(f"{source.uri}: {STATUS_KEY}", published)
    status = decoded(STATUS_KEY, published, SystemStatus)
    manifest_bytes = await required(source, status.manifest_key)
    manifest = decoded(status.manifest_key, manifest_bytes, RunManifest)
    records = {status.manifest_key: manifest_bytes, manifest.files_key: await required(source, manifest.files_key)}
    listed = listing_of(manifest.files_key, manifest.files_sha256, records[manifest.files_key])
    drawn = Random(status.run_id)
    chosen = listed.frame if sample is None else _sample(listed.frame, sample, drawn)
    checker = TreeChecker(status.observed_ledger, status.page_sizes, partial=sample is not None, listed=listed)
    if OPENAPI_KEY in listed and (openapi := await source.get(OPENAPI_KEY, FILE_BYTES)) is not None:
        checker.use_schemas(openapi)
    checker.add(STATUS_KEY, published)
    for record, content in records.items():
        checker.add(record, content)
    for key, fault in _record_faults(status, manifest, manifest_bytes, listed):
        checker.fault(key, fault)

    last = pl.col("key").str.ends_with(".html")  # what leads to all others
    for files in (chosen.filter(~last), chosen.filter(last)):
        async for (key, size, sha256), data in _read(
            source, files.select("key", "bytes", "sha256").iter_rows(), progress
        ):
            if data is None:
                checker.fault(key, "is missing, though the run's manifest lists it")
                continue
            found = hashlib.sha256(data)
            checker.add(key, data, sha256=found.hexdigest())
            if (len(data), found.digest()) != (size, sha256):
                checker.fault(key, "does not have the bytes that the run's manifest gives for it")
        while checker.older_pages:  # no manifest lists them, and each may lead to one that is older still
            unread = sorted({key for key in checker.older_pages if key not in checker.seen and key not in listed})
            checker.older_pages.clear()
            async for (key, _), data in _read(source, [(key, DOCUMENT_BYTES) for key in unread], progress):
                if data is None:
                    checker.fault(key, "is missing")
                else:
                    checker.add(key, data)
    await _read_history(source, checker, listed, sample, drawn, progress)
    await _read_rollups(source, checker, status.run_id, whole=sample is None)
    await _read_proofs(source, checker, status)
    await _single(source, checker, CENSUS.template, Census)
    if status.risk_key is not None:
        risk = await source.get(status.risk_key, FILE_BYTES)
        if risk is None:
            checker.fault(status.risk_key, f"is missing, though {STATUS_KEY} names it")
        else:
            checker.add(status.risk_key, risk)
            if hashlib.sha256(risk).hexdigest() != status.risk_sha256:
                checker.fault(status.risk_key, f"does not have the SHA-256 that {STATUS_KEY} gives for it")
    if sample is None:
        for key in sorted(filter(lacks_extension, source.keys("v1/") or ())):
            checker.fault(key, "has no extension: a copy by an earlier version, or somebody else's; remove it")
    if isinstance(source, HttpSource):
        await check_public_urls(source, checker, status, listed, sample or PUBLIC_URLS, drawn)
    try:
        return checker.finish()
    except TreeFaultsError as error:
        unfinished = await _unfinished(source, status)
        if unfinished is None:
            raise
        raise TreeFaultsError((*error.faults, unfinished)) from None


async def _unfinished(source: TreeSource, status: SystemStatus) -> Fault | None:
    """Why documents may be of a later run than the published one: that run died while it replaced them."""
    data = await source.get(INTENT_KEY, MAX_INTENT_BYTES)
    try:
        intent = decode_json(data or b"", Intent)
    except msgspec.DecodeError:
        return None
    if intent.observed_ledger <= status.observed_ledger:
        return None
    return Fault(
        INTENT_KEY,
        f"a run at ledger {intent.observed_ledger} began to replace documents and has not finished; run again",
    )


def _sample(listed: pl.DataFrame, count: int, drawn: Random) -> pl.DataFrame:
    parts: dict[str, list[str]] = {}
    for key in listed["key"]:
        part = "always" if key.startswith(ALWAYS_READ) else "/".join(key.split("/")[:2])
        parts.setdefault(part, []).append(key)
    chosen = set[str]()
    for part, keys in parts.items():
        chosen.update(keys if part == "always" or len(keys) <= count else drawn.sample(keys, count))
    return listed.filter(pl.col("key").is_in(chosen))


async def _single(source: TreeSource, checker: TreeChecker, key: str, model: type[_Decoded]) -> _Decoded | None:
    data = await source.get(key, FILE_BYTES)
    if data is None:
        return None
    checker.add(key, data)
    return checker.single_document(model)


async def _read_history(
    source: TreeSource,
    checker: TreeChecker,
    listed: RunListing,
    sample: int | None,
    drawn: Random,
    progress: Callable[[int], None],
) -> None:
    history = await _single(source, checker, HISTORY_MANIFEST_KEY, HistoryManifest)
    if history is None:
        if HISTORY_MANIFEST_KEY not in checker.seen:
            checker.fault(HISTORY_MANIFEST_KEY, "is missing")
        return
    newest = max((file.last_ledger for file in history.files), default=0)
    if newest < checker.ledger:
        checker.fault(HISTORY_MANIFEST_KEY, f"ends at ledger {newest}, and is older than the published run")
    earlier = {file.key: file.bytes for file in history.files if file.key not in listed}
    keys = list(earlier) if sample is None or len(earlier) <= sample else drawn.sample(list(earlier), sample)
    async for (key, _), content in _read(source, [(key, earlier[key]) for key in keys], progress):
        if content is not None:
            checker.add(key, content)
        elif sample is not None:
            checker.fault(key, "is missing")


async def _read_rollups(source: TreeSource, checker: TreeChecker, run_id: str, *, whole: bool) -> None:
    """A publisher at work may be between the rollups and the manifest."""
    faults: list[tuple[str, str]] = []
    loop = asyncio.get_running_loop()

    def read(key: str) -> bytes | None:
        return asyncio.run_coroutine_threadsafe(source.get(key, FILE_BYTES), loop).result()

    for _ in range(ROUNDS):
        data = await source.get(HISTORY_MANIFEST_KEY, FILE_BYTES)
        try:
            manifest = None if data is None else decoded(HISTORY_MANIFEST_KEY, data, HistoryManifest)
        except CheckError:
            return  # which the checker has noted
        if manifest is None:
            return
        there = source.keys(MONTH_ROLLUP.prefix)
        faults = await asyncio.to_thread(lambda: list(rollup_faults(manifest, read, there, whole=whole)))  # noqa: B023
        faults += await _unnamed_files(source, manifest, run_id)
        if not faults:
            return
    for key, fault in faults:
        checker.fault(key, fault)


async def _unnamed_files(source: TreeSource, manifest: HistoryManifest, run_id: str) -> list[tuple[str, str]]:
    """Parquet files of the history that are there, and that neither its manifest nor the publisher's records name."""
    there = {key for key in source.keys(HISTORY_PREFIX) or () if file_ledgers(key) is not None}
    unnamed = there - {file.key for file in manifest.files}
    if not unnamed:
        return []
    record = decode_record(await source.get(SUPERSEDED_KEY, DOCUMENT_BYTES))
    intent = await source.get(INTENT_KEY, MAX_INTENT_BYTES)
    with suppress(msgspec.DecodeError):
        begun = decode_json(intent or b"", Intent)
        if begun.run_id != run_id:  # it died, or is at work
            unnamed.discard(begun.history_key or "")
    what = "belongs to no manifest: put back the newest v1/history.json, or run exporter history rebuild"
    return [(key, what) for key in sorted(unnamed - record.history.keys())]


async def _read_proofs(source: TreeSource, checker: TreeChecker, status: SystemStatus) -> None:
    listed = await _single(source, checker, PROOFS.template, ProofList)
    if listed is None:
        return
    checker.fault(PROOFS.template, *_list_faults(status, listed))
    files = dict[str, bytes]()
    for key in dict.fromkeys((listed.verifier, listed.trust, *(proof.proof_key for proof in listed.proofs))):
        content = await source.get(key, FILE_BYTES)
        if content is None:
            checker.fault(key, f"is missing, though {PROOFS.template} names it")
            continue
        files[key] = content
        if family_of(key) is PROOF:
            checker.add(key, content)
    try:
        trust = read_trust(files.get(TRUST.template, b""))
    except RefusedError as error:
        checker.fault(TRUST.template, str(error))
        return
    newest = max((proof.proven_at for proof in listed.proofs), default="")
    for proof in listed.proofs:
        # The list of trust is the one by which the newest were made; earlier ones may have been made by another.
        if proof.proven_at == newest and proof.proof_key in files:
            checker.fault(proof.proof_key, *_proof_faults(proof, files[proof.proof_key], trust))


def _batches(files: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Files whose sizes, which come second, are together within bounds. A size is what a stranger states."""
    batch, total = list[tuple[Any, ...]](), 0
    for file in files:
        size = min(file[1], FILE_BYTES)
        if batch and (len(batch) == TOGETHER or total + size > TOGETHER_BYTES):
            yield batch
            batch, total = [], 0
        batch.append((file[0], size, *file[2:]))
        total += size
    if batch:
        yield batch


async def _read(
    source: TreeSource, files: Iterable[tuple[Any, ...]], progress: Callable[[int], None]
) -> AsyncIterator[tuple[tuple[Any, ...], bytes | None]]:
    """Files, whose keys and sizes come first, as many together as fit in memory. Longer ones are cut off."""
    for batch in _batches(files):
        read = await asyncio.gather(*(source.get(key, size) for key, size, *_ in batch))
        progress(len(batch))
        for item in zip(batch, read, strict=True):
            yield item


def decoded(key: str, data: bytes, model: type[_Decoded]) -> _Decoded:
    """The model of a document. Raises `CheckError`."""
    try:
        document = parse_back(key, data)
    except ValueError as error:
        raise CheckError(f"{key}: cannot be read: {error}") from error
    if not isinstance(document, model):
        raise CheckError(f"{key}: is a {type(document).__name__}, not a {model.__name__}")
    return document


def _record_faults(
    status: SystemStatus, manifest: RunManifest, content: bytes, listed: RunListing
) -> Iterator[tuple[str, str]]:
    """The faults of the files, by key; ``content`` are the manifest's bytes."""
    key = status.manifest_key
    if hashlib.sha256(content).hexdigest() != status.manifest_sha256:
        yield key, "does not have the digest that the status gives for it"
    if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
        yield key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's"
    if manifest.published_at != status.generated_at:
        yield STATUS_KEY, f"$.generated_at is {status.generated_at}, not the manifest's"
    if manifest.run_id != (made := listed.run_id(manifest.observed_ledger)):
        yield key, f"$.run_id is {manifest.run_id}, but the files listed give {made}"
    if (manifest.file_count, manifest.bytes) != listed.size:
        yield key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {listed.size}"
    for file in listed:
        if file.kind != kind_of(file.key):
            yield key, f"lists {file.key} as a {file.kind}"
    for text in input_faults(status, manifest, listed):
        yield key, text


def input_faults(status: SystemStatus, manifest: RunManifest, listed: RunListing) -> Iterator[str]:
    """What is wrong with the inputs that a manifest names; each file of the history among them is judged later."""
    if listed.sha256_of(status.evidence_key) is None:
        yield f"run {status.run_id} left no evidence, so nothing of it can be verified"
    evidence = [(item.key, item.sha256) for item in manifest.inputs if item.name == "evidence"]
    if evidence != [(status.evidence_key, listed.sha256_of(status.evidence_key))]:
        yield f"its inputs must name the evidence {status.evidence_key} once, as it is listed"
    risk = [(item.key, item.sha256) for item in manifest.inputs if item.name == "risk"]
    if risk != ([] if status.risk_key is None else [(status.risk_key, status.risk_sha256)]):
        yield "its inputs must name the risk that the status document names"
    watched = [item for item in manifest.inputs if item.name == "watched"]
    if len(watched) > 1 or any(item.key != WATCHED.key(sha256=item.sha256) for item in watched):
        yield "its inputs must name the watched values of one run at most, by their digest"
    if [item.name for item in manifest.inputs] != sorted((item.name for item in manifest.inputs), key=_INPUTS.index):
        yield f"its inputs must be in the order {', '.join(_INPUTS)}"


def _list_faults(status: SystemStatus, listed: ProofList) -> Iterator[str]:
    ledgers = [proof.observed_ledger for proof in listed.proofs]
    if ledgers != sorted(ledgers, reverse=True) or len({proof.run_id for proof in listed.proofs}) < len(ledgers):
        yield "$.proofs must begin with the newest run, each once"
    for index, proof in enumerate(listed.proofs):
        place = f"$.proofs[{index}]"
        if proof.run_id.partition("-")[0] != str(proof.observed_ledger):
            yield f"{place} is of ledger {proof.observed_ledger}, but names run {proof.run_id}"
        if proof.run_id == status.run_id and proof.evidence_key != status.evidence_key:
            yield f"{place}.evidence_key is {proof.evidence_key}, but the status has {status.evidence_key}"
        if proof.proof_key != PROOF.key(sha256=proof.proof_sha256):
            yield f"{place}.proof_key is {proof.proof_key}, which is not that of its digest"
        parts = proof.confirmed + proof.changed_since + proof.not_looked_up + proof.short_lived + proof.absent
        if parts != proof.entries:
            yield f"{place}.entries is {proof.entries}, but its parts sum up to {parts}"


def _proof_faults(proof: Proof, content: bytes, trust: Trust) -> Iterator[str]:
    try:
        proven = check_proof(content, trust)
    except RefusedError as error:
        yield f"proves nothing: {error}"
        return
    shown = proven.ledger, signed_by(proven, trust), len(trust.organisations), trust.needed
    claimed = proof.organisations_signed, proof.organisations_trusted, proof.organisations_needed
    if shown != (proof.checkpoint, *claimed):
        yield (
            f"proves ledger {proven.ledger}, signed by {shown[1]} of {shown[2]} organisations where {shown[3]} must, "
            f"which is not what {PROOFS.template} says"
        )
    if proof.observed_ledger not in proven.closed:
        yield f"does not say when ledger {proof.observed_ledger} closed"


def rollup_faults(
    manifest: HistoryManifest, read: Read, there: Collection[str] | None, *, whole: bool
) -> Iterator[tuple[str, str]]:
    """Faults of the rollups and of the table of liquidations, by key; ``whole`` recomputes the rollups."""
    named = {entry.key: entry for entry in manifest.rollups}
    if len(named) != len(manifest.rollups):
        yield HISTORY_MANIFEST_KEY, "names a rollup twice"
    if manifest.files and any(file.rows for file in manifest.files):
        yield from ((kind.key, "is not named by the history's manifest") for kind in KINDS if kind.key not in named)
    yield from ((key, "is not named by the history's manifest") for key in sorted({*(there or ())} - named.keys()))
    damaged = set[str]()
    files_of_tables: list[HistoryRollup | LiquidationsFile] = [*manifest.rollups]
    if manifest.liquidations is not None:
        files_of_tables.append(manifest.liquidations)
    for entry in files_of_tables:
        key = entry.key
        if entry.url != file_reference(key):
            yield HISTORY_MANIFEST_KEY, f"the url of {key} does not lead to its key"
        data = read(key)
        if data is None:
            damaged.add(key)
            yield key, "is missing, though the history's manifest names it"
        elif (len(data), hashlib.sha256(data).hexdigest()) != (entry.bytes, entry.sha256):
            damaged.add(key)
            yield key, "does not have the bytes that the history's manifest gives for it"
    if not whole or not all(holds(entry, manifest) for entry in manifest.rollups if entry.key in LASTING):
        return  # ledgers came into the past, and the next run recomputes them
    expected = set[str]()
    try:
        _, files = updated_rollups(msgspec.structs.replace(manifest, rollups=[]), read, most_reads=None)
        for file in files:
            key = file.entry.key
            expected.add(key)
            data = None if key in damaged or key not in named else read(key)
            if data is None:
                continue
            if differ(data, file.data):
                yield key, "is not what the files of the history make of it"
            elif msgspec.structs.replace(file.entry, bytes=named[key].bytes, sha256=named[key].sha256) != named[key]:
                yield HISTORY_MANIFEST_KEY, f"says something else of {key} than the files of the history make of it"
    except UnreadableHistoryError:
        return  # which file that is, is a fault of its own
    yield from ((key, "is not what the files of the history make of it") for key in sorted(named.keys() - expected))
