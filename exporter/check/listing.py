"""The pools of a run, and what every page of every filter in every size must be: it follows from their rows.

A page holds some rows of its filter and the token of the page after it, which is a digest of that page. So the bytes of
every walk follow from the rows alone, its last page first, and a page that has other bytes is wrong.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import msgspec

from exporter.check.row_faults import contradictions
from exporter.render.assets_pages import page_bytes
from exporter.tree.documents import AssetsPage, encode, token_of
from exporter.tree.families import assets_folder, page_key
from exporter.tree.pools import PoolSnapshot

ALL = assets_folder(None, None)
decode_row = msgspec.json.Decoder(PoolSnapshot).decode


class Listing:
    """All pools of a run, each as the JSON of its row, by market and then pool."""

    def __init__(self, rows: Iterable[PoolSnapshot]) -> None:
        self._rows: list[bytes] = []
        self._markets: dict[str, range] = {}
        self._tokens: dict[str, array[int]] = {}
        self.disorder: list[str] = []
        """What is in the wrong place in the rows as they were given."""
        before = ("", "")
        for row in rows:
            if (place := (row.market, row.pool)) <= before:
                self.disorder.append(f"{' '.join(place)} comes after {' '.join(before)}; pools must ascend, each once")
            before = place
            self._rows.append(encode(row))
        if self.disorder:
            self._rows.sort()  # by market and pool, with which a row begins
        for position, row in enumerate(self):
            begin = self._markets.get(row.market, range(position, position)).start
            self._markets[row.market] = range(begin, position + 1)
            self._tokens.setdefault(row.token_address, array("I")).append(position)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[PoolSnapshot]:
        return map(decode_row, self._rows)

    @property
    def markets(self) -> Set[str]:
        return self._markets.keys()

    @property
    def tokens(self) -> Set[str]:
        return self._tokens.keys()

    def find(self, market: str, pool: str) -> tuple[int, PoolSnapshot] | None:
        """A pool's place among all and its row; None for a pool that is not listed."""
        start = b'{"market":"%b","pool":"%b",' % (market.encode(), pool.encode())
        position = bisect_left(self._rows, start)
        if position < len(self) and self._rows[position].startswith(start):
            return position, decode_row(self._rows[position])
        return None

    def of(self, market: str | None, token: str | None) -> list[PoolSnapshot]:
        """The rows of a filter."""
        return [decode_row(self._rows[position]) for position in self._positions(market, token)]

    def count(self, market: str | None, token: str | None) -> int:
        """How many rows a filter has."""
        return len(self._positions(market, token))

    def _positions(self, market: str | None, token: str | None) -> Sequence[int]:
        inside = range(len(self)) if market is None else self._markets.get(market, range(0))
        if token is None:
            return inside
        every = self._tokens.get(token, array("I"))
        return every[bisect_left(every, inside.start) : bisect_left(every, inside.stop)]

    def filters(self) -> Iterator[tuple[str | None, str | None]]:
        """Every filter that has rows: none, each market, each token, and each market with each of its tokens."""
        yield None, None
        for market in self._markets:
            yield market, None
            for token in dict.fromkeys(row.token_address for row in self.of(market, None)):
                yield market, token
        for token in self._tokens:
            yield None, token

    def files(self, market: str | None, token: str | None, sizes: Sequence[int], default: int) -> Iterator[PageFile]:
        """The page files of a filter, without the first pages that have the bytes of its index."""
        folder, rows = assets_folder(market, token), [self._rows[place] for place in self._positions(market, token)]
        for size in dict.fromkeys((default, *sizes)):
            if size != default and len(rows) <= min(size, default):
                continue
            cursor: str | None = None
            for start in reversed(range(0, max(len(rows), 1), size)):
                shown = rows[start : start + size]
                digest = hashlib.sha256(page_bytes(b",".join(shown), cursor)).digest()
                own = token_of(digest)
                if start:
                    yield PageFile(page_key(own), digest, len(shown), cursor)
                elif size != default:
                    yield PageFile(f"{folder}/limit/{size}.json", digest, len(shown), cursor)
                else:
                    yield PageFile(f"{folder}/index.json", digest, len(shown), cursor)
                    if rows and None in (market, token):  # of a market's pools of one token nobody needs the two
                        none = hashlib.sha256(page_bytes(b"", own)).digest()
                        yield PageFile(page_key(own), digest, len(shown), cursor)
                        yield PageFile(f"{folder}/limit/0.json", none, 0, own)
                cursor = own


@dataclass(frozen=True, slots=True)
class PageFile:
    """What a page of assets must be: its key, the digest of its bytes, how many rows it has and what it leads to."""

    key: str
    digest: bytes
    rows: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a run before its files are seen; ``listing`` is None where no walk gives it."""

    observed_ledger: int
    ledger_close_time: str
    page_sizes: Sequence[int]
    default_page_size: int
    listing: Listing | None

    def files(self) -> Iterator[PageFile]:
        """Every page of assets of every filter that has rows, in every size."""
        if self.listing is not None:
            for market, token in self.listing.filters():
                yield from self.listing.files(market, token, self.page_sizes, self.default_page_size)

    def row_faults(self, row: PoolSnapshot) -> Iterator[str]:
        """What is wrong with a row by itself."""
        name = f"{row.market} {row.pool}"
        if row.observed_ledger != self.observed_ledger:
            yield f"{name} is of ledger {row.observed_ledger}, but the run is of ledger {self.observed_ledger}"
        for text in contradictions(row):
            yield f"{name}: {text}"

    def page_faults(self, names: Mapping[str, str], page: AssetsPage) -> Iterator[str]:
        """How the first page of a filter differs from what it must be; ``names`` are those of its key."""
        if self.listing is None:
            return
        market, token = names.get("market"), names.get("token")
        size = int(names.get("limit", self.default_page_size))
        if size and size not in self.page_sizes:
            yield f"is of a size that is not among page_sizes {list(self.page_sizes)}"
            return
        rows = self.listing.of(market, token)
        expected = rows[:size]
        yield from _difference(page.data, expected)
        folder = assets_folder(market, token)
        files = {file.key: file for file in self.listing.files(market, token, self.page_sizes, self.default_page_size)}
        index = files[f"{folder}/index.json"]
        wanted = files.get(f"{folder}/limit/{size}.json", index).cursor
        if rows and not size:
            wanted = token_of(index.digest)
        if page.next_cursor == wanted:
            return
        if page.next_cursor is None:
            yield f"the walk from it ends here after {len(expected)} of {len(rows)} rows"
        elif wanted is None:
            yield f"next_cursor is {page.next_cursor}, though the last row is here"
        else:
            yield f"next_cursor leads to {page_key(page.next_cursor)}, which is not the page that belongs there"


def _difference(found: Sequence[PoolSnapshot], expected: Sequence[PoolSnapshot]) -> Iterator[str]:
    """How the rows of a page differ from those that should be there."""
    index = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), None)
    if index is None:
        if len(found) != len(expected):
            yield f"has {len(found)} rows, but {len(expected)} belong here"
        return
    has, wants = found[index], expected[index]
    name = f"{wants.market} {wants.pool}"
    if (has.market, has.pool) == (wants.market, wants.pool):
        for field in PoolSnapshot.__struct_fields__:
            if getattr(has, field) != getattr(wants, field):
                yield (
                    f"row {index} differs from the listing of all pools: {name}: {field} is {getattr(has, field)!r}, "
                    f"not {getattr(wants, field)!r}"
                )
        return
    twice = " a second time" if has in found[:index] else ""
    yield f"row {index} is {has.market} {has.pool}{twice}, where {name} belongs"
