"""Reading Stellar history archives: checkpoints, ledger headers and buckets, every digest verified.

A history archive is what validators publish: a tree of files, with the whole state of the ledger every 64 ledgers.
`checkpoint.HistoryArchive` is the way in. Layout and formulas: docs/history-archives.md.
"""
