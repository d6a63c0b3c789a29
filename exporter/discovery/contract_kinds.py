"""Takes a census: says what every contract of a state is, by its code and the names in its storage.

docs/discovery.md has what a census is for.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from exporter.deployments import Deployment
from exporter.discovery.candidates import market_code
from exporter.ledger.codec import strkey
from exporter.ledger.codec.scval import STELLAR_ASSET, ContractInstance
from exporter.protocols.protocol import Protocol


class ContractKind(StrEnum):
    """The kind of a contract. If several apply, it is the first of them."""

    KNOWN_CODE = "known_code"
    """The contract has the code of a known protocol's markets."""
    KNOWN_STORAGE = "known_storage"
    """The contract's code is unknown, but its storage has the names of a known protocol's markets."""
    LENDING_SHAPED = "lending_shaped"
    """The contract's storage has names with a word of each group of `LENDING_WORDS`."""
    ORACLE = "oracle"
    TOKEN = "token"
    OTHER = "other"


LENDING: Final = (ContractKind.KNOWN_CODE, ContractKind.KNOWN_STORAGE, ContractKind.LENDING_SHAPED)

LENDING_WORDS: Final = (
    ("suppl", "deposit", "collateral", "lend", "lent", "balance", "liquidity"),
    ("borrow", "debt", "loan", "liabilit", "liquidat"),
    ("interest", "accru", "util", "index"),
)
"""How words begin that are about supply, about debt, and about growth. A lending contract has names with all three."""

_ORACLE: Final = frozenset({"assets", "base", "decimals", "timestamp"}), frozenset({"assets", "decimals", "resolution"})
_TOKEN: Final = (
    frozenset({"METADATA", "decimal", "symbol"}),
    frozenset({"decimals", "name", "symbol", "Balance"}),
    frozenset({"Metadata", "name", "symbol", "Balance"}),
)

_SYMBOL: Final = re.compile(rb"\0\0\0\x0f\0\0\0([\x01-\x20])([A-Za-z0-9_]{1,32})")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class CountedContract(NamedTuple):
    """A contract of the census. ``wasm_hash`` is None if it runs no wasm code of its own."""

    address: str
    kind: ContractKind
    protocol: str | None
    wasm_hash: bytes | None


class CensusTaken(Struct, frozen=True):
    """How many contracts are of each kind, how many wasm codes they run, and the contracts whose kind is `LENDING`."""

    counts: Mapping[ContractKind, int]
    codes: int
    lending: Sequence[CountedContract]


def classify_all(
    protocols: Mapping[str, Protocol],
    deployments: Sequence[Deployment],
    entries: Iterable[bytes],
    instances: Iterable[tuple[str, ContractInstance]],
) -> CensusTaken:
    """The census of a state: all its contract data ``entries`` (LedgerEntryData XDR), and all contract ``instances``.

    Memory grows with the number of contracts, not of entries.
    """
    forms = _forms(protocols)
    marks_by_contract = _marks_by_contract(entries, frozenset().union(*(form.marks for form in forms)))
    bare = [(address, instance._replace(storage=None)) for address, instance in instances]
    code = market_code(protocols, deployments, bare)
    counts, lending, codes = Counter[ContractKind](), list[CountedContract](), set[bytes]()
    for address, instance in bare:
        kind, protocol = ContractKind.KNOWN_CODE, code.get(instance.wasm_hash or b"")
        if protocol is None:
            own_marks = marks_by_contract.get(strkey.decode(address)[1], set())
            shapes = ((form.kind, form.protocol) for form in forms if form.marks <= own_marks)
            is_asset = instance.executable == STELLAR_ASSET
            kind, protocol = (ContractKind.TOKEN, None) if is_asset else next(shapes, (ContractKind.OTHER, None))
        counts[kind] += 1
        if instance.wasm_hash is not None:
            codes.add(instance.wasm_hash)
        if kind in LENDING:
            lending.append(CountedContract(address, kind, protocol, instance.wasm_hash))
    return CensusTaken({kind: counts[kind] for kind in ContractKind}, len(codes), sorted(lending))


class _Form(NamedTuple):
    """A kind of contract that shows in its storage, which then has all these marks.

    A mark is a name, or the index of a group of `LENDING_WORDS`.
    """

    kind: ContractKind
    protocol: str | None
    marks: Set[str | int]


def _forms(protocols: Mapping[str, Protocol]) -> list[_Form]:
    """The forms of contracts, in the order in which they are tried."""
    names_of_markets = {name: protocol.discovery.storage_names for name, protocol in protocols.items()}
    return [
        *(_Form(ContractKind.KNOWN_STORAGE, name, marks) for name, marks in names_of_markets.items() if marks),
        _Form(ContractKind.LENDING_SHAPED, None, set(range(len(LENDING_WORDS)))),
        *(_Form(ContractKind.ORACLE, None, marks) for marks in _ORACLE),
        *(_Form(ContractKind.TOKEN, None, marks) for marks in _TOKEN),
    ]


def _marks_by_contract(entries: Iterable[bytes], names: Set[str | int]) -> Mapping[bytes, set[str | int]]:
    """The marks in the storage of each contract, keyed by the contract's hash. Only these ``names`` are marks."""

    @lru_cache(maxsize=1 << 14)
    def marks_of(text: bytes) -> frozenset[str | int]:
        name = text.decode("ascii")
        words = [word.lower() for word in _WORD.findall(name)]  # TotalBorrowed and total_borrowed have the same words
        marks: set[str | int] = {
            group for group, starts in enumerate(LENDING_WORDS) if any(word.startswith(starts) for word in words)
        }
        if name in names:
            marks.add(name)
        return frozenset(marks)

    marks_by_contract: defaultdict[bytes, set[str | int]] = defaultdict(set)
    for data in entries:
        for length, text in _SYMBOL.findall(data):
            if len(text) == length[0] and (marks := marks_of(text)):
                marks_by_contract[data[12:44]] |= marks
    return marks_by_contract
