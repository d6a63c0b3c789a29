"""Judges the files of a tree that its run does not list: those of earlier runs, and whatever else is there."""

from __future__ import annotations

from exporter.audit.earlier_runs import RepeatedRuns
from exporter.audit.fetched_tree import FetchedTree
from exporter.audit.leftovers import Past, judge_leftovers
from exporter.audit.rerender import Rerendered
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.history.rollups import has_same_history
from exporter.past.archive.stellar_proof import Trust
from exporter.tree.families import (
    CENSUS,
    HISTORY_MANIFEST_KEY,
    PROOFS,
    RISK,
    RISK_TABLE,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    TRUST,
    VERIFIER,
)

_JUDGED_APART = {
    *(STATUS_KEY, HISTORY_MANIFEST_KEY, PROOFS.only_key, CENSUS.only_key, VERIFIER.only_key, TRUST.only_key),
}
"""The keys of documents that are judged by other checks than those of the run's files."""


def judge_unlisted_files(
    tree: FetchedTree, made: Rerendered, repeated: RepeatedRuns, trust: Trust, unproven: Unproven
) -> int:
    """Name the files that no run lists. Returns how many files wait for the sweep."""
    if tree.keys is None:
        unproven.add(UnprovenReason.UNLISTED, ["whatever else is there: this tree cannot be listed"])
    unproven.add(UnprovenReason.UNLISTED, tree.strangers)
    rest = sorted(set(tree.keys or ()) - _judged_keys(tree, made))
    past = Past(tree.uri, tree.status.network, repeated.pages, tree.history_manifest.files, trust)
    leftovers = judge_leftovers(past, rest)
    for reason, key in leftovers.named:
        unproven.add(reason, [key])
    return leftovers.waiting


def _judged_keys(tree: FetchedTree, made: Rerendered) -> set[str]:
    """The keys of all files that were compared, or that other checks judge or name."""
    history = tree.history_manifest
    keys = {file.key for file in tree.files} | _JUDGED_APART | tree.private_files.keys() | made.bucket_pages
    keys |= {family.key(run_id=tree.status.run_id) for family in (RUN, RUN_FILES)}
    keys |= {file.key for file in history.files}
    keys |= {proof.proof_key for proof in tree.proofs}
    if all(has_same_history(entry, history) for entry in history.rollups):  # then the check has made all of them again
        keys |= {entry.key for entry in history.rollups}
    if history.liquidations is not None:
        keys.add(history.liquidations.key)
    keys |= {key for key in tree.keys or () if RISK.pattern.fullmatch(key)} | {RISK_TABLE.only_key}
    return keys
