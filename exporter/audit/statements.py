"""Collects the statements of a publisher: facts that only the publisher can know.

Nothing on the network says when a run was made, how long files are kept, which run was the previous one, or which
markets the operator names. Such statements are checked for their form and printed, but not counted as unproven.
docs/proofs.md lists them all. Texts that could mislead somebody, such as notices and transitions, are not among them;
they are counted as unproven.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from exporter.audit.fetched_tree import FetchedTree
from exporter.clocks import MAX_CLOCK_ERROR
from exporter.deployments.networks import network_of
from exporter.errors import CheckError
from exporter.job.evidence import Evidence
from exporter.tree.families import PROOFS, STATUS_KEY, TRUST, VERIFIER
from exporter.tree.values import ListedReason

MAX_RETENTION_HOURS: Final = 8_760
"""Longest retention time that a configuration can have."""

MAX_SHOWN_POOLS: Final = 10_000
"""Largest number of pools in a market's document that a configuration can have."""


def statements_of(tree: FetchedTree, evidence: Evidence) -> Iterator[str]:
    """All statements in a tree and in its run's evidence. Raises `CheckError` for one that cannot be true."""
    status = tree.status
    yield from (f"the operator excludes {name}" for name in evidence.excluded)
    made = datetime.fromisoformat(status.generated_at)
    if made < datetime.fromisoformat(status.ledger_close_time) - MAX_CLOCK_ERROR:
        raise CheckError(f"{STATUS_KEY}: $.generated_at {status.generated_at} is before the close of the run's ledger")
    yield f"the run was made at {status.generated_at}"
    if status.next_expected_at is not None:
        if datetime.fromisoformat(status.next_expected_at) <= made:
            raise CheckError(f"{STATUS_KEY}: $.next_expected_at {status.next_expected_at} is not after the run")
        yield f"a newer run is expected at {status.next_expected_at}"
    if not 1 <= status.retention_hours <= MAX_RETENTION_HOURS:
        raise CheckError(f"{STATUS_KEY}: $.retention_hours is {status.retention_hours}, not 1 to {MAX_RETENTION_HOURS}")
    if status.market_pools_cap > MAX_SHOWN_POOLS:
        raise CheckError(f"{STATUS_KEY}: $.market_pools_cap is {status.market_pools_cap}, not 1 to {MAX_SHOWN_POOLS}")
    yield f"documents of markets show at most {status.market_pools_cap} pools"
    yield f"files of earlier runs are kept for {status.retention_hours} hours"
    if status.previous_run_id == status.run_id:
        raise CheckError(f"{STATUS_KEY}: $.previous_run_id is the run itself")
    if status.previous_run_id is not None:
        yield f"the run before was {status.previous_run_id}"
    listings = evidence.listings(network_of(status.network).deployments)
    for candidate in evidence.candidates:
        if candidate.configured:
            pool = "" if candidate.pool is None else f", its pool {candidate.pool}"
            listing = listings.of(candidate.protocol, candidate.address)
            alone = ", and lists it by that alone" if listing.reason is ListedReason.CONFIGURED else ""
            yield f"the operator names the market {candidate.address} of {candidate.protocol}{pool}{alone}"
    for candidate in evidence.candidates:
        if candidate.voucher is not None:
            yield f"contract {candidate.voucher} should have a record of the market {candidate.address}"
    if evidence.skipped:
        named = ", ".join(f"{item.market} ({item.reason})" for item in evidence.skipped[:3])
        yield f"markets that were skipped: {len(evidence.skipped)}, the first {named}"
    yield from _of_proofs(tree)


def _of_proofs(tree: FetchedTree) -> Iterator[str]:
    proof_list = tree.listed_proofs
    if proof_list is None:
        return
    if proof_list.network != tree.status.network:
        raise CheckError(
            f"{PROOFS.only_key}: it is of the network {proof_list.network!r}, not of {tree.status.network!r}"
        )
    for name, stated, expected in (
        ("verifier", proof_list.verifier, VERIFIER.only_key),
        ("trust", proof_list.trust, TRUST.only_key),
    ):
        if stated != expected:
            raise CheckError(f"{PROOFS.only_key}: $.{name} is {stated}, not {expected}")
    runs = {tree.status.evidence_key: tree.status.run_id} | {run.evidence_key: run.run_id for run in tree.earlier}
    for proof in proof_list.proofs:
        if runs.get(proof.evidence_key, proof.run_id) != proof.run_id:
            raise CheckError(f"{PROOFS.only_key}: {proof.evidence_key} is not the evidence of run {proof.run_id}")
    times = ", ".join(sorted({proof.proven_at for proof in proof_list.proofs}))
    if times:
        yield f"runs were proven at {times}"
