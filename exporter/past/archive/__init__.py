"""Stellar history archives (docs/history-archives.md); `checkpoint.HistoryArchive` is the way in."""
