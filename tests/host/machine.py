"""The official contract host, driven over the pipe of a long-lived process.

`scripts/suite host` builds the program of tests/host/machine and says in CONTRACT_HOST where it is. Each line to it is
a request, each line from it an answer; everything that is XDR goes as base64.

| request (``do``) | fields | does |
|---|---|---|
| ``protocol`` | | says which protocol the host runs; it refuses ledgers of any other |
| ``put`` | ``entries``: [LedgerKey, LedgerEntry or null, end of life or null] | sets entries or takes them away |
| ``ledger`` | the fields of the host's LedgerInfo | says in which ledger calls run |
| ``mark``, ``back`` | ``name`` | remembers all entries, and brings them back |
| ``call`` | ``function``: HostFunction; ``authorised``, ``commit``, ``restore`` | runs it |
"""

from __future__ import annotations

import json
import struct
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import encode_address, encode_opaque, encode_scval
from exporter.ledger.source import RawEntry

SETTINGS = {
    "base_reserve": 5_000_000,
    "min_persistent_entry_ttl": 2_073_600,
    "min_temp_entry_ttl": 17_280,
    "max_entry_ttl": 3_110_400,
}
"""Mainnet's: the reserve of an entry, and bounds on times to live."""


class LedgerInfo(Struct, frozen=True):
    """The ledger that calls run in: ``close_time`` is unix seconds, ``network_id`` 64 hex digits."""

    ledger: int
    close_time: int
    network_id: str
    protocol_version: int

    def after(self, seconds: int, ledgers: int | None = None) -> LedgerInfo:
        """A later ledger; without ``ledgers`` one every five seconds, and one at least."""
        passed = max(1, seconds // 5) if ledgers is None else ledgers
        return replace(self, ledger=self.ledger + passed, close_time=self.close_time + seconds)


class Outcome(Struct, frozen=True):
    """What a call gave. ``result`` is None for a failed one, whose ``error`` is such as ``Error(Contract, #10)``.

    ``changes`` has the LedgerEntry XDR by LedgerKey XDR (None: taken away) of everything written; ``ends`` the new
    last ledger of an entry's life where it changed. ``archived`` are the keys that the call looked at and that need to
    be restored first: in the network such a transaction fails before any code runs. ``restored`` are those that the
    call found restored, where ``restore`` was asked for.
    """

    result: ScVal | None
    raw_result: bytes | None
    error: str | None
    message: str
    read_only: tuple[bytes, ...]
    read_write: tuple[bytes, ...]
    changes: Mapping[bytes, bytes | None]
    ends: Mapping[bytes, int]
    archived: tuple[bytes, ...]
    restored: tuple[bytes, ...]
    events: tuple[bytes, ...]

    @property
    def footprint(self) -> tuple[bytes, ...]:
        """Every key that the call looked at."""
        return (*self.read_only, *self.read_write)

    def given(self) -> ScVal:
        """The result. Fails with the host's own message where there is none."""
        assert self.result is not None, self.message or self.error
        return self.result


class Machine:
    """A host with a ledger of its own, as a context. ``protocol`` is the one that it runs."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self.protocol: int = self.ask(do="protocol")["protocol"]
        self.info = LedgerInfo(1, 1, "0" * 64, self.protocol)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._process.wait(10)
        self._answers.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request. Fails if the program refuses it."""
        self._requests.write(json.dumps(request).encode() + b"\n")
        self._requests.flush()
        line = self._answers.readline()
        assert line, f"the contract host ended with {self._process.wait(10)}"
        answer: dict[str, Any] = json.loads(line)
        assert "refused" not in answer, answer["refused"]
        return answer

    def put(self, entries: Mapping[bytes, RawEntry | None]) -> None:
        """Set contract data and code entries, or take them away (None)."""
        self._put(
            (key, None, None)
            if entry is None
            else (key, struct.pack(">I", entry.last_modified) + entry.data + bytes(4), entry.live_until)
            for key, entry in entries.items()
        )

    def put_others(self, entries: Mapping[bytes, bytes]) -> None:
        """Set entries of kinds that do not expire: accounts, trustlines, config settings."""
        self._put((key, entry, None) for key, entry in entries.items())

    def _put(self, entries: Iterable[tuple[bytes, bytes | None, int | None]]) -> None:
        texts = [[_text(key), None if entry is None else _text(entry), until] for key, entry, until in entries]
        self.ask(do="put", entries=texts)

    def at(self, info: LedgerInfo) -> None:
        """Let the calls that follow run in this ledger."""
        self.info = info
        self.ask(
            do="ledger",
            protocol_version=info.protocol_version,
            ledger=info.ledger,
            close_time=info.close_time,
            network_id=info.network_id,
            **SETTINGS,
        )

    def mark(self) -> None:
        """Remember all entries."""
        self.ask(do="mark", name="start")

    def back(self) -> None:
        """Bring all entries back as they were at `mark`. The ledger's number and time stay."""
        self.ask(do="back", name="start")

    def call(
        self,
        contract: str,
        function: str,
        *arguments: ScVal,
        authorised: bool = False,
        commit: bool = False,
        restore: bool = False,
    ) -> Outcome:
        """Call a function. ``authorised``: whoever is asked for authorisation gives it; otherwise nobody does."""
        code = b"\0\0\0\0" + encode_address(contract) + encode_opaque(function.encode())
        code += struct.pack(">I", len(arguments)) + b"".join(map(encode_scval, arguments))
        answer = self.ask(do="call", function=_text(code), authorised=authorised, commit=commit, restore=restore)
        raw = b64decode(answer["result"]) if "result" in answer else None
        changes = [(b64decode(key), read_only, value, end) for key, read_only, value, end in answer.get("changes", ())]
        return Outcome(
            result=None if raw is None else decode_scval(raw),
            raw_result=raw,
            error=answer.get("error"),
            message=answer.get("message", ""),
            read_only=_all(answer.get("read_only", ())),
            read_write=_all(answer.get("read_write", ())),
            changes={
                key: None if value is None else b64decode(value)
                for key, read_only, value, _ in changes
                if not read_only
            },
            ends={key: end for key, _, _, end in changes if end is not None},
            archived=_all(answer["archived"]),
            restored=_all(answer["restored"]),
            events=_all(answer.get("events", ())),
        )


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _all(items: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(map(b64decode, items))
