"""Checks a published tree: reads its files in the right order, and begins again if a run is published meanwhile."""

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
from exporter.history.rollups import KINDS, ReadFile, UnreadableHistoryError, differ, has_same_history, updated_rollups
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

MAX_READ_TOGETHER = 64
"""Largest number of files that are in memory at the same time."""

MAX_ROUNDS = 3
"""How often a check is tried, if another run is published during it."""

PUBLIC_URL_FILES = 50
"""Number of files that are also asked for at their public URLs."""

ALWAYS_READ = ("v1/markets.json", "v1/protocol/", OPENAPI_KEY, "index.html")
"""Beginnings of the keys that are in every sample."""

LASTING_ROLLUPS = {kind.key for kind in KINDS}
"""The keys of the rollups that do not belong to one month."""

_INPUT_ORDER: tuple[InputName, ...] = ("evidence", "risk", "watched", "history")
"""The order in which a manifest names its inputs."""

_Decoded = TypeVar("_Decoded")


def check_files(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check every file of the tree at a URI, and its links. This is the first part of `rerender.check_tree`."""

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
            outcome: CheckSummary | CheckError = await _check(source, before, sample, progress)
        except CheckError as error:
            outcome = error
        if await source.get(STATUS_KEY, FILE_BYTES) == before:
            if isinstance(outcome, CheckError):
                raise outcome
            return outcome
    raise SourceError(f"{source.uri}: {MAX_ROUNDS} times a new run was published during the check; check it again")


async def required(source: TreeSource, key: str, sha256: str | None = None) -> bytes:
    """Read a file. Raises `CheckError` if it is missing or too large, or does not have the SHA-256 that is given."""
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
    """Read a document of a model. Raises `CheckError` as `required` does, and if it is no such document."""
    return decoded(key, await required(source, key, sha256), model)


async def _check(
    source: TreeSource, published: bytes, sample: int | None, progress: Callable[[int], None]
) -> CheckSummary:
    with suppress(msgspec.DecodeError):  # `decoded` reports that
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

    is_web_page = pl.col("key").str.ends_with(".html")  # these come last, because they lead to all other files
    for files in (chosen.filter(~is_web_page), chosen.filter(is_web_page)):
        async for (key, size, sha256), data in _read(
            source, files.select("key", "bytes", "sha256").iter_rows(), progress
        ):
            if data is None:
                checker.fault(key, "is missing, though the run's manifest lists it")
                continue
            actual = hashlib.sha256(data)
            checker.add(key, data, sha256=actual.hexdigest())
            if (len(data), actual.digest()) != (size, sha256):
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
    await _read_rollups(source, checker, status.run_id, recompute=sample is None)
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
        await check_public_urls(source, checker, status, listed, sample or PUBLIC_URL_FILES, drawn)
    try:
        return checker.finish()
    except TreeFaultsError as error:
        unfinished = await _unfinished(source, status)
        if unfinished is None:
            raise
        raise TreeFaultsError((*error.faults, unfinished)) from None


async def _unfinished(source: TreeSource, status: SystemStatus) -> Fault | None:
    """The fault that a later run died while it replaced documents, which explains other faults; None if none did."""
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
    """A sample of the listed files: at most ``count`` out of each folder of the second level."""
    chosen = set[str]()
    by_folder: dict[str, list[str]] = {}
    for key in listed["key"]:
        if key.startswith(ALWAYS_READ):
            chosen.add(key)
        else:
            by_folder.setdefault("/".join(key.split("/")[:2]), []).append(key)
    for keys in by_folder.values():
        chosen.update(keys if len(keys) <= count else drawn.sample(keys, count))
    return listed.filter(pl.col("key").is_in(chosen))


async def _single(source: TreeSource, checker: TreeChecker, key: str, model: type[_Decoded]) -> _Decoded | None:
    """Read and check a document of which a tree has only one; None if it is missing or faulty."""
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


async def _read_rollups(source: TreeSource, checker: TreeChecker, run_id: str, *, recompute: bool) -> None:
    """Check the rollups, and again if there are faults: somebody who publishes writes them before the manifest."""
    faults: list[tuple[str, str]] = []
    loop = asyncio.get_running_loop()

    def read(key: str) -> bytes | None:
        return asyncio.run_coroutine_threadsafe(source.get(key, FILE_BYTES), loop).result()

    for _ in range(MAX_ROUNDS):
        data = await source.get(HISTORY_MANIFEST_KEY, FILE_BYTES)
        try:
            manifest = None if data is None else decoded(HISTORY_MANIFEST_KEY, data, HistoryManifest)
        except CheckError:
            return  # the checker has recorded that fault
        if manifest is None:
            return
        months = source.keys(MONTH_ROLLUP.prefix)
        faults = await asyncio.to_thread(
            lambda: list(rollup_faults(manifest, read, months, recompute=recompute))  # noqa: B023
        )
        faults += await _unnamed_files(source, manifest, run_id)
        if not faults:
            return
    for key, fault in faults:
        checker.fault(key, fault)


async def _unnamed_files(source: TreeSource, manifest: HistoryManifest, run_id: str) -> list[tuple[str, str]]:
    """Parquet files of the history that neither its manifest nor the publisher's records name, each with a fault."""
    present = {key for key in source.keys(HISTORY_PREFIX) or () if file_ledgers(key) is not None}
    unnamed = present - {file.key for file in manifest.files}
    if not unnamed:
        return []
    record = decode_record(await source.get(SUPERSEDED_KEY, DOCUMENT_BYTES))
    intent = await source.get(INTENT_KEY, MAX_INTENT_BYTES)
    with suppress(msgspec.DecodeError):
        begun = decode_json(intent or b"", Intent)
        if begun.run_id != run_id:  # that run died, or is still at work
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
        # The published list of trust made the newest proofs. Earlier proofs may have been made by another list.
        if proof.proven_at == newest and proof.proof_key in files:
            checker.fault(proof.proof_key, *_proof_faults(proof, files[proof.proof_key], trust))


def _batches(files: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """The files in batches that fit in memory. A file is a key, its size and more; the size may be a false claim."""
    batch, total = list[tuple[Any, ...]](), 0
    for file in files:
        size = min(file[1], FILE_BYTES)
        if batch and (len(batch) == MAX_READ_TOGETHER or total + size > TOGETHER_BYTES):
            yield batch
            batch, total = [], 0
        batch.append((file[0], size, *file[2:]))
        total += size
    if batch:
        yield batch


async def _read(
    source: TreeSource, files: Iterable[tuple[Any, ...]], progress: Callable[[int], None]
) -> AsyncIterator[tuple[tuple[Any, ...], bytes | None]]:
    """The content of files, each a key, its size and more. A file that is longer than its size is cut."""
    for batch in _batches(files):
        read = await asyncio.gather(*(source.get(key, size) for key, size, *_ in batch))
        progress(len(batch))
        for item in zip(batch, read, strict=True):
            yield item


def decoded(key: str, data: bytes, model: type[_Decoded]) -> _Decoded:
    """Decode a document of a model. Raises `CheckError` if it is no such document."""
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
    """Faults of the status document, the manifest and the listing, by key. ``content`` has the manifest's bytes."""
    key = status.manifest_key
    if hashlib.sha256(content).hexdigest() != status.manifest_sha256:
        yield key, "does not have the digest that the status gives for it"
    if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
        yield key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's"
    if manifest.published_at != status.generated_at:
        yield STATUS_KEY, f"$.generated_at is {status.generated_at}, not the manifest's"
    run_id = listed.run_id(manifest.observed_ledger)
    if manifest.run_id != run_id:
        yield key, f"$.run_id is {manifest.run_id}, but the files listed give {run_id}"
    if (manifest.file_count, manifest.bytes) != listed.size:
        yield key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {listed.size}"
    for file in listed:
        if file.kind != kind_of(file.key):
            yield key, f"lists {file.key} as a {file.kind}"
    for text in input_faults(status, manifest, listed):
        yield key, text


def input_faults(status: SystemStatus, manifest: RunManifest, listed: RunListing) -> Iterator[str]:
    """Faults of the inputs that a manifest names. The history files among them are not judged here."""
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
    if [item.name for item in manifest.inputs] != sorted(
        (item.name for item in manifest.inputs), key=_INPUT_ORDER.index
    ):
        yield f"its inputs must be in the order {', '.join(_INPUT_ORDER)}"


def _list_faults(status: SystemStatus, listed: ProofList) -> Iterator[str]:
    """Faults of the list of proofs that show without reading the proofs."""
    ledgers = [proof.observed_ledger for proof in listed.proofs]
    if ledgers != sorted(ledgers, reverse=True) or len({proof.run_id for proof in listed.proofs}) < len(ledgers):
        yield "$.proofs must begin with the newest run, each once"
    for index, proof in enumerate(listed.proofs):
        path = f"$.proofs[{index}]"
        if proof.run_id.partition("-")[0] != str(proof.observed_ledger):
            yield f"{path} is of ledger {proof.observed_ledger}, but names run {proof.run_id}"
        if proof.run_id == status.run_id and proof.evidence_key != status.evidence_key:
            yield f"{path}.evidence_key is {proof.evidence_key}, but the status has {status.evidence_key}"
        if proof.proof_key != PROOF.key(sha256=proof.proof_sha256):
            yield f"{path}.proof_key is {proof.proof_key}, which is not that of its digest"
        parts = proof.confirmed + proof.changed_since + proof.not_looked_up + proof.short_lived + proof.absent
        if parts != proof.entries:
            yield f"{path}.entries is {proof.entries}, but its parts sum up to {parts}"


def _proof_faults(proof: Proof, content: bytes, trust: Trust) -> Iterator[str]:
    """Faults of a proof file, and of what the list of proofs says of it."""
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
    manifest: HistoryManifest, read: ReadFile, months: Collection[str] | None, *, recompute: bool
) -> Iterator[tuple[str, str]]:
    """Faults of the rollups and of the table of liquidations, by key.

    ``months`` has the keys of the rollups of months in the store; None if they cannot be listed. With ``recompute``,
    the rollups are made again from the history and compared.
    """
    named = {entry.key: entry for entry in manifest.rollups}
    if len(named) != len(manifest.rollups):
        yield HISTORY_MANIFEST_KEY, "names a rollup twice"
    if manifest.files and any(file.rows for file in manifest.files):
        yield from ((kind.key, "is not named by the history's manifest") for kind in KINDS if kind.key not in named)
    yield from ((key, "is not named by the history's manifest") for key in sorted({*(months or ())} - named.keys()))
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
    lasting = [entry for entry in manifest.rollups if entry.key in LASTING_ROLLUPS]
    if not recompute or not all(has_same_history(entry, manifest) for entry in lasting):
        return  # ledgers were added to the past, and the next run makes the rollups again
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
        return  # that file has a fault of its own
    yield from ((key, "is not what the files of the history make of it") for key in sorted(named.keys() - expected))
