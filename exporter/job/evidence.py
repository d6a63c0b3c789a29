"""The evidence of a run: everything that its numbers come from, as one file (docs/proofs.md, "The entries file")."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from exporter.bounds import EVIDENCE_BYTES, EVIDENCE_LINE_BYTES, gzip_lines
from exporter.deployments import Deployment
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_id
from exporter.discovery.candidates import listings_of
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import DecodeError, SnapshotFileError, SourceError
from exporter.job.evidence_lines import (
    AbsentLine,
    CallLine,
    CandidateLine,
    ContractLine,
    EntryLine,
    ExcludedLine,
    LedgerLine,
    Line,
    LookedLine,
    NoticeLine,
    SkippedLine,
    decode_line,
)
from exporter.job.search_scope import SearchScope
from exporter.ledger.codec.entries import ARCHIVED
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.source import ContractCall, RawEntry, SimulationAnswer
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, with_contract
from exporter.tree.documents import SkippedMarket
from exporter.tree.families import EVIDENCE
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.values import SkipReason

MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file, and so of evidence. A ledger snapshot file begins with a brace instead."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

COMPRESSION_LEVEL = 6
"""Level of gzip compression. Level 9 takes five times as long for 6 % less."""


# The repr has no fields, because `asyncio.run` makes that of its result: here it would be as large as the network.
class Evidence(Struct, frozen=True):
    """The entries and calls that the numbers of a run follow from.

    Attributes:
        passphrase: the network's passphrase.
        ledger: the number of the ledger that was read.
        close_time: its close time, in unix seconds.
        entries: the ledger entries by key. A key without an entry was absent.
        calls: the results of contract calls; each has a result (ScVal XDR) or an error.
        candidates: the addresses that should be markets or pools.
        contracts: the contracts of deployments that only the chain names.
        notices: what the operator was told of the reading.
        has_all_contracts: whether the source had every contract of the ledger.
        lists_compared: whether the package's lists were compared with the chain.
        stored: calls were not run; their results were derived from entries.
        skipped: the markets that the run did not read, or not to the end. A repeated run skips them, too.
        excluded: what the configuration excluded. A repeated run excludes it, too.
    """

    passphrase: str
    ledger: int
    close_time: int
    entries: Mapping[bytes, RawEntry | None]
    calls: Mapping[ContractCall, SimulationAnswer]
    candidates: Sequence[Candidate]
    contracts: Sequence[LearnedContract] = ()
    notices: Sequence[str] = ()
    has_all_contracts: bool = True
    lists_compared: bool = True
    stored: bool = False
    skipped: Sequence[SkippedMarket] = ()
    excluded: Sequence[str] = ()

    __repr__ = object.__repr__

    def scope(self, package_lists: Sequence[Deployment]) -> SearchScope:
        """Where the run looked: the package's lists, and what the evidence adds to them."""
        compared_lists = package_lists if self.lists_compared else ()
        deployments = list(compared_lists)
        for learned in self.contracts:
            for index, deployment in enumerate(deployments):
                if (deployment.protocol, deployment.label) == (learned.protocol, learned.label):
                    deployments[index] = with_contract(deployment, learned.role, learned.address)
        return SearchScope(
            candidates={name: [item for item in self.candidates if item.protocol == name] for name in PROTOCOLS},
            deployments=deployments,
            compared_lists=compared_lists,
            listings=self.listings(package_lists),
            excluded=frozenset(self.excluded),
            skipped=self.skipped,
        )

    def listings(self, package_lists: Iterable[Deployment]) -> MarketListings:
        """Says which markets are listed, by the package's lists and by what the evidence records as configured."""
        return listings_of(package_lists, self.candidates)

    @property
    def network_id(self) -> str:
        return network_id(self.passphrase)

    def encode(self) -> bytes:
        """The bytes of the evidence's file. They do not depend on the order in which the run read."""
        content = io.BytesIO()
        packed = gzip.GzipFile("", "wb", COMPRESSION_LEVEL, content, mtime=0)
        with io.BufferedWriter(packed, 1 << 16) as lines:
            lines.writelines(msgspec.json.encode(line) + b"\n" for line in self._lines())
        return content.getvalue()

    def file(self) -> RenderedFile:
        """The evidence as a file of the tree, whose key has the digest of its bytes."""
        content = self.encode()
        return RenderedFile(EVIDENCE.key(sha256=hashlib.sha256(content).hexdigest()), content, FileKind.PAGE)

    def _lines(self) -> Iterator[Line]:
        yield LedgerLine(self.passphrase, self.ledger, self.close_time)
        yield LookedLine(self.has_all_contracts, self.lists_compared, self.stored)
        for c in self.candidates:
            yield CandidateLine(c.protocol, c.address, c.origin, c.pool, c.voucher)
        for item in self.contracts:
            yield ContractLine(item.protocol, item.label, item.role, item.address)
        for skipped in self.skipped:
            yield SkippedLine(skipped.protocol, skipped.market, SkipReason(skipped.reason))
        yield from map(ExcludedLine, self.excluded)
        yield from map(NoticeLine, self.notices)
        for key in sorted(self.entries):
            raw = self.entries[key]
            if raw is None:
                yield AbsentLine(key)
            else:
                yield EntryLine(key, raw.last_modified, ARCHIVED if raw.live_until == ARCHIVED else None, raw.data)
        calls = [
            CallLine(call.contract, call.function, [*map(encode_scval, call.arguments)], answer.result, answer.error)
            for call, answer in self.calls.items()
        ]
        yield from sorted(calls, key=lambda call: (call.contract, call.function, call.arguments))

    @classmethod
    def decode(cls, content: bytes, name: str) -> Evidence:
        """The evidence in a file's content. Raises `SnapshotFileError`, which has the file's ``name``."""
        try:
            return cls._decode(gzip_lines(content, EVIDENCE_BYTES, EVIDENCE_LINE_BYTES))
        except (DecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SnapshotFileError(f"evidence {name}: {error}") from None

    @classmethod
    def _decode(cls, content: Iterator[bytes]) -> Evidence:
        lines = map(decode_line, content)
        first, looked = next(lines, None), next(lines, None)
        if not isinstance(first, LedgerLine) or not isinstance(looked, LookedLine):
            raise DecodeError("it must start with its ledger and the addresses searched")
        entries: dict[bytes, RawEntry | None] = {}
        calls: dict[ContractCall, SimulationAnswer] = {}
        candidates, contracts, notices = list[Candidate](), list[LearnedContract](), list[str]()
        skipped, excluded = list[SkippedMarket](), list[str]()
        for line in lines:
            match line:
                case EntryLine():
                    if line.last_modified > first.ledger:
                        raise DecodeError(f"an entry changed at {line.last_modified}, after ledger {first.ledger}")
                    _add_once(entries, line.key, RawEntry(line.data, line.last_modified, line.archived))
                case AbsentLine():
                    _add_once(entries, line.key, None)
                case CallLine():
                    if (line.result is None) is (line.error is None):
                        raise DecodeError(f"{line.function} of {line.contract} must have a result or an error")
                    call = ContractCall(line.contract, line.function, tuple(map(decode_scval, line.arguments)))
                    _add_once(calls, call, SimulationAnswer(first.ledger, line.result, line.error, (), "evidence"))
                case CandidateLine():
                    candidates.append(Candidate(line.protocol, line.address, line.origin, line.pool, line.voucher))
                case SkippedLine():
                    skipped.append(SkippedMarket(line.market, line.protocol, line.reason))
                case ExcludedLine():
                    excluded.append(line.address)
                case ContractLine():
                    contracts.append(
                        LearnedContract(protocol=line.protocol, label=line.label, role=line.role, address=line.address)
                    )
                case NoticeLine():
                    notices.append(line.text)
                case LedgerLine() | LookedLine():
                    raise DecodeError("it is of more than one ledger")
        return cls(
            first.passphrase,
            first.ledger,
            first.close_time,
            entries,
            calls,
            candidates,
            contracts,
            notices,
            has_all_contracts=looked.has_all_contracts,
            lists_compared=looked.lists_compared,
            stored=looked.stored,
            skipped=skipped,
            excluded=excluded,
        )


def _add_once(values: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if key in values:
        raise DecodeError("an entry or a call is listed twice")
    values[key] = value


class EvidenceSource(StoredSource):
    """A `LedgerSource` that answers from evidence. It raises `SourceError` for anything that the run did not use."""

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
