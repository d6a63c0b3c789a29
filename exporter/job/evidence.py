"""The evidence of a run: everything that its numbers come from, as one file (docs/proofs.md, "The entries file")."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from exporter.deployments import Deployment
from exporter.deployments.networks import network_id
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import DecodeError, SnapshotFileError, SourceError
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.source import LATEST_CLOSE_TIME, ContractCall, RawEntry, SimulationAnswer
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, Origin, with_contract
from exporter.tree.families import EVIDENCE
from exporter.tree.files import FileKind, RenderedFile

MAGIC = b"\x1f\x8b"
"""How gzip begins; a ledger snapshot file begins with a brace."""

COMPRESSION = 6
"""Of gzip. 9 takes five times as long for 6 % less."""

MAX_BYTES = 1 << 30
"""More is refused when it is unpacked."""

MAX_LINE_BYTES = 1 << 25
"""A longer line is refused."""

_U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class _Line(Struct, array_like=True, frozen=True):
    """A line is an array: what it says, then the fields."""


class _Ledger(_Line, tag="ledger", frozen=True):
    passphrase: str
    ledger: _U32
    close_time: Annotated[int, Meta(ge=1, le=LATEST_CLOSE_TIME)]


class _Looked(_Line, tag="looked", frozen=True):
    whole: bool
    listed: bool
    stored: bool


class _Candidate(_Line, tag="candidate", frozen=True):
    protocol: str
    address: str
    demanded: bool
    pool: str | None
    voucher: str | None


class _Contract(_Line, tag="contract", frozen=True):
    protocol: str
    label: str
    role: str
    address: str


class _Notice(_Line, tag="notice", frozen=True):
    text: str


class _Entry(_Line, tag="entry", frozen=True):
    key: bytes
    last_modified: _U32
    archived: Annotated[int, Meta(ge=0, le=0)] | None
    """0 for an archived entry. A life that goes on may have been prolonged between the ledger and the reading."""
    data: bytes
    live_until: _U32 | None


class _Absent(_Line, tag="absent", frozen=True):
    key: bytes


class _Call(_Line, tag="call", frozen=True):
    contract: str
    function: str
    arguments: list[bytes]
    result: bytes | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Tried:
    """The candidates of each protocol, the deployments with what the chain taught, and those compared with lists."""

    candidates: Mapping[str, Sequence[Candidate]]
    deployments: Sequence[Deployment]
    listed: Sequence[Deployment]


# No repr: `asyncio.run` makes that of its result, and this one is of the size of the network.
@dataclass(frozen=True, slots=True, repr=False)
class Evidence:
    """The entries and calls that a run used. A key without entry was absent; a call has a result (ScVal XDR) or error.

    ``contracts`` are those of deployments that only the chain names. ``whole`` says whether the ledger that was read
    had every contract, ``listed`` whether the package's lists were compared with it. With ``stored`` nothing was run:
    what calls gave follows from the entries.
    """

    passphrase: str
    ledger: int
    close_time: int
    entries: Mapping[bytes, RawEntry | None]
    calls: Mapping[ContractCall, SimulationAnswer]
    candidates: Sequence[Candidate]
    contracts: Sequence[LearnedContract] = ()
    notices: Sequence[str] = ()
    whole: bool = True
    listed: bool = True
    stored: bool = False

    def tried(self, known: Sequence[Deployment]) -> Tried:
        """Where the run looked: the package's own lists (``known``) and what the file adds to them."""
        deployments = list(known) if self.listed else []
        for learned in self.contracts:
            for at, item in enumerate(deployments):
                if (item.protocol, item.label) == (learned.protocol, learned.label):
                    deployments[at] = with_contract(item, learned.role, learned.address)
        named = {name: [item for item in self.candidates if item.protocol == name] for name in PROTOCOLS}
        return Tried(named, deployments, known if self.listed else ())

    @property
    def network_id(self) -> str:
        return network_id(self.passphrase)

    def encode(self) -> bytes:
        """The file's bytes: the same for the same evidence, in whatever order it was read."""
        content = io.BytesIO()
        packed = gzip.GzipFile("", "wb", COMPRESSION, content, mtime=0)
        with io.BufferedWriter(packed, 1 << 16) as lines:
            lines.writelines(msgspec.json.encode(line) + b"\n" for line in self._lines())
        return content.getvalue()

    def file(self) -> RenderedFile:
        content = self.encode()
        return RenderedFile(EVIDENCE.key(sha256=hashlib.sha256(content).hexdigest()), content, FileKind.PAGE)

    def _lines(self) -> Iterator[_Line]:
        yield _Ledger(self.passphrase, self.ledger, self.close_time)
        yield _Looked(self.whole, self.listed, self.stored)
        for c in self.candidates:
            yield _Candidate(c.protocol, c.address, c.demanded, c.pool, c.voucher)
        for item in self.contracts:
            yield _Contract(item.protocol, item.label, item.role, item.address)
        yield from map(_Notice, self.notices)
        for key in sorted(self.entries):
            raw = self.entries[key]
            if raw is None:
                yield _Absent(key)
            else:
                archived = 0 if raw.live_until == 0 else None
                yield _Entry(key, raw.last_modified, archived, raw.data, raw.live_until)
        calls = [
            _Call(call.contract, call.function, list(map(encode_scval, call.arguments)), answer.result, answer.error)
            for call, answer in self.calls.items()
        ]
        calls.sort(key=lambda call: (call.contract, call.function, call.arguments))
        yield from calls

    @classmethod
    def decode(cls, content: bytes, name: str) -> Evidence:
        """Take a file's content apart. Raises `SnapshotFileError`."""
        try:
            return cls._decode(_lines_of(content))
        except (DecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SnapshotFileError(f"evidence {name}: {error}") from None

    @classmethod
    def _decode(cls, content: Iterator[bytes]) -> Evidence:
        decoder = msgspec.json.Decoder(_Ledger | _Looked | _Candidate | _Contract | _Notice | _Entry | _Absent | _Call)
        lines = map(decoder.decode, content)
        first, looked = next(lines, None), next(lines, None)
        if not isinstance(first, _Ledger) or not isinstance(looked, _Looked):
            raise DecodeError("it must start with its ledger and the addresses searched")
        entries: dict[bytes, RawEntry | None] = {}
        calls: dict[ContractCall, SimulationAnswer] = {}
        candidates, contracts, notices = list[Candidate](), list[LearnedContract](), list[str]()
        for line in lines:
            match line:
                case _Entry():
                    if line.last_modified > first.ledger:
                        raise DecodeError(f"an entry changed at {line.last_modified}, after ledger {first.ledger}")
                    if (line.live_until == 0) is (line.archived is None):
                        raise DecodeError("an entry is both archived and live")
                    _once(entries, line.key, RawEntry(line.data, line.last_modified, line.live_until))
                case _Absent():
                    _once(entries, line.key, None)
                case _Call():
                    call = ContractCall(line.contract, line.function, tuple(map(decode_scval, line.arguments)))
                    if (line.result is None) is (line.error is None):
                        raise DecodeError(f"{line.function} of {line.contract} must have a result or an error")
                    _once(calls, call, SimulationAnswer(first.ledger, line.result, line.error, (), "evidence"))
                case _Candidate():
                    origin = Origin.CONFIGURATION if line.demanded else Origin.DEPLOYMENT
                    candidates.append(Candidate(line.protocol, line.address, origin, line.pool, line.voucher))
                case _Contract():
                    contracts.append(
                        LearnedContract(protocol=line.protocol, label=line.label, role=line.role, address=line.address)
                    )
                case _Notice():
                    notices.append(line.text)
                case _:
                    raise DecodeError("it is of more than one ledger")
        where = candidates, contracts, notices, looked.whole, looked.listed, looked.stored
        return cls(first.passphrase, first.ledger, first.close_time, entries, calls, *where)


def _lines_of(content: bytes) -> Iterator[bytes]:
    """The lines that gzip holds, one at a time. Raises `DecodeError` where it is damaged, or more than `MAX_BYTES`."""
    left = MAX_BYTES
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while line := file.readline(min(MAX_LINE_BYTES, left) + 1):
                left -= len(line)
                if left < 0 or len(line) > MAX_LINE_BYTES:
                    raise DecodeError(
                        f"it has more than {MAX_BYTES:,} bytes, or {MAX_LINE_BYTES:,} in a line, when it is unpacked"
                    )
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise DecodeError(f"it is damaged: {error}") from None


def _once(known: dict[Any, Any], key: object, value: object) -> None:
    if key in known:
        raise DecodeError("an entry or a call is listed twice")
    known[key] = value


class EvidenceSource(StoredSource):
    """A `LedgerSource` over evidence: what the run used is answered, and nothing else is."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        super().__init__(self._entry, evidence.ledger, evidence.close_time, "evidence", storage_answers)

    def _entry(self, key: bytes) -> RawEntry | None:
        if key not in self.evidence.entries:
            raise SourceError(
                f"the evidence does not have the entry {key.hex()[:120]}: this version of the exporter reads other "
                "entries than the one that made it"
            )
        return self.evidence.entries[key]

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        if self.evidence.stored:
            return await super().simulate(call)
        answer = self.evidence.calls.get(call)
        if answer is None:
            raise SourceError(
                f"the evidence does not have what {call.function} of {call.contract} returns: this version of the "
                "exporter makes other calls than the one that made it"
            )
        return answer
