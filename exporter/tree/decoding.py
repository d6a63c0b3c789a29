"""Decodes JSON that others may have written: what a store holds, and what a server sends of a tree.

A published tree has a format number, which its status document and the manifest of its history state. The number rises
when a document, a field or a column is removed, renamed, or gets another meaning. A version of the exporter reads only
trees of its own format; a run publishes over a tree of an earlier format.
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
    """The model that is in JSON. A run decodes everything that it reads from its store with this function.

    Raises `msgspec.DecodeError`, and no other error, whatever is wrong.
    """
    try:
        return msgspec.json.decode(data, type=model)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deep") from None


class _Numbered(Struct):
    """The format number of a document. Documents from before the first number have a ``schema_version`` instead."""

    format: int | None = None
    schema_version: int | None = None


def refuse_other_format(name: str, data: bytes, *, older: bool = False) -> bool:
    """Refuse a document of another format. With ``older``, an earlier format is accepted.

    Returns whether the format is an earlier one. Raises `FormatError` or `msgspec.DecodeError`.
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
