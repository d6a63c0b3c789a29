"""What is known of a tree while it is checked, and everything that is wrong with it.

A pool stands in many pages, in the same bytes in all of them. So a page is taken apart into the bytes of its rows, and
each different row is decoded and judged once; of all other files only what the checks of the whole need is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from exporter.errors import CheckError, counted
from exporter.render.assets_pages import page_bytes
from exporter.tree.documents import HistoryManifest, PoolSnapshot, SystemStatus, encode
from exporter.tree.families import assets_folder
from exporter.tree.run_listing import ManifestOfAnyAge, RunListing
from exporter.tree.values import Cursor

SHOWN_FAULTS = 20
"""How many faults a message lists."""

KEPT_FAULTS = 10_000
"""How many faults are remembered; further ones are only counted."""

MAX_FAULT_CHARACTERS = 400
"""A fault may repeat what a file says, and a file may say anything."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong: the key of the file in which it shows, and what it is."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class TreeFaultsError(CheckError):
    """A tree fails its checks.

    Attributes:
        faults: what is wrong, by key; at most KEPT_FAULTS.
        total: how many faults there are.
    """

    def __init__(self, faults: Sequence[Fault], total: int) -> None:
        shown = [f"  {fault}" for fault in faults[:SHOWN_FAULTS]]
        if total > len(shown):
            shown.append(f"  and {total - len(shown)} more")
        count = "1 fault" if total == 1 else f"{total} faults"
        super().__init__("\n".join((f"the tree fails its checks: {count}", *shown)))
        self.faults = tuple(faults)
        self.total = total


class Faults:
    """Collects faults, each once, within a bound."""

    def __init__(self) -> None:
        self._kept: set[Fault] = set()
        self.total = 0

    def add(self, key: str, text: str) -> None:
        """Note that something is wrong in the file of a key."""
        if len(text) > MAX_FAULT_CHARACTERS:
            text = text[: MAX_FAULT_CHARACTERS - 1] + "…"
        fault = Fault(key, text.replace("\n", " "))
        if fault in self._kept:
            return
        self.total += 1
        if len(self._kept) < KEPT_FAULTS:
            self._kept.add(fault)

    def add_all(self, key: str, texts: Iterable[str]) -> None:
        """Note everything that is wrong in the file of a key."""
        for text in texts:
            self.add(key, text)

    def raise_any(self) -> None:
        """Raise TreeFaultsError if anything is wrong."""
        if self.total:
            raise TreeFaultsError(sorted(self._kept), self.total)


@dataclass(slots=True)
class Looked:
    """How much was looked at. A check that looked at little proves little.

    Attributes:
        complete: False for a sample.
        files: files by kind, and ``bytes`` likewise.
        documents: documents by the name of their model.
        validated: documents that were also held against the schemas of the tree's OpenAPI document.
        pools: different pools.
        rows: pool snapshots in all pages, each as often as it stands there.
        walks: walks from a first page to the end of its filter.
        links: cursors, references and links that were followed to a file.
        requests: public URLs that were asked for, beside the files themselves.
    """

    run_id: str = ""
    ledger: int = 0
    complete: bool = True
    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    validated: int = 0
    markets: int = 0
    pools: int = 0
    rows: int = 0
    walks: int = 0
    links: int = 0
    history_files: int = 0
    history_rows: int = 0
    requests: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a report."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(sorted(it.items())) if isinstance(it, Counter) else it for name, it in values.items()}

    def lines(self) -> list[str]:
        """The same for people."""
        kinds = ", ".join(
            f"{count:,} {kind} ({counted(self.bytes[kind], 'byte')})" for kind, count in sorted(self.files.items())
        )
        models = ", ".join(f"{count:,} {name}" for name, count in sorted(self.documents.items()))
        lines = [
            f"run {self.run_id} at ledger {self.ledger}" + ("" if self.complete else ", a sample of it"),
            f"files: {kinds}",
            f"documents: {models}",
            f"{counted(self.pools, 'pool')} of {counted(self.markets, 'market')}, "
            f"in {counted(self.rows, 'row')} of pages",
            f"{counted(self.walks, 'walk')} from a first page to the end, {counted(self.links, 'link')} followed",
            f"history: {counted(self.history_files, 'file')} with {counted(self.history_rows, 'row')}",
        ]
        if self.validated:
            lines.append(f"{counted(self.validated, 'document')} validated against the tree's own OpenAPI document")
        if self.requests:
            lines.append(f"{counted(self.requests, 'public URL')} asked for")
        return lines


BPS = 10_000

MAX_DIGITS = 100
"""Of an amount or a price: those of contracts have 39, and Python refuses to convert more than 4,300 at once."""

MAX_EXPONENT = 1_000
"""No token has so many decimals; the value of one that says so is not computed."""


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An assets page whose rows are not decoded."""

    data: list[msgspec.Raw]
    next_cursor: Cursor | None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ROW = msgspec.json.Decoder(PoolSnapshot)


class Page(msgspec.Struct, frozen=True, gc=False):
    """A page: its rows as positions in a `RowTable`, and the token of the page after it."""

    rows: tuple[int, ...]
    next_cursor: str | None


class RowTable:
    """Every different row of a tree: its snapshot, and the file in which it was met first."""

    def __init__(self) -> None:
        self._positions: dict[bytes, int] = {}
        self.snapshots: list[PoolSnapshot] = []
        self.first_keys: list[str] = []

    def read_page(self, key: str, data: bytes) -> Page:
        """Take a page apart.

        Raises:
            CheckError: it is not an assets page in canonical form; the message does not name the key.
        """
        try:
            envelope = _ENVELOPE.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CheckError(f"does not decode as AssetsPage: {error}") from error
        rows = [bytes(raw) for raw in envelope.data]
        if page_bytes(b",".join(rows), envelope.next_cursor) != data:
            raise CheckError("not in canonical form: compact, every field once and in the model's order")
        positions = self._positions
        return Page(
            tuple(
                [
                    found if (found := positions.get(row)) is not None else self._enter(key, index, row)
                    for index, row in enumerate(rows)
                ]
            ),
            envelope.next_cursor,
        )

    def name(self, position: int) -> str:
        """A row as messages name it: its market and pool."""
        snapshot = self.snapshots[position]
        return f"{snapshot.market} {snapshot.pool}"

    def _enter(self, key: str, index: int, row: bytes) -> int:
        try:
            snapshot = _ROW.decode(row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CheckError(f"$.data[{index}] does not decode as PoolSnapshot: {error}") from error
        if encode(snapshot) != row:
            raise CheckError(f"$.data[{index}] is not in canonical form")
        position = self._positions[row] = len(self.snapshots)
        self.snapshots.append(snapshot)
        self.first_keys.append(key)
        return position


def number(digits: str | None) -> int:
    """The integer of an amount; 0 for null, and for one longer than any number of a contract (`contradictions`)."""
    return 0 if digits is None or len(digits) > MAX_DIGITS else int(digits)


def contradictions(row: PoolSnapshot) -> Iterator[str]:
    """What a snapshot says against itself: fields that follow from others by the definitions of the API."""
    for name in ("total_supplied", "total_borrowed", "tvl_usd_cents", "oracle_price_usd"):
        if len(getattr(row, name) or "") > MAX_DIGITS:
            yield f"{name} has more than {MAX_DIGITS} characters"
            return
    supplied, borrowed = number(row.total_supplied), number(row.total_borrowed)
    utilization = borrowed * BPS // supplied if supplied else 0
    if row.utilization_bps != utilization:
        yield f"utilization_bps is {row.utilization_bps}, but its totals give {utilization}"
    if (row.oracle_price_usd is None) != (row.tvl_usd_cents is None):
        yield "oracle_price_usd and tvl_usd_cents must be null together"
    elif row.oracle_price_usd is not None and row.tvl_usd_cents is not None:
        least = value_in_cents(supplied, row.oracle_price_usd, row.decimals)
        if int(row.tvl_usd_cents) < least:
            yield f"tvl_usd_cents is {row.tvl_usd_cents}, but what is supplied alone is worth {least}"


def value_in_cents(amount: int, price: str, decimals: int) -> int:
    """What an amount in base units is worth at a printed price: floor(amount * price * 100 / 10^decimals)."""
    whole, _, fraction = price.partition(".")
    exponent = decimals + len(fraction)
    if len(price) > MAX_DIGITS or exponent > MAX_EXPONENT:
        return 0
    return int(amount * int(whole + fraction) * 100 // 10**exponent)


class Seen(Struct, frozen=True, gc=False):
    """A file that was added: its size and digest. There are very many, so the garbage collector passes them over."""

    bytes: int
    sha256: str


@dataclass(slots=True)
class Whole:
    """A tree, reduced to what its checks need.

    ``heads`` are the first pages by folder and name (``index``, ``limit/20``), ``pages`` the immutable ones by token,
    ``documents`` what is kept of all others by model and key. With ``partial`` files may be missing that the run's
    manifest lists, because only a sample is looked at; with ``own_files_only`` the history that earlier runs left.
    """

    partial: bool = False
    own_files_only: bool = False
    faults: Faults = field(default_factory=Faults)
    looked: Looked = field(default_factory=Looked)
    table: RowTable = field(default_factory=RowTable)
    seen: dict[str, Seen] = field(default_factory=dict)
    heads: dict[str, dict[str, Page]] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    documents: dict[type, dict[str, Any]] = field(default_factory=dict)
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The links of web pages, by key."""
    status: SystemStatus | None = None
    manifests: dict[str, ManifestOfAnyAge] = field(default_factory=dict)
    listings: dict[str, RunListing] = field(default_factory=dict)
    """The files that runs list, by the key of the file that lists them."""
    history: HistoryManifest | None = None

    listing: tuple[int, ...] = ()
    """All pools of the run, in order, as rows of the table; found by the walks."""
    by_folder: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The pools of each filter, by the folder of its first pages."""

    by_name: dict[tuple[str, str], PoolSnapshot] = field(default_factory=dict)
    """The pools by market and id."""

    unlisted: set[str] = field(default_factory=set)
    """Files that were added although they are not of this run alone: the history's manifest, its files and pages."""
    listed: Container[str] = frozenset()
    """Keys that the run's manifest lists."""

    def there(self, key: str) -> bool:
        """Whether a link to a file leads somewhere. Counts the link."""
        self.looked.links += 1
        return key in self.seen or (self.partial and key in self.listed)

    def of(self, model: type) -> dict[str, Any]:
        """What is kept of the documents of a model, by key."""
        return self.documents.get(model, {})

    def rows(self, folder: str) -> list[PoolSnapshot]:
        """The pools of a filter, in order."""
        return [self.table.snapshots[position] for position in self.by_folder.get(folder, ())]

    def market_rows(self, market: str) -> list[PoolSnapshot]:
        """The pools of a market, in order."""
        return self.rows(assets_folder(market, None))

    def group(self, listing: tuple[int, ...]) -> None:
        """Take the rows of a walk over all pools as the listing, and sort them by filter."""
        folders: dict[str, list[int]] = {}
        for position in listing:
            row = self.table.snapshots[position]
            for market, token in ((row.market, None), (None, row.token_address), (row.market, row.token_address)):
                folders.setdefault(assets_folder(market, token), []).append(position)
        self.listing = listing
        self.by_name = {(row.market, row.pool): row for row in map(self.table.snapshots.__getitem__, listing)}
        self.by_folder = {folder: tuple(positions) for folder, positions in folders.items()}
        self.by_folder[assets_folder(None, None)] = listing
