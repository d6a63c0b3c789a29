"""JSON that others may have written: what the store holds, and what a server sends of a tree.

A published tree has a format number, with which its status document and the manifest of its history begin. It rises
when a document, a field or a column is removed, renamed, or gets another meaning. A version of the exporter reads trees
of its own format alone; a run publishes over a tree of an earlier one.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

import exporter
from exporter import FORMAT
from exporter.errors import FormatError

_Model = TypeVar("_Model")


def decode_json(data: bytes, model: type[_Model]) -> _Model:
    """Take a model out of JSON; all that a run reads of its store comes through here.

    Raises `msgspec.DecodeError`, and no other, whatever is wrong.
    """
    try:
        return msgspec.json.decode(data, type=model)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deep") from None


class _Numbered(Struct):
    """A document as far as its format number; documents before the first number have a ``schema_version`` instead."""

    format: int | None = None
    schema_version: int | None = None


def refuse_other_format(name: str, data: bytes, *, older: bool = False) -> bool:
    """Refuse another format; with ``older`` says whether it is an earlier one.

    Raises `FormatError`, `msgspec.DecodeError`.
    """
    numbered = decode_json(data, _Numbered)
    number = numbered.format if numbered.schema_version is None else 0
    if number is None:
        raise msgspec.DecodeError("it has no format number")
    here = f"format {number}; this is version {exporter.__version__}, format {FORMAT}"
    if number > FORMAT:
        raise FormatError(f"{name} was made by a later version ({here}): update the exporter")
    if number < FORMAT and not older:
        raise FormatError(f"{name} was made by an earlier version ({here}): publish once with this one")
    return number < FORMAT
