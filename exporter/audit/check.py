"""Checks a published tree: its files and links, and whether its run gives them again."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from exporter.audit.check_summary import CheckSummary
from exporter.audit.fetched_tree import fetch
from exporter.audit.published_tree import check_files
from exporter.audit.rerender import rerender
from exporter.audit.unproven import MAX_NAMES
from exporter.errors import CheckError, SourceError, pluralize, printable
from exporter.event_loops import refuse_running_loop
from exporter.publishing.faults import Fault, TreeFaultsError
from exporter.render.openapi import VERSION_FIELD, openapi_document
from exporter.tree.families import STATUS_KEY


def check_tree(uri: str, sample: int | None = None, progress: Callable[[int], None] = lambda _: None) -> CheckSummary:
    """Check the published tree at a URI, and return what was checked.

        >>> summary = check_tree("./public")
        >>> summary.ledger, summary.complete
        (65000000, True)

    Every file is checked by itself and with its links. Then the run is rendered again and compared, unless this is a
    sample.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        sample: the number of files of each kind to check; None for every file.
        progress: called with the number of files that were read since the last call.

    Raises:
        TreeFaultsError: the tree fails its checks.
        CheckError: the documents that lead to all other files are missing or damaged.
        SourceError: no run is published there (`NothingPublishedError`), the tree cannot be read, or another run was
            published each time while it was read.
        ConfigError: the URI is not accepted, or an event loop runs in this thread.
    """
    refuse_running_loop("check_tree")
    summary = check_files(uri, sample, progress)
    if sample is None:
        summary.not_rerendered = _check_again(uri, summary)
    return summary


def _check_again(uri: str, summary: CheckSummary) -> str | None:
    """Render the run of a checked tree again. Returns what could not be compared, and why; None if all was.

    Raises `TreeFaultsError` if files do not follow from the run's inputs.
    """
    if (why := other_version(summary)) is not None:
        return why
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = asyncio.run(fetch(uri, Path(folder), 0))
            if tree.status.run_id != summary.run_id:
                raise SourceError(f"run {tree.status.run_id} was published during the check; check again")
            made = rerender(tree)
        except CheckError as error:
            raise TreeFaultsError([Fault(STATUS_KEY, str(error).removeprefix(f"{STATUS_KEY}: "))]) from None
    if made.different:
        raise TreeFaultsError([Fault(*item) for item in made.different.items()])
    summary.rerendered = made.same
    not_compared = [f"{key}, because {why}" for key, (_, why) in made.dependent.items()]
    if made.recoded:
        not_compared.append(
            f"{pluralize(len(made.recoded), 'file')} with the same values in other bytes, which other libraries wrote: "
            + ", ".join(made.recoded[:MAX_NAMES])
        )
    return "; ".join(not_compared) or None


def other_version(summary: CheckSummary) -> str | None:
    """Why a tree cannot be rendered again: another version wrote it. None if this version did."""
    version, own = summary.version, openapi_document().info[VERSION_FIELD]
    return None if version == own else f"version {printable(str(version)[:20])} wrote it, and this is {own}"
