"""The evidence of a run: everything that its numbers come from, as one file (docs/proofs.md, "The entries file")."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from exporter.bounds import EVIDENCE_BYTES, EVIDENCE_LINE_BYTES, gzip_lines
from exporter.deployments import MARKET, Deployment
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_id
from exporter.discovery.candidates import listings_of
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import DecodeError, SnapshotFileError, SourceError
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
"""How gzip begins; a ledger snapshot file begins with a brace."""

COMPRESSION = 6
"""Of gzip. 9 takes five times as long for 6 % less."""

_U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]


_FIELDS: dict[str, Any] = {
    "ledger": tuple[str, _U32, Annotated[int, Meta(ge=1, le=LATEST_CLOSE_TIME)]],
    "looked": tuple[bool, bool, bool],
    "candidate": tuple[str, str, Origin, str | None, str | None],
    "contract": tuple[str, str, str, str],
    "skipped": tuple[str, str, SkipReason],
    "excluded": tuple[str],
    "notice": tuple[str],
    "entry": tuple[bytes, _U32, Literal[0] | None, bytes, _U32 | None],
    "absent": tuple[bytes],
    "call": tuple[str, str, list[bytes], bytes | None, str | None],
}
"""A line is an array of a word and these fields; `Evidence._lines` writes them.

The third of an entry is 0 for an archived one: a life that goes on may have been prolonged between ledger and reading.
"""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where a run looked.

    ``deployments`` are those of the package's lists with what the chain taught; ``compared_lists`` those of the lists
    that the run compares with the chain, none where it does not. ``listings`` say which markets are listed.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    deployments: Sequence[Deployment]
    compared_lists: Sequence[Deployment]
    listings: MarketListings
    excluded: frozenset[str] = frozenset()
    skipped: Sequence[SkippedMarket] = ()

    def without(self, excluded: Iterable[str]) -> SearchScope:
        """The same but for markets that are excluded, which are skipped."""
        out = frozenset(excluded)
        kept, skipped = dict[str, Sequence[Candidate]](), dict[tuple[str, str], SkippedMarket]()
        for name, own in self.candidates.items():
            kept[name] = [item for item in own if item.address not in out]
            for item in own:
                if item.address in out:
                    skipped[name, item.address] = SkippedMarket(item.address, name, SkipReason.EXCLUDED)
        return replace(self, candidates=kept, excluded=out, skipped=[*self.skipped, *skipped.values()])

    def takes(self, candidate: Candidate) -> bool:
        """Whether a market that something names is neither excluded, nor given as skipped."""
        given = {(item.protocol, item.market) for item in self.skipped}
        return candidate.address not in self.excluded and (candidate.protocol, candidate.address) not in given

    def listed_alone(self) -> SearchScope:
        """Where the run looked for listed markets; of the lists, unlisted markets are not compared with the chain."""
        listed = {
            name: [item for item in own if self.listings.is_listed(name, item.address)]
            for name, own in self.candidates.items()
        }
        lists = [
            replace(item, contracts=tuple(each for each in item.contracts if each.role != MARKET or each.listed))
            for item in self.compared_lists
        ]
        return replace(self, candidates=listed, compared_lists=lists)

    def others(self) -> list[Candidate]:
        """The candidates that are not listed."""
        return [
            item
            for name, own in self.candidates.items()
            for item in own
            if not self.listings.is_listed(name, item.address)
        ]

    def with_more(self, more: Iterable[Candidate]) -> SearchScope:
        """The same with further candidates."""
        found = {name: list(own) for name, own in self.candidates.items()}
        for item in more:
            found[item.protocol].append(item)
        return replace(self, candidates=found)


# No repr: `asyncio.run` makes that of its result, and this one is of the size of the network.
@dataclass(frozen=True, slots=True, repr=False)
class Evidence:
    """The entries and calls that a run used. A key without entry was absent; a call has a result (ScVal XDR) or error.

    ``contracts`` are those of deployments that only the chain names. ``whole`` says whether the ledger that was read
    had every contract, ``lists_compared`` whether the package's lists were compared with it. With ``stored`` nothing
    was run: what calls gave follows from the entries. ``skipped`` are markets that the run did not read, or not to the
    end, and ``excluded`` what its configuration left alone; a repeated run takes both as given.
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
    lists_compared: bool = True
    stored: bool = False
    skipped: Sequence[SkippedMarket] = ()
    excluded: Sequence[str] = ()

    def tried(self, known: Sequence[Deployment]) -> SearchScope:
        """Where the run looked: the package's own lists (``known``) and what the file adds to them."""
        deployments = list(known) if self.lists_compared else []
        for learned in self.contracts:
            for at, item in enumerate(deployments):
                if (item.protocol, item.label) == (learned.protocol, learned.label):
                    deployments[at] = with_contract(item, learned.role, learned.address)
        named = {name: [item for item in self.candidates if item.protocol == name] for name in PROTOCOLS}
        lists = known if self.lists_compared else ()
        return SearchScope(named, deployments, lists, self.listings(known), frozenset(self.excluded), self.skipped)

    def listings(self, known: Iterable[Deployment]) -> MarketListings:
        """Which markets are listed, by the package's lists (``known``) and what this records as configured."""
        return listings_of(known, self.candidates)

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

    def _lines(self) -> Iterator[tuple[object, ...]]:
        yield "ledger", self.passphrase, self.ledger, self.close_time
        yield "looked", self.whole, self.lists_compared, self.stored
        for c in self.candidates:
            yield "candidate", c.protocol, c.address, c.origin, c.pool, c.voucher
        for item in self.contracts:
            yield "contract", item.protocol, item.label, item.role, item.address
        for skipped in self.skipped:
            yield "skipped", skipped.protocol, skipped.market, skipped.reason
        for place in self.excluded:
            yield "excluded", place
        for text in self.notices:
            yield "notice", text
        for key in sorted(self.entries):
            raw = self.entries[key]
            if raw is None:
                yield "absent", key
            else:
                yield "entry", key, raw.last_modified, 0 if raw.live_until == 0 else None, raw.data, raw.live_until
        calls = [
            ("call", call.contract, call.function, [*map(encode_scval, call.arguments)], answer.result, answer.error)
            for call, answer in self.calls.items()
        ]
        yield from sorted(calls, key=lambda call: call[:4])

    @classmethod
    def decode(cls, content: bytes, name: str) -> Evidence:
        """Take a file's content apart. Raises `SnapshotFileError`."""
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
                    key, last_modified, archived, data, live_until = fields
                    if last_modified > ledger:
                        raise DecodeError(f"an entry changed at {last_modified}, after ledger {ledger}")
                    if (live_until == 0) is (archived is None):
                        raise DecodeError("an entry is both archived and live")
                    _once(entries, key, RawEntry(data, last_modified, live_until))
                case "absent":
                    _once(entries, fields[0], None)
                case "call":
                    contract, function, arguments, result, error = fields
                    if (result is None) is (error is None):
                        raise DecodeError(f"{function} of {contract} must have a result or an error")
                    call = ContractCall(contract, function, tuple(map(decode_scval, arguments)))
                    _once(calls, call, SimulationAnswer(ledger, result, error, (), "evidence"))
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
        found = candidates, contracts, notices, *looked[1], skipped, excluded
        return cls(passphrase, ledger, close_time, entries, calls, *found)


def _fields_of(line: bytes) -> tuple[str, Any]:
    """The word of a line, and its fields. Raises `DecodeError`, `msgspec.DecodeError`."""
    kind, *fields = decode_json(line, list[Any]) or [None]
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise DecodeError(f"a line is of an unknown kind, {str(kind)[:40]!r}")
    return kind, msgspec.convert(fields, _FIELDS[kind])


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
