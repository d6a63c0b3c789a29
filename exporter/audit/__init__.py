"""Judges a published tree: checks, renders again, verifies, proves and compares it with the chain.

Each command begins in one module and uses those named after it:

- ``exporter check`` asks whether the tree is whole: `check`; `published_tree`, `published_checker`, `tree_reading`,
  `manifest_faults`, `private_files`, `leftovers`, `history_files`, `rollup_faults`, `document_schemas`,
  `public_urls`, and `check_summary` for the result.
- ``exporter check`` and ``exporter verify`` render a run again: `rerender`, `input_history`, `statements`.
- ``exporter verify`` asks whether its numbers follow from the ledger: `verify`; `fetched_tree`, `earlier_runs`,
  `evidence_claims`, `evidence_proof`, `unlisted_files`, `unproven`, and `verified` for the result.
- ``exporter prove`` adds proofs to a tree: `prove`.
- ``exporter census`` reads a whole checkpoint: `census`, `risk_tally`. `derived_risk` repeats the risk of a run.
- ``exporter check --on-chain`` asks the contracts themselves: `on_chain`.
- ``exporter status`` asks whether the run is as fresh as promised: `freshness`.
"""
