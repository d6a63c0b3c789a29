"""Rendering a published run again from its evidence and the history before it: its files must come out byte for byte.

A wrong number that every digest covers shows here, whatever document it is in.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from exporter.check.published_tree import check_files
from exporter.check.summary import CheckSummary, Fault, TreeFaultsError
from exporter.config import Settings, load
from exporter.deployments.networks import NETWORKS
from exporter.errors import ConfigError, ExporterError, RefutedError, SourceError, pluralize
from exporter.job.fetched_tree import FetchedTree, JoinedFilesError, fetch
from exporter.job.prove import claims_of
from exporter.job.report import RunLog
from exporter.job.run import execute
from exporter.job.sources import StoredLedger
from exporter.publishing.published_state import read_current_listing, read_published
from exporter.render.openapi import VERSION_FIELD, openapi_document
from exporter.stores import open_store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import ChangeList, SystemStatus, encode
from exporter.tree.families import CHANGES, DATA_PACKAGE, HISTORY_PAGE, POINTER_KEY, may_be_kept

OF_PUBLISHING = frozenset({"generated_at", "manifest_sha256", "next_expected_at", "previous_run_id", "retention_hours"})
"""The fields of status.json that say when and how was published. The digest is that of a file with such a time."""

OF_THE_FILES = frozenset({"run_id", "manifest_key"})

OF_THE_HISTORY = frozenset({HISTORY_PAGE, DATA_PACKAGE.template})
"""The keys of files that show which files the history has."""


@dataclass(frozen=True, slots=True)
class Rerendered:
    """How many files came out byte for byte; ``different`` ones by key. ``unknown`` ones list files that are gone."""

    same: int
    different: dict[str, str]
    unknown: list[str]
    kept: list[str]


def check_tree(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check the published tree at a URI; returns what was checked.

        >>> summary = check_tree("./public")
        >>> summary.ledger, summary.complete
        (65000000, True)

    Every file by itself and its links; then, without a sample, the run is rendered again and compared.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        sample: look at this many files of each kind; None looks at every file.
        progress: receives how many more files were read.

    Raises:
        TreeFaultsError: the tree fails its checks.
        CheckError: there is nothing that could be checked.
        SourceError: the tree cannot be read, or a new run was published each time while it was read.
        ConfigError: a tree at such a URI cannot be checked.
    """
    summary = check_files(uri, sample, progress)
    if sample is None:
        summary.not_rerendered = _check_again(uri, summary)
    return summary


def _check_again(uri: str, summary: CheckSummary) -> str | None:
    if (version := summary.version) != (own := openapi_document().info[VERSION_FIELD]):
        return f"version {version} wrote it, and this is {own}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = asyncio.run(fetch(uri, Path(folder), 0))
            if tree.status.run_id != summary.run_id:
                raise SourceError(f"run {tree.status.run_id} was published during the check; check again")
            claims_of(tree.evidence)  # it is within bounds
            made = rerender(tree, settings_of(tree), tree.changes)
        except JoinedFilesError as error:
            return str(error)
        except RefutedError as error:
            raise TreeFaultsError([Fault(POINTER_KEY, str(error))]) from None
    if made.different:
        raise TreeFaultsError([Fault(*item) for item in made.different.items()])
    summary.rerendered = made.same
    if made.kept:
        return f"{pluralize(len(made.kept), 'web page')}, of the run published at {tree.site_published_at}"
    return None


def settings_of(tree: FetchedTree) -> Settings:
    """Settings by which a run into the tree's folder writes its pages. Raises `RefutedError` for impossible ones."""
    status = tree.status
    known = next((name for name, network in NETWORKS.items() if network.passphrase == status.network), None)
    network = {"network.passphrase": status.network} if known is None else {"network.name": known}
    pages = {
        "output.uri": str(tree.folder),
        "output.page_sizes": list(status.page_sizes),
        "output.default_page_size": status.default_page_size,
        "output.market_pools_cap": status.market_pools_cap,
    }
    try:
        return load(None, network | pages, environment={}).settings
    except ConfigError as error:
        raise RefutedError(f"{POINTER_KEY}: no run has such settings: {error}") from None


def rerender(tree: FetchedTree, settings: Settings, changes: ChangeList | None) -> Rerendered:
    """Repeat a run from its evidence, with the ``changes`` to go on with, and compare its files.

    Raises `RefutedError`.
    """
    store = open_store(settings.output.uri)
    if changes is not None:
        store.put(CHANGES.template, encode(changes))
    path = tree.folder.with_name("evidence.jsonl.gz")
    path.write_bytes(tree.evidence)
    try:
        execute(settings, store, RunLog(None), StoredLedger(path))
    except ExporterError as error:
        raise RefutedError(f"the run cannot be repeated from its evidence: {error}") from None
    published, status = read_published(store), store.get(POINTER_KEY)
    assert published is not None  # by this very run
    assert status is not None
    made = read_current_listing(store, published.pointer).frame.select("key", again="sha256")
    files = made.join(tree.files.frame.select("key", "sha256"), on="key", how="full", coalesce=True)
    differ = files.filter(pl.col("again").ne_missing(pl.col("sha256"))).sort("key")
    different, unknown, kept = dict[str, str](), list[str](), list[str]()
    for key, listed, again in differ.select("key", "sha256", "again").iter_rows():
        if not tree.as_published and key in OF_THE_HISTORY and listed is not None:
            unknown.append(key)
        elif tree.site_published_at is not None and may_be_kept(key) and None not in (listed, again):
            kept.append(key)
        else:
            missing = listed is None
            different[key] = "is not among the run's files" if missing else "does not follow from the run's evidence"
    if not different:
        _compare_status(tree.status, decode_json(status.data, SystemStatus), same_files=differ.is_empty())
    return Rerendered(files.height - differ.height, different, unknown, kept)


def _compare_status(published: SystemStatus, repeated: SystemStatus, *, same_files: bool) -> None:
    ours, theirs = msgspec.to_builtins(repeated), msgspec.to_builtins(published)
    apart = OF_PUBLISHING if same_files else OF_PUBLISHING | OF_THE_FILES
    for name, expected in ours.items():
        if name not in apart and theirs[name] != expected:
            raise RefutedError(
                f"{POINTER_KEY}: expected $.{name} {str(expected)[:200]!r} by the run's evidence but found "
                f"{str(theirs[name])[:200]!r}"
            )
