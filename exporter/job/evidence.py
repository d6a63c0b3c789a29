"""The evidence of a run: everything that its numbers come from, as one file (docs/proofs.md, "The entries file")."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from exporter.bounds import EVIDENCE_BYTES, EVIDENCE_LINE_BYTES, gzip_lines
from exporter.deployments import Deployment
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_id
from exporter.discovery.candidates import listings_of
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import DecodeError, SnapshotFileError, SourceError
from exporter.job.search_scope import SearchScope
from exporter.ledger.codec.entries import ARCHIVED
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.ledger.contract_storage import StoredSource
from exporter.ledger.source import LATEST_CLOSE_TIME, ContractCall, RawEntry, SimulationAnswer
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.base import Candidate, Origin, with_contract
from exporter.tree.decoding import decode_json
from exporter.tree.documents import SkippedMarket
from exporter.tree.families import EVIDENCE
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.values import SkipReason

MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file, and so of evidence. A ledger snapshot file begins with a brace instead."""

COMPRESSION_LEVEL = 6
"""Level of gzip compression. Level 9 takes five times as long for 6 % less."""

_U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]


_FIELDS: dict[str, Any] = {
    "ledger": tuple[str, _U32, Annotated[int, Meta(ge=1, le=LATEST_CLOSE_TIME)]],
    "looked": tuple[bool, bool, bool],
    "candidate": tuple[str, str, Origin, str | None, str | None],
    "contract": tuple[str, str, str, str],
    "skipped": tuple[str, str, SkipReason],
    "excluded": tuple[str],
    "notice": tuple[str],
    "entry": tuple[bytes, _U32, Literal[0] | None, bytes],
    "absent": tuple[bytes],
    "call": tuple[str, str, list[bytes], bytes | None, str | None],
}
"""The kinds of line, and the types of their fields. A line is an array of the kind and the fields (`Evidence._lines`).

The third field of an entry is `ARCHIVED` if it is archived. Of other entries the line does not say until when they
live. Somebody may have extended that between the ledger and the reading, which changes nothing else of the entry, so
two readings of one ledger could differ.
"""


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

    def search_scope(self, package_lists: Sequence[Deployment]) -> SearchScope:
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

    def _lines(self) -> Iterator[tuple[object, ...]]:
        yield "ledger", self.passphrase, self.ledger, self.close_time
        yield "looked", self.has_all_contracts, self.lists_compared, self.stored
        for c in self.candidates:
            yield "candidate", c.protocol, c.address, c.origin, c.pool, c.voucher
        for item in self.contracts:
            yield "contract", item.protocol, item.label, item.role, item.address
        for skipped in self.skipped:
            yield "skipped", skipped.protocol, skipped.market, skipped.reason
        for excluded in self.excluded:
            yield "excluded", excluded
        for text in self.notices:
            yield "notice", text
        for key in sorted(self.entries):
            raw = self.entries[key]
            if raw is None:
                yield "absent", key
            else:
                archived = ARCHIVED if raw.live_until == ARCHIVED else None
                yield "entry", key, raw.last_modified, archived, raw.data
        calls = [
            ("call", call.contract, call.function, [*map(encode_scval, call.arguments)], answer.result, answer.error)
            for call, answer in self.calls.items()
        ]
        yield from sorted(calls, key=lambda call: call[:4])

    @classmethod
    def decode(cls, content: bytes, name: str) -> Evidence:
        """The evidence in a file's content. Raises `SnapshotFileError`, which has the file's ``name``."""
        try:
            return cls._decode(gzip_lines(content, EVIDENCE_BYTES, EVIDENCE_LINE_BYTES))
        except (DecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SnapshotFileError(f"evidence {name}: {error}") from None

    @classmethod
    def _decode(cls, content: Iterator[bytes]) -> Evidence:
        lines = map(_fields_of, content)
        first, looked = next(lines, None), next(lines, None)
        if first is None or looked is None or (first[0], looked[0]) != ("ledger", "looked"):
            raise DecodeError("it must start with its ledger and the addresses searched")
        passphrase, ledger, close_time = first[1]
        entries: dict[bytes, RawEntry | None] = {}
        calls: dict[ContractCall, SimulationAnswer] = {}
        candidates, contracts, notices = list[Candidate](), list[LearnedContract](), list[str]()
        skipped, excluded = list[SkippedMarket](), list[str]()
        for kind, fields in lines:
            match kind:
                case "entry":
                    key, last_modified, archived, data = fields
                    if last_modified > ledger:
                        raise DecodeError(f"an entry changed at {last_modified}, after ledger {ledger}")
                    _add_once(entries, key, RawEntry(data, last_modified, archived))
                case "absent":
                    _add_once(entries, fields[0], None)
                case "call":
                    contract, function, arguments, result, error = fields
                    if (result is None) is (error is None):
                        raise DecodeError(f"{function} of {contract} must have a result or an error")
                    call = ContractCall(contract, function, tuple(map(decode_scval, arguments)))
                    _add_once(calls, call, SimulationAnswer(ledger, result, error, (), "evidence"))
                case "candidate":
                    protocol, address, origin, pool, voucher = fields
                    candidates.append(Candidate(protocol, address, origin, pool, voucher))
                case "skipped":
                    protocol, market, reason = fields
                    skipped.append(SkippedMarket(market, protocol, reason))
                case "excluded":
                    excluded += fields
                case "contract":
                    protocol, label, role, address = fields
                    contracts.append(LearnedContract(protocol=protocol, label=label, role=role, address=address))
                case "notice":
                    notices += fields
                case _:
                    raise DecodeError("it is of more than one ledger")
        has_all_contracts, lists_compared, stored = looked[1]
        return cls(
            passphrase,
            ledger,
            close_time,
            entries,
            calls,
            candidates,
            contracts,
            notices,
            has_all_contracts=has_all_contracts,
            lists_compared=lists_compared,
            stored=stored,
            skipped=skipped,
            excluded=excluded,
        )


def _fields_of(line: bytes) -> tuple[str, Any]:
    """The kind and the fields of a line. Raises `DecodeError` or `msgspec.DecodeError`."""
    kind, *fields = decode_json(line, list[Any]) or [None]
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise DecodeError(f"a line is of an unknown kind, {str(kind)[:40]!r}")
    return kind, msgspec.convert(fields, _FIELDS[kind])


def _add_once(values: dict[Any, Any], key: object, value: object) -> None:
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
