"""A census: what every contract of a state is, by its code and by the names in its storage (docs/discovery.md)."""

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
from exporter.protocols.protocol import Protocol


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


def classify_all(
    protocols: Mapping[str, Protocol],
    deployments: Sequence[Deployment],
    entries: Iterable[bytes],
    instances: Iterable[tuple[str, ContractInstance]],
) -> CensusTaken:
    """The census of all contract data (LedgerEntryData XDR) and instances; memory grows with contracts, not entries."""
    names_of_markets = {name: protocol.discovery.storage_names for name, protocol in protocols.items()}
    forms: list[tuple[Kind, str | None, Set[str | int]]] = [
        *((Kind.KNOWN_STORAGE, name, form) for name, form in names_of_markets.items() if form),
        (Kind.LENDING_SHAPED, None, set(range(len(LENDING_WORDS)))),
        *((Kind.ORACLE, None, form) for form in _ORACLE),
        *((Kind.TOKEN, None, form) for form in _TOKEN),
    ]
    names = frozenset().union(*(form for _, _, form in forms))

    @lru_cache(maxsize=1 << 14)
    def marks_of(text: bytes) -> frozenset[str | int]:
        name = text.decode("ascii")
        words = [word.lower() for word in _WORD.findall(name)]  # the same of TotalBorrowed and total_borrowed
        groups = [at for at, first in enumerate(LENDING_WORDS) if any(word.startswith(first) for word in words)]
        return frozenset([*groups, *([name] if name in names else [])])

    seen: defaultdict[bytes, set[str | int]] = defaultdict(set)
    for data in entries:
        for length, text in _SYMBOL.findall(data):
            if len(text) == length[0] and (marks := marks_of(text)):
                seen[data[12:44]] |= marks
    bare = [(address, instance._replace(storage=None)) for address, instance in instances]
    code = market_code(protocols, deployments, bare)
    counts, lending, codes = Counter[Kind](), list[Found](), set[bytes]()
    for address, instance in bare:
        kind, protocol = Kind.KNOWN_CODE, code.get(instance.wasm_hash or b"")
        if protocol is None:
            found = seen.get(strkey.decode(address)[1], set())
            shapes = ((kind, name) for kind, name, form in forms if form <= found)
            is_asset = instance.executable == STELLAR_ASSET
            kind, protocol = (Kind.TOKEN, None) if is_asset else next(shapes, (Kind.OTHER, None))
        counts[kind] += 1
        if instance.wasm_hash is not None:
            codes.add(instance.wasm_hash)
        if kind in LENDING:
            lending.append(Found(address, kind, protocol, instance.wasm_hash))
    return CensusTaken({kind: counts[kind] for kind in Kind}, len(codes), sorted(lending))
