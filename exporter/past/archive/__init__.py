"""Stellar history archives: the whole state of the ledger every 64 ledgers, every digest verified.

`checkpoint.HistoryArchive` is the way in. Layout and formulas: docs/history-archives.md.
"""
