"""Backfills the history from a ledger lake, with any number of workers."""
