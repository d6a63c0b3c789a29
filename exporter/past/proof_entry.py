"""The entry of a run in the list of proofs."""

from __future__ import annotations

import hashlib

from exporter.past.archive.stellar_proof import Proven, Trust
from exporter.past.archive.trusted_organisations import signed_by
from exporter.stores.store import Clock
from exporter.tree.documents import Proof, timestamp
from exporter.tree.families import PROOF
from exporter.tree.run_listing import ledger_of


def proof_entry(
    run_id: str,
    evidence_key: str,
    content: bytes,
    proven: Proven,
    trust: Trust,
    now: Clock,
    *,
    entries: int,
    confirmed: int,
    changed_since: int = 0,
    not_looked_up: int = 0,
    short_lived: int = 0,
    absent: int = 0,
    calls: int = 0,
) -> Proof:
    """The entry of a run in the list of proofs. ``content`` has the bytes of the proof file.

    ``confirmed`` of the ``entries`` in the run's evidence are confirmed by the checkpoint; the last arguments count the
    others by reason, and the results of calls.
    """
    digest = hashlib.sha256(content).hexdigest()
    return Proof(
        run_id=run_id,
        observed_ledger=ledger_of(run_id),
        evidence_key=evidence_key,
        checkpoint=proven.ledger,
        proof_key=PROOF.key(sha256=digest),
        proof_sha256=digest,
        entries=entries,
        confirmed=confirmed,
        changed_since=changed_since,
        not_looked_up=not_looked_up,
        short_lived=short_lived,
        absent=absent,
        calls=calls,
        organisations_signed=signed_by(proven, trust),
        organisations_trusted=len(trust.organisations),
        organisations_needed=trust.needed,
        proven_at=timestamp(int(now().timestamp())),
    )
