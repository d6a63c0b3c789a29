"""History out of ledger snapshot files: each file one ledger, in any order, on any number of workers."""
