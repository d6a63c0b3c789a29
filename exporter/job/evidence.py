"""The evidence of a run: everything that its numbers come from, as one file that the run leaves beside them.

It is lines of JSON in one zstd frame: what was tried at which ledger, every entry that was used (also that there was
none), and every contract call with what it gave. `exporter run --snapshot` takes the file and makes the same files of
it, byte for byte. The results of calls are the RPC's word.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct

from exporter.deployments import Deployment
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import DecodeError, SnapshotFileError, SourceError
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.source import MAX_KEYS_PER_REQUEST, ContractCall, EntriesAnswer, RawEntry, SimulationAnswer
from exporter.ledger.view import Reading
from exporter.protocols.base import LEARNED, Candidate, with_contract

MAGIC = b"\x28\xb5\x2f\xfd"
"""How a zstd frame begins; a ledger snapshot file begins with a brace."""

MAX_BYTES = 1 << 30
"""More is refused when it is decompressed."""

_U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class _Head(Struct, tag="evidence", frozen=True, kw_only=True):
    version: int
    network_id: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    ledger: _U32
    close_time: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    whole: bool
    listed: bool
    candidates: list[Candidate]
    contracts: list[LearnedContract]
    notices: list[str]


class _Entry(Struct, tag="entry", frozen=True, omit_defaults=True):
    key: bytes
    data: bytes | None = None
    last_modified: _U32 = 0
    live_until: _U32 | None = None


class _Call(Struct, tag="call", frozen=True, omit_defaults=True):
    contract: str
    function: str
    arguments: list[bytes]
    result: bytes | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """Where a run looks for markets: the candidates of each protocol, and the deployments, with what the chain taught.

    ``listed`` are the deployments whose contracts are compared with the package's lists.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    deployments: Sequence[Deployment]
    listed: Sequence[Deployment]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run used of one ledger. A key without entry was absent; a call has a result (ScVal XDR) or an error.

    ``listed`` says whether the package's lists were compared with the chain, and ``whole`` whether the ledger that was
    read had every contract. ``contracts`` are those of deployments that only the chain names.
    """

    network_id: str
    ledger: int
    close_time: int
    entries: Mapping[bytes, RawEntry | None]
    calls: Mapping[ContractCall, SimulationAnswer]
    candidates: Sequence[Candidate]
    contracts: Sequence[LearnedContract] = ()
    notices: Sequence[str] = ()
    whole: bool = True
    listed: bool = True

    @classmethod
    def of(
        cls, reading: Reading[Any], tried: Tried, *, network_id: str, close_time: int, notices: Sequence[str],
        whole: bool,
    ) -> Evidence:  # fmt: skip
        """What a reading used."""
        learned = [
            LearnedContract(protocol=item.protocol, label=item.label, role=contract.role, address=contract.address)
            for item in tried.deployments
            for contract in item.contracts
            if contract.source == LEARNED
        ]
        return cls(
            network_id, reading.certificate.ledger, close_time, reading.entries, reading.calls,
            [candidate for group in tried.candidates.values() for candidate in group], learned, notices, whole,
            bool(tried.listed),
        )  # fmt: skip

    def tried(self, known: Sequence[Deployment], protocols: Sequence[str]) -> Tried:
        """Where the run looked, told by the package's own lists (``known``) and what the file adds to them."""
        deployments = list(known) if self.listed else []
        for learned in self.contracts:
            for at, item in enumerate(deployments):
                if (item.protocol, item.label) == (learned.protocol, learned.label):
                    deployments[at] = with_contract(item, learned.role, learned.address)
        named = {name: [item for item in self.candidates if item.protocol == name] for name in protocols}
        return Tried(named, deployments, known if self.listed else ())

    def encode(self) -> bytes:
        """The file's bytes: the same for the same evidence, in whatever order it was read."""
        head = _Head(
            version=1, network_id=self.network_id, ledger=self.ledger, close_time=self.close_time, whole=self.whole,
            listed=self.listed, candidates=list(self.candidates), contracts=list(self.contracts),
            notices=list(self.notices),
        )  # fmt: skip
        entries = [
            _Entry(key) if raw is None else _Entry(key, raw.data, raw.last_modified, raw.live_until)
            for key, raw in sorted(self.entries.items())
        ]
        calls = [
            _Call(call.contract, call.function, list(map(encode_scval, call.arguments)), answer.result, answer.error)
            for call, answer in self.calls.items()
        ]
        calls.sort(key=lambda call: (call.contract, call.function, call.arguments))
        lines = b"".join(msgspec.json.encode(line) + b"\n" for line in (head, *entries, *calls))
        compressed: bytes = pa.Codec("zstd", compression_level=9).compress(lines, asbytes=True)
        return compressed

    @classmethod
    def decode(cls, content: bytes, name: str) -> Evidence:
        """Take a file's content apart. Raises `SnapshotFileError` that names the file and what is wrong with it."""
        try:
            return cls._decode(content)
        except (DecodeError, msgspec.DecodeError, pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise SnapshotFileError(f"evidence {name}: {error}") from None

    @classmethod
    def _decode(cls, content: bytes) -> Evidence:
        head: _Head | None = None
        entries: dict[bytes, RawEntry | None] = {}
        calls: dict[ContractCall, SimulationAnswer] = {}
        decoder = msgspec.json.Decoder(_Head | _Entry | _Call)
        for text in _lines(content):
            line = decoder.decode(text)
            if isinstance(line, _Head) is not (head is None) or (head is not None and head.version != 1):
                raise DecodeError("it must begin with what it is of, once, in version 1")
            if isinstance(line, _Head):
                head = line
                continue
            assert head is not None  # the first line
            if isinstance(line, _Entry):
                twice = line.key in entries
                raw = None if line.data is None else RawEntry(line.data, line.last_modified, line.live_until)
                if raw is not None and raw.last_modified > head.ledger:
                    raise DecodeError(f"an entry changed at {raw.last_modified}, after ledger {head.ledger}")
                entries[line.key] = raw
            else:
                call = ContractCall(line.contract, line.function, tuple(map(decode_scval, line.arguments)))
                twice = call in calls
                if (line.result is None) is (line.error is None):
                    raise DecodeError(f"{line.function} of {line.contract} must have a result or an error")
                calls[call] = SimulationAnswer(head.ledger, line.result, line.error, (), "evidence")
            if twice:
                raise DecodeError("an entry or a call stands in it twice")
        if head is None:
            raise DecodeError("it is empty")
        return cls(
            head.network_id, head.ledger, head.close_time, entries, calls, head.candidates, head.contracts,
            head.notices, head.whole, head.listed,
        )  # fmt: skip


@dataclass(slots=True)
class EvidenceSource:
    """A `LedgerSource` over evidence: what the run used is answered, and nothing else is."""

    evidence: Evidence
    label: str = "evidence"

    async def tip(self) -> int:
        return self.evidence.ledger

    async def read_entries(self, keys: Sequence[bytes]) -> list[EntriesAnswer]:
        """Raises `SourceError` for a key that the run did not use."""
        known, answers = self.evidence.entries, []
        for key in keys:
            if key not in known:
                raise SourceError(
                    f"the {self.label} does not tell of the entry {key.hex()[:120]}: this version of the exporter "
                    "reads other entries than the one that made it"
                )
        for start in range(0, len(keys), MAX_KEYS_PER_REQUEST):
            asked = tuple(keys[start : start + MAX_KEYS_PER_REQUEST])
            found = {key: raw for key in asked if (raw := known[key]) is not None}
            answers.append(EntriesAnswer(self.evidence.ledger, asked, found, self.label))
        return answers

    async def simulate(self, call: ContractCall) -> SimulationAnswer:
        """Raises `SourceError` for a call that the run did not make."""
        answer = self.evidence.calls.get(call)
        if answer is None:
            raise SourceError(
                f"the {self.label} does not tell what {call.function} of {call.contract} gives: this version of the "
                "exporter makes other calls than the one that made it"
            )
        return answer

    async def close_time(self, ledger: int) -> int:
        """The close time of the ledger that it is of. Raises `SourceError` for any other."""
        if ledger != self.evidence.ledger:
            raise SourceError(f"the {self.label} is of ledger {self.evidence.ledger}, not of {ledger}")
        return self.evidence.close_time


def _lines(content: bytes) -> list[bytes]:
    with pa.input_stream(pa.py_buffer(content), compression="zstd") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DecodeError(f"it has more than {MAX_BYTES:,} bytes when decompressed")
    return io.BytesIO(data).readlines()
