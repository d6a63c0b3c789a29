"""The entries file of a ledger: what was read of its state, one JSON line each, so that a proof can be held against it.

The first line is ``["ledger", PASSPHRASE, LEDGER, CLOSE_TIME]``. Then, by ascending key,
``["entry", KEY, LAST_CHANGE, LIVE_UNTIL, DATA]`` and ``["absent", KEY]``, and last, if calls were made,
``["call", CONTRACT, FUNCTION, [ARGUMENT, ...], RESULT or null, ERROR or null]``: an RPC's word. All bytes are XDR in
base64. `exporter.proof.stellar_proof.read_claims` reads it; its digest is of the unpacked content.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping

from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer


def entries_content(
    passphrase: str,
    ledger: int,
    close_time: int,
    entries: Mapping[bytes, RawEntry | None],
    calls: Iterable[tuple[ContractCall, SimulationAnswer]] = (),
) -> bytes:
    """The content of the file, unpacked. A key whose entry is None was looked for, and is not in the state."""
    lines: list[list[object]] = [["ledger", passphrase, ledger, close_time]]
    for key in sorted(entries):
        entry = entries[key]
        if entry is None:
            lines.append(["absent", _base64(key)])
        else:
            lines.append(["entry", _base64(key), entry.last_modified, entry.live_until, _base64(entry.data)])
    lines += sorted(
        (
            [
                "call", call.contract, call.function, [_base64(encode_scval(item)) for item in call.arguments],
                None if answer.result is None else _base64(answer.result), answer.error,
            ]
            for call, answer in calls
        ),
        key=json.dumps,
    )  # fmt: skip
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def packed(content: bytes) -> bytes:
    """The file as it is kept: gzip, the same bytes for the same content."""
    return gzip.compress(content, 9, mtime=0)


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
