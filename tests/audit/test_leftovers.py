"""Files that the published run does not list are named unless something shows that they mislead nobody."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from exporter.audit.leftovers import Past, judge_leftovers
from exporter.audit.unproven import UnprovenReason
from exporter.deployments.networks import NETWORKS
from exporter.past.archive.trusted_organisations import trust_of
from exporter.stores.folder import FolderStore


def test_a_proof_that_nobody_signed_is_named(tmp_path: Path) -> None:
    """A file that is named like a proof, by its digest, does not wait for the sweep if nobody signed it."""
    data = b"{}"
    key = f"v1/proofs/{sha256(data).hexdigest()}.json"
    FolderStore(tmp_path).put(key, data)
    network = NETWORKS["mainnet"].passphrase
    judged = judge_leftovers(Past(str(tmp_path), network, {}, [], trust_of(network, None)), [key])

    assert (0, [(UnprovenReason.UNLISTED, key)]) == (judged.waiting, judged.named)
