"""Files of a tree that its published run does not list: those of earlier runs, and those of nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporter.history.series import STATE_KEY
from exporter.job.fetched_tree import FetchedTree
from exporter.job.known_markets_file import MEMORY_KEY, SET_ASIDE_PREFIX
from exporter.job.unproven import Reason
from exporter.publishing.retention import SUPERSEDED_KEY
from exporter.stores.store import Store, etag_of
from exporter.tree.documents import HistoryRollup
from exporter.tree.families import (
    BUCKET_PAGE,
    CENSUS,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    JOURNAL_KEY,
    POINTER_KEY,
    PROOFS,
    RUN,
    RUN_FILES,
    TOTALS_PAGE,
    TRUST,
    VERIFIER,
    family_of,
)
from exporter.tree.files import FileKind

_RECORDS = (INTENT_KEY, SUPERSEDED_KEY, STATE_KEY, MEMORY_KEY, JOURNAL_KEY)
_NUMBERED = re.compile(rf"{SET_ASIDE_PREFIX}[0-9a-f]+\.memory")
"""The publisher's own records, which no reader is given."""


def unlisted_files(tree: FetchedTree, repeated: Store) -> Iterator[tuple[Reason, str]]:
    """The keys of files that the run does not list, with the reason under which they count.

    Args:
        tree: the tree.
        repeated: where its run was repeated: with the older pages of histories, which no run lists.
    """
    status, proofs = tree.status, tree.proofs
    known = {file.key for file in tree.files}
    for key in (
        *(
            POINTER_KEY,
            HISTORY_MANIFEST_KEY,
            PROOFS.template,
            CENSUS.template,
            VERIFIER.template,
            TRUST.template,
            *_RECORDS,
        ),
        *(status.manifest_key, RUN_FILES.key(run_id=status.run_id)),
        *(file.key for file in (*tree.history.files, *tree.before)),
        *(() if proofs is None else (proof.proof_key for proof in proofs.proofs)),
        *(key for run in tree.earlier.runs for key in (run.evidence_key, *_records_of(run.run_id))),
        *(info.key for family in (BUCKET_PAGE, TOTALS_PAGE) for info in repeated.list(family.prefix)),
        *(() if tree.history.liquidations is None else (tree.history.liquidations.key,)),
        *(entry.key for entry in tree.history.rollups if _is_repeated(entry, repeated)),
    ):
        known.add(key)
    if tree.keys is None:
        yield Reason.UNLISTED, "whatever else is there: this tree cannot be listed"
    for key in sorted(tree.keys or ()):
        family = family_of(key)
        if key in known or _NUMBERED.fullmatch(key):
            continue
        of_a_run = family is not None and (
            family in (RUN, RUN_FILES)
            or (family.kind in (FileKind.PAGE, FileKind.HISTORY) and family not in (BUCKET_PAGE, TOTALS_PAGE))
        )
        yield Reason.EARLIER if of_a_run else Reason.UNLISTED, key


def _is_repeated(entry: HistoryRollup, repeated: Store) -> bool:
    """Whether the repeated run made a rollup as the manifest has it."""
    stored = repeated.get(entry.key)
    return stored is not None and etag_of(stored.data) == entry.sha256


def _records_of(run_id: str) -> tuple[str, str]:
    return RUN.key(run_id=run_id), RUN_FILES.key(run_id=run_id)
