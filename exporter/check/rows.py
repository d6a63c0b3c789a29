"""Pages of pool snapshots, reduced to what walks need: which rows a page holds, and which page comes after it.

A pool stands in many pages, in the same bytes in all of them. So a page is taken apart into the bytes of its rows, and
each different row is decoded and judged once.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from exporter.errors import CheckError
from exporter.render.assets_pages import page_bytes
from exporter.tree.documents import PoolSnapshot, encode
from exporter.tree.fields import Cursor

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
        if page_bytes(rows, envelope.next_cursor) != data:
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
