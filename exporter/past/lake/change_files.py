"""The intermediate form of the past: what a range of ledgers is, and its changes of what is watched, as two files.

They are not made to be read by anything else: a version that needs another form names them differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa

from exporter.errors import StoreError
from exporter.past.lake.close_meta import Change


class Gap(msgspec.Struct, frozen=True):
    """Ledgers of which nothing is known, and why."""

    first: int
    last: int
    reason: str


class LedgerRange(msgspec.Struct, frozen=True):
    """What is known of a range of ledgers.

    ``previous_hash`` is the hash that it follows, ``last_hash`` the one it ends with (hex; empty where that ledger is a
    gap). ``ledgers`` has each ledger's close time in unix seconds and its protocol, ascending, without the gaps.
    ``touched`` is how many of them were walked.
    """

    first: int
    last: int
    previous_hash: str
    last_hash: str
    ledgers: dict[int, tuple[int, int]]
    gaps: tuple[Gap, ...]
    touched: int


class LedgerChanges(msgspec.Struct, frozen=True, array_like=True):
    """A ledger's changes of what is watched, in their order, each with its place among all changes of the ledger."""

    ledger: int
    close_time: int
    protocol: int
    changes: list[tuple[int, Change]]


Content = TypeVar("Content")


def packed(content: LedgerRange | Sequence[LedgerChanges]) -> bytes:
    """The bytes of a file: the same for the same content."""
    return bytes(pa.compress(msgspec.msgpack.encode(content), codec="zstd", asbytes=True))


def unpacked(data: bytes, content: type[Content], name: str) -> Content:
    """The content of a file of this machine's or cluster's own. Raises `StoreError` with its name."""
    try:
        with pa.input_stream(pa.py_buffer(data), compression="zstd") as stream:
            return msgspec.msgpack.decode(stream.read(), type=content)
    except (OSError, pa.ArrowException, msgspec.DecodeError) as error:
        raise StoreError(f"{name} is not a file of changes of this version: {error}; remove it") from error
