"""Renders a published run again from the inputs that its manifest names. Every byte must come out the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from itertools import chain

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from exporter import FORMAT
from exporter.audit.fetched_tree import FetchedTree
from exporter.audit.tree_reading import required
from exporter.config import load
from exporter.errors import CheckError, ConfigError, ExporterError, printable
from exporter.history.closed_buckets import OLDER
from exporter.history.series import Series, catch_up, encoded_state
from exporter.job.evidence import Evidence
from exporter.job.inputs import RunInputs, run_settings
from exporter.job.reading import read_again
from exporter.job.rendering import FileGroup, RenderedRun, render_run
from exporter.protocols.compute import Tables
from exporter.publishing.publication import RunIdentity
from exporter.publishing.published_risk import shown_risk
from exporter.stores import open_store
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.stores.tree_sources import open_tree
from exporter.tree.documents import HistoryManifest, InputName
from exporter.tree.families import BUCKET_PAGE, STATUS_KEY, TOTALS_PAGE
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.same_values import same_values


class Rerendered(Struct):
    """How the files of a run compare with what its inputs give.

    Attributes:
        same: the number of files with the same bytes.
        different: what is wrong with each file that does not follow from the inputs, by key.
        dependent: the files that came out otherwise because an input is gone: the name of the input, and why, by key.
        recoded: the keys of files that have the same values in other bytes, because other libraries wrote them.
        bucket_pages: the keys of all pages of the histories, including those before the run.
        state: the state of the histories that the publisher would store after this run.
        older: the older days that the publisher would store with it; None if there are none.
    """

    same: int = 0
    different: dict[str, str] = field(default_factory=dict)
    dependent: dict[str, tuple[InputName, str]] = field(default_factory=dict)
    recoded: list[str] = field(default_factory=list)
    bucket_pages: set[str] = field(default_factory=set)
    state: bytes = b""
    older: bytes | None = None


def rerender(tree: FetchedTree) -> Rerendered:
    """Render a run again from its inputs, and compare its files.

    Raises `CheckError` if no run has such settings, the run cannot be repeated, or the status document is another one.
    """
    refuse_impossible(tree)
    made, different = Rerendered(), open_store(str(tree.folder.with_name("different")))
    try:
        read, used = read_again(Evidence.decode(tree.evidence, tree.status.evidence_key))
        rendered = render_run(_inputs_of(tree, read.tables(), made))
        depends_on = _compare(tree, rendered, made, different)
        made.state = encoded_state(rendered.inputs.series)
        made.older = rendered.inputs.series.pools.packed.get(OLDER)
    except ExporterError as error:
        raise CheckError(f"the run cannot be repeated from its evidence: {error}") from None
    alike = asyncio.run(_same_values(tree, different, depends_on))
    for key, inputs in depends_on.items():
        gone_inputs = sorted(inputs & tree.gone.keys())
        if key in alike:
            made.recoded.append(key)
        elif key not in tree.files:
            made.different[key] = "is not among the run's files"
        elif gone_inputs:
            name = gone_inputs[0]
            gone_key, why = next(iter(tree.gone[name].items()))
            made.dependent[key] = name, f"it depends on {gone_key}: {why}"
        else:
            made.different[key] = "does not follow from the run's evidence"
    _compare_evidence(tree, used, made)
    if not made.different:
        _compare_status(tree, rendered)
    made.different = dict(sorted(made.different.items()))
    return made


def refuse_impossible(tree: FetchedTree) -> None:
    """Raise `CheckError` for settings that no run has, or that are of another network than the status document."""
    settings, key = tree.manifest.settings, tree.status.manifest_key
    values = {
        "network.passphrase": settings.network,
        "output.page_sizes": settings.page_sizes,
        "output.default_page_size": settings.default_page_size,
        "output.market_pools_cap": settings.market_pools_cap,
        **({} if settings.public_url is None else {"output.public_url": settings.public_url}),
    }
    try:
        possible = run_settings(load(None, values, environment={}).settings)
    except ConfigError as error:
        raise CheckError(f"{key}: no run has such settings: {error}") from None
    if possible != settings:
        raise CheckError(f"{key}: no run has such settings: its page sizes do not ascend")
    if settings.network != tree.status.network:
        raise CheckError(f"{key}: it is of the network {printable(settings.network)}, and the status is of another")


def _inputs_of(tree: FetchedTree, tables: Tables, made: Rerendered) -> RunInputs:
    """The inputs of the run of a fetched tree. ``made`` gets the keys of the pages of the histories before the run."""
    status, series, risk = tree.status, Series(), MemoryStore()
    if tree.risk is not None and status.risk_key is not None:
        risk.put(status.risk_key, tree.risk)
    before = HistoryManifest(FORMAT, status.observed_ledger, tree.history.files)
    pages = catch_up(open_store(str(tree.folder)), before, status.observed_ledger, series)
    made.bucket_pages.update(page.key for page in pages)
    return RunInputs(
        settings=tree.manifest.settings,
        evidence=RenderedFile(status.evidence_key, tree.evidence, FileKind.PAGE),
        tables=replace(tables, risk=shown_risk(risk, tables, status.network)),
        history=tree.history.files,
        series=series,
        watched=tree.watched,
        earlier_changes=[item for item in tree.changes.data if item.observed_ledger < status.observed_ledger],
        earlier_rows=tree.earlier_rows,
    )


def _compare(
    tree: FetchedTree, rendered: RenderedRun, made: Rerendered, different: Store
) -> dict[str, frozenset[InputName]]:
    """Compare the rendered files with the listing.

    Returns the keys of files that are not as listed, each with the inputs that the file depends on. ``different`` gets
    these files as they were rendered.
    """
    digests = dict(tree.files.frame.select("key", "sha256").iter_rows())
    names = frozenset[InputName]({"evidence"})
    groups = [FileGroup(names, iter([rendered.history_part.file]))]
    unlike = dict[str, frozenset[InputName]]()
    for group in chain(groups, rendered.groups()):
        for file in group.files:
            if file.key.startswith((BUCKET_PAGE.prefix, TOTALS_PAGE.prefix)):
                made.bucket_pages.add(file.key)
            if digests.pop(file.key, None) == bytes.fromhex(file.sha256):
                made.same += 1
            else:
                unlike[file.key] = group.depends_on
                different.put(file.key, file.data)
    return unlike | dict.fromkeys(digests, frozenset())


def _compare_evidence(tree: FetchedTree, used: Evidence, made: Rerendered) -> None:
    """Check that the evidence has exactly the lines that the run used. Another zlib may have compressed them."""
    key, again = tree.status.evidence_key, used.file()
    if again.key == key:
        return
    made.same -= 1
    if same_values(key, tree.evidence, again.data):
        made.recoded.append(key)
    else:
        made.different[key] = "does not follow from the run's evidence: a run that reads it uses other lines"


async def _same_values(tree: FetchedTree, made: Store, keys: Iterable[str]) -> set[str]:
    """The keys of files that have the same values in the tree as in ``made``, although their bytes differ."""
    alike = set[str]()
    async with open_tree(tree.uri) as source:
        for key in keys:
            stored, sha256 = made.get(key), tree.files.sha256_of(key)
            if stored is not None and sha256 is not None:
                data = await required(source, key, sha256)
                if same_values(key, data, stored.data):
                    alike.add(key)
    return alike


def _compare_status(tree: FetchedTree, rendered: RenderedRun) -> None:
    """Raise `CheckError` unless the status document follows from the run's inputs and its manifest.

    Only the publisher can say when the next run is expected and how long files are kept. These values are taken over.
    """
    status, manifest = tree.status, tree.manifest
    identity = RunIdentity(
        run_id=manifest.run_id,
        observed_ledger=manifest.observed_ledger,
        published_at=datetime.fromisoformat(manifest.published_at),
        manifest_key=status.manifest_key,
        manifest_sha256=status.manifest_sha256,
        previous_run_id=status.previous_run_id,
    )
    repeated = rendered.status(
        identity, retention_hours=status.retention_hours, next_expected_at=status.next_expected_at
    )
    published = msgspec.to_builtins(status)
    for name, expected in msgspec.to_builtins(repeated).items():
        if published[name] != expected:
            raise CheckError(
                f"{STATUS_KEY}: expected $.{name} {str(expected)[:200]!r} by the run's evidence but found "
                f"{str(published[name])[:200]!r}"
            )
