"""Entries files with all that they can say of an entry; those that runs leave (`exporter.job.evidence`) say less."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

from exporter.ledger.source import RawEntry


def entries_content(passphrase: str, ledger: int, close_time: int, entries: Mapping[bytes, RawEntry | None]) -> bytes:
    """The content of a file, unpacked. A key whose entry is None is said to be absent."""
    lines: list[list[object]] = [["ledger", passphrase, ledger, close_time]]
    for key, entry in sorted(entries.items()):
        name = b64encode(key).decode()
        if entry is None:
            lines.append(["absent", name])
        else:
            data = b64encode(entry.data).decode()
            lines.append(["entry", name, entry.last_modified, entry.live_until, data])
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
