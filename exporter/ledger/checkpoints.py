"""Checkpoints are the ledgers whose whole state history archives keep."""

from __future__ import annotations

from typing import Final

CHECKPOINT_LEDGERS: Final = 64
"""The distance between checkpoints. They are the ledgers 63, 127, and so on."""


def checkpoint_of(ledger: int) -> int:
    """The checkpoint whose files contain a ledger, which is the first one at or after it."""
    return ledger | CHECKPOINT_LEDGERS - 1
