"""Proofs that ledger entries are the state of the network: made from history archives, checked on nobody's word.

`checkpoint_proof.make_proof` makes the proof file of a checkpoint. `stellar_proof` checks it: a file that stands alone,
is published beside the tree, and is what the exporter itself checks with. `entries_file` has the entries to be proven,
`trusted_organisations` the validators that count unless a reader names others. Statement, formats: docs/proofs.md.
"""
