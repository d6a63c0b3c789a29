"""A stand-in for stellar-core under a real stellar-rpc: ``python -m tests.rpc.core`` and the arguments of captive core.

It closes empty ledgers on top of an archive's last one, writes their meta to the pipe that stellar-rpc opened, and
answers ``/getledgerentry`` from the archive's state. STATE names the file that `save` wrote, PROTOCOL the protocol of
the ledgers, of which one closes every second.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from stellar_sdk import xdr

PROTOCOL = int(os.environ.get("PROTOCOL", "22"))
VERSION = f"v{PROTOCOL + 1}.0.0 (a stand-in)\nledger protocol version: {PROTOCOL + 1}"


@dataclass(frozen=True, slots=True)
class State:
    """The last header of an archive, and each LedgerEntry by LedgerKey (XDR) with the last ledger of its life."""

    header: bytes
    passphrase: str
    entries: Mapping[bytes, tuple[bytes, int | None]]

    def answer(self, key: bytes, ledger: int) -> dict[str, object]:
        """The answer of ``/getledgerentry`` about a key at a ledger."""
        if key not in self.entries:
            return {"state": "not-found"}
        entry, live_until = self.entries[key]
        text = base64.b64encode(entry).decode()
        if live_until is None:
            return {"state": "live", "entry": text}
        if live_until >= ledger:
            return {"state": "live", "entry": text, "liveUntilLedgerSeq": live_until}
        temporary = key[-4:] == bytes(4)
        return {"state": "not-found"} if temporary else {"state": "archived", "entry": text}


def save(state: State, path: Path) -> None:
    """Write a state to the file that the stand-in reads."""
    path.write_bytes(pickle.dumps(state))


def meta(header: xdr.LedgerHeader) -> bytes:
    """The LedgerCloseMeta of a ledger without transactions."""
    history = xdr.LedgerHeaderHistoryEntry(digest(header), header, xdr.LedgerHeaderHistoryEntryExt(0))
    transactions = xdr.GeneralizedTransactionSet(
        1, v1_tx_set=xdr.TransactionSetV1(header.previous_ledger_hash, phases=[])
    )
    v1 = xdr.LedgerCloseMetaV1(
        ext=xdr.LedgerCloseMetaExt(0),
        ledger_header=history,
        tx_set=transactions,
        tx_processing=[],
        upgrades_processing=[],
        scp_info=[],
        total_byte_size_of_live_soroban_state=xdr.Uint64(0),
        evicted_keys=[],
        unused=[],
    )
    return xdr.LedgerCloseMeta(1, v1=v1).to_xdr_bytes()


def digest(header: xdr.LedgerHeader) -> xdr.Hash:
    """A ledger's hash."""
    return xdr.Hash(hashlib.sha256(header.to_xdr_bytes()).digest())


def after(header: xdr.LedgerHeader) -> xdr.LedgerHeader:
    """The header of the next ledger, which closes now."""
    following = xdr.LedgerHeader.from_xdr_bytes(header.to_xdr_bytes())
    following.ledger_version = xdr.Uint32(PROTOCOL)
    following.previous_ledger_hash = digest(header)
    following.ledger_seq = xdr.Uint32(header.ledger_seq.uint32 + 1)
    following.scp_value.close_time = xdr.TimePoint(xdr.Uint64(int(time.time())))
    return following


def serve(state: State, port: int, latest: list[int]) -> None:
    """Answer HTTP requests on a port, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """stellar-rpc takes lines of core's output for core's log."""

        def do_GET(self) -> None:
            facts = {"num": latest[0]}
            info = {"ledger": facts, "state": "Synced!", "build": VERSION, "protocol_version": PROTOCOL}
            self._reply({"info": info | {"network": state.passphrase}})

        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            ledger = int(asked.get("ledgerSeq", ["0"])[0]) or latest[0]
            keys = map(base64.b64decode, asked.get("key", []))
            self._reply({"ledgerSeq": ledger, "entries": [state.answer(key, ledger) for key in keys]})

        def _reply(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Does what captive core is asked for: its version, a new database, catching up, and running."""
    if "version" in arguments:
        print(VERSION)
        return 0
    if "run" not in arguments:
        return 0 if {"new-db", "catchup"} & set(arguments) else 1
    state: State = pickle.loads(Path(os.environ["STATE"]).read_bytes())  # written by `save`
    header = xdr.LedgerHeader.from_xdr_bytes(state.header)
    latest = [header.ledger_seq.uint32]
    config = Path(arguments[arguments.index("--conf") + 1]).read_text() if "--conf" in arguments else sys.stdin.read()
    for port in {int(found) for found in re.findall(r"^HTTP(?:_QUERY)?_PORT\s*=\s*(\d+)", config, re.MULTILINE)} - {0}:
        serve(state, port, latest)
    with os.fdopen(3, "wb", buffering=0) as pipe:
        while True:
            frame = meta(header)
            latest[0] = header.ledger_seq.uint32
            pipe.write((len(frame) | 1 << 31).to_bytes(4, "big") + frame)
            time.sleep(1)
            header = after(header)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
