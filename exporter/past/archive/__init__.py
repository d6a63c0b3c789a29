"""Reads Stellar history archives (docs/history-archives.md). Start with `checkpoint.HistoryArchive`."""
