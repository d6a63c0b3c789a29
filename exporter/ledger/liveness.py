"""What a ledger entry looks like to a reader once its time to live is over.

An entry is live at a ledger up to and including the last one it lives until. After that a temporary entry is gone,
and a persistent one is archived: still given, with its data and a ``live_until`` of 0 (facts/stellar-rpc.md 1.4).
"""

from __future__ import annotations

from exporter.ledger.source import RawEntry

ARCHIVED = 0
"""What `RawEntry.live_until` is for an archived entry; when it expired is not told."""


def is_temporary(key: bytes) -> bool:
    """Whether a LedgerKey is that of a temporary contract data entry."""
    return key[:4] == b"\0\0\0\x06" and key[-4:] == b"\0\0\0\0"


def seen_at(key: bytes, entry: RawEntry, ledger: int) -> RawEntry | None:
    """A stored entry as a reader at ``ledger`` sees it, or None where it sees none.

    ``entry.live_until`` is the true last ledger of the entry's life, or None for an entry that does not expire.
    """
    if entry.live_until is None or entry.live_until >= ledger:
        return entry
    if is_temporary(key):
        return None
    return RawEntry(data=entry.data, last_modified=entry.last_modified, live_until=ARCHIVED)
