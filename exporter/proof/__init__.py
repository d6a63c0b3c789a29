"""Proofs that ledger entries are the state of the network: made from history archives, checked on nobody's word.

`checkpoint_proof.make_proof` makes the proof file of a checkpoint. `stellar_proof` checks it: a file that stands alone,
is published beside the tree, and is what the exporter itself checks with. Entries to be proven are those of a run's
evidence (`exporter.job.evidence`). `trusted_organisations` has the validators that count unless a reader names others.
Statement and formats: docs/proofs.md.
"""
