"""A census: what every contract of a whole state is, by its code and by the names in its storage.

Names are the symbols in a contract's keys and values: struct fields, enum variants, keys. A contract whose storage has
no names (keys that are numbers, for example) is known by its code alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from exporter.deployments import Deployment
from exporter.discovery.candidates import market_code
from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval import STELLAR_ASSET, ContractInstance
from exporter.protocols.base import ProtocolModule


class Kind(StrEnum):
    """The kind of a contract; the first that applies."""

    KNOWN_CODE = "known_code"
    """It has the code of a known protocol's markets."""
    KNOWN_STORAGE = "known_storage"
    """Its storage has the names of a known protocol's markets; its code is unknown."""
    LENDING_SHAPED = "lending_shaped"
    """Its storage has a word of each of `LENDING_WORDS`."""
    ORACLE = "oracle"
    TOKEN = "token"
    OTHER = "other"


LENDING: Final = (Kind.KNOWN_CODE, Kind.KNOWN_STORAGE, Kind.LENDING_SHAPED)

LENDING_WORDS: Final = (
    ("suppl", "deposit", "collateral", "lend", "lent", "balance", "liquidity"),
    ("borrow", "debt", "loan", "liabilit", "liquidat"),
    ("interest", "accru", "util", "index"),
)
"""Supply, debt and growth: a lending contract has names with words that begin like these."""

_ORACLE: Final = frozenset({"assets", "base", "decimals", "timestamp"}), frozenset({"assets", "decimals", "resolution"})
_TOKEN: Final = (
    frozenset({"METADATA", "decimal", "symbol"}),
    frozenset({"decimals", "name", "symbol", "Balance"}),
    frozenset({"Metadata", "name", "symbol", "Balance"}),
)

_SYMBOL: Final = re.compile(rb"\0\0\0\x0f\0\0\0([\x01-\x20])([A-Za-z0-9_]{1,32})")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Found(NamedTuple):
    """A contract of the census. ``wasm_hash`` is None where no wasm code of its own runs."""

    address: str
    kind: Kind
    protocol: str | None
    wasm_hash: bytes | None


@dataclass(frozen=True, slots=True)
class CensusTaken:
    """How many contracts are of each kind, how many wasm codes they run, and the contracts of `LENDING`."""

    counts: Mapping[Kind, int]
    codes: int
    lending: Sequence[Found]


class Classifier:
    """Decides what contracts are. Memory grows with the contracts of a state, not with their entries."""

    def __init__(self, modules: Mapping[str, ProtocolModule], deployments: Iterable[Deployment]) -> None:
        self._modules, self._deployments = modules, list(deployments)
        self._code: dict[bytes, str] = {}
        self._forms = {name: module.market_names for name, module in modules.items() if module.market_names}
        self._names = frozenset().union(*self._forms.values(), *_ORACLE, *_TOKEN)
        self._marks_of = lru_cache(maxsize=1 << 14)(self._marks_of_name)

    def take(self, entries: Iterable[bytes], instances: Iterable[tuple[str, ContractInstance]]) -> CensusTaken:
        """Take the census of a state, of the LedgerEntryData XDR of all contract data, and each contract's instance."""
        seen: defaultdict[bytes, set[str | int]] = defaultdict(set)
        for data in entries:
            for length, text in _SYMBOL.findall(data):
                if len(text) == length[0] and (marks := self._marks_of(text)):
                    seen[data[12:44]] |= marks
        counts, lending, codes = Counter[Kind](), list[Found](), set[bytes]()
        bare = [(address, instance._replace(storage=None)) for address, instance in instances]
        self._code = market_code(self._modules, self._deployments, bare)
        for address, instance in bare:
            found = self.classify(address, instance, seen.get(strkey.decode(address)[1], set()))
            counts[found.kind] += 1
            if found.wasm_hash is not None:
                codes.add(found.wasm_hash)
            if found.kind in LENDING:
                lending.append(found)
        return CensusTaken({kind: counts[kind] for kind in Kind}, len(codes), sorted(lending))

    def classify(self, address: str, instance: ContractInstance, marks: Set[str | int]) -> Found:
        """The kind of a contract whose storage has these names and groups of words."""
        wasm_hash = instance.wasm_hash
        protocol = self._code.get(wasm_hash or b"")
        if protocol is not None:
            return Found(address, Kind.KNOWN_CODE, protocol, wasm_hash)
        if instance.executable == STELLAR_ASSET:
            return Found(address, Kind.TOKEN, None, None)
        for name, form in self._forms.items():
            if form <= marks:
                return Found(address, Kind.KNOWN_STORAGE, name, wasm_hash)
        kind = Kind.OTHER
        if set(range(len(LENDING_WORDS))) <= marks:
            kind = Kind.LENDING_SHAPED
        elif any(form <= marks for form in _ORACLE):
            kind = Kind.ORACLE
        elif any(form <= marks for form in _TOKEN):
            kind = Kind.TOKEN
        return Found(address, kind, None, wasm_hash)

    def _marks_of_name(self, text: bytes) -> frozenset[str | int]:
        name = text.decode("ascii")
        words = [word.lower() for word in _WORD.findall(name)]  # the same of TotalBorrowed and total_borrowed
        groups = [at for at, first in enumerate(LENDING_WORDS) if any(word.startswith(first) for word in words)]
        return frozenset([*groups, *([name] if name in self._names else [])])
