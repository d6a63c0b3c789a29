"""The lines of an evidence file: JSON arrays that begin with the kind of line (docs/proofs.md, "The entries file")."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from exporter.errors import DecodeError
from exporter.ledger.source import LATEST_CLOSE_TIME
from exporter.protocols.base import Origin
from exporter.tree.decoding import decode_json
from exporter.tree.values import SkipReason

_U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class _Line(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A line of evidence. Its fields stand in the order in which they are declared."""


class LedgerLine(_Line, tag="ledger", frozen=True):
    """The first line: the ledger that was read."""

    passphrase: str
    ledger: _U32
    close_time: Annotated[int, Meta(ge=1, le=LATEST_CLOSE_TIME)]


class LookedLine(_Line, tag="looked", frozen=True):
    """The second line: what kind of source it was, and whether the package's lists were compared with the chain."""

    has_all_contracts: bool
    lists_compared: bool
    stored: bool


class CandidateLine(_Line, tag="candidate", frozen=True):
    """An address that should be a market or a pool."""

    protocol: str
    address: str
    origin: Origin
    pool: str | None
    voucher: str | None


class ContractLine(_Line, tag="contract", frozen=True):
    """A contract of a deployment that only the chain names."""

    protocol: str
    label: str
    role: str
    address: str


class SkippedLine(_Line, tag="skipped", frozen=True):
    """A market that the run did not read, or not to the end."""

    protocol: str
    market: str
    reason: SkipReason


class ExcludedLine(_Line, tag="excluded", frozen=True):
    """An address that the configuration excluded."""

    address: str


class NoticeLine(_Line, tag="notice", frozen=True):
    """A text that the operator was told of the reading."""

    text: str


class EntryLine(_Line, tag="entry", frozen=True):
    """A ledger entry.

    ``archived`` is `ARCHIVED` if the entry is archived. Of other entries the line does not say until when they live.
    Somebody may have extended that between the ledger and the reading, which changes nothing else of the entry, so two
    readings of one ledger could differ.
    """

    key: bytes
    last_modified: _U32
    archived: Literal[0] | None
    data: bytes


class AbsentLine(_Line, tag="absent", frozen=True):
    """A ledger key without an entry."""

    key: bytes


class CallLine(_Line, tag="call", frozen=True):
    """A contract call with its arguments (ScVal XDR), and its result (ScVal XDR) or its error."""

    contract: str
    function: str
    arguments: list[bytes]
    result: bytes | None
    error: str | None


Line: TypeAlias = (
    LedgerLine
    | LookedLine
    | CandidateLine
    | ContractLine
    | SkippedLine
    | ExcludedLine
    | NoticeLine
    | EntryLine
    | AbsentLine
    | CallLine
)

LINE_KINDS: dict[str, type[_Line]] = {line.__struct_config__.tag: line for line in get_args(Line)}
"""The type of each kind of line, keyed by the word with which the line begins."""

_DECODER = msgspec.json.Decoder(Line)


def decode_line(data: bytes) -> Line:
    """Decode a line. Raises `DecodeError`, `msgspec.DecodeError` or `UnicodeDecodeError`."""
    try:
        line: Line = _DECODER.decode(data)
    except msgspec.ValidationError:
        kind = (decode_json(data, list[Any]) or [None])[0]
        if kind not in tuple(LINE_KINDS):
            raise DecodeError(f"a line is of an unknown kind, {str(kind)[:40]!r}") from None
        raise
    return line
