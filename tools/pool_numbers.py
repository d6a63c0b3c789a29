"""Writes `exporter/protocols/numbers.py`: the typed numbers of a pool, from the columns in `exporter/tree/pools.py`.

    python -m tools.pool_numbers

Python cannot derive a class that mypy understands from the columns, so the module is generated, and a test
compares it with what this program writes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

from msgspec.structs import fields

from exporter.tables import COLUMNS, FRAME_DTYPES, MARKETS_SCHEMA, SHARED, Column, column_type
from exporter.tree import pool_parts, pools
from exporter.tree.documents import MarketBackstop, MarketEntry
from exporter.tree.values import ParquetType

PATH: Final = Path(__file__).parent.parent / "exporter" / "protocols" / "numbers.py"

HEAD: Final = '''\
"""The numbers of one pool, typed. Generated from `exporter/tree/pools.py` by ``python -m tools.pool_numbers``.

A protocol's math returns `PoolNumbers`. `PoolFrameRow` is a row of the pools frame while it is computed, and when it is
compared with a contract's own views; documents have `exporter.tree.pool_rows.PoolRow`. `MarketFrameRow` and
`BackstopFrameRow` are rows of the markets and backstops frames. Amounts are in base units, ``_bps`` are basis points,
times are unix seconds.
"""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct, field

'''

PYTHON_TYPES: Final = {
    ParquetType.UTF8: "str",
    ParquetType.INT64: "int",
    ParquetType.DECIMAL: "int",
    ParquetType.TIMESTAMP: "int",
    ParquetType.BOOLEAN: "bool",
}

PYTHON_TYPES_OF_FRAMES: Final = {FRAME_DTYPES[kind]: python for kind, python in PYTHON_TYPES.items()}

GROUPS: Final = {
    "Operations": ("operations", "Which operations the contract allows now.", pools.AssetOperations),
    "Amounts": ("amounts", "How much can be done at most, before the gate of each operation.", pools.AssetLiquidity),
    "Risk": ("risk", "What the configuration says of collateral, debt and limits.", pools.AssetRisk),
    "Rewards": ("rewards", "What is paid in addition to interest, in another token.", pools.AssetRewards),
}
"""The classes of terms that a protocol may give: the name of the field that has them, their meaning, and the document
whose columns they have."""


def module() -> str:
    """The text of the module."""
    terms = [column for column in COLUMNS if column.source == "optional"]
    grouped = {name for *_, document in GROUPS.values() for name in document.__struct_fields__}
    parts = [HEAD]
    for name, (_, meaning, document) in GROUPS.items():
        own = [column for column in terms if column.name in document.__struct_fields__]
        parts.append(_record(name, meaning, map(_optional, own)))
    parts.append(_record("SpokeTerms", "One spoke's terms for a pool.", _spoke_fields()))
    required = [column for column in COLUMNS if column.source == "required" and column.name not in SHARED]
    attributes = [*map(_required, required), *(_optional(column) for column in terms if column.name not in grouped)]
    attributes += [
        f"{attribute}: {name} = field(default_factory={name})\n{_docstring(meaning)}"
        for name, (attribute, meaning, _) in GROUPS.items()
    ]
    attributes.append(f"spokes: tuple[SpokeTerms, ...] = ()\n{_docstring('The terms of each spoke, if it has any.')}")
    parts.append(
        _record("PoolNumbers", "What a protocol's math gives of a pool at the ledger's close time.", attributes)
    )
    columns = [f"{column.name}: {_type(column)}\n" for column in COLUMNS]
    parts.append(
        _class("class PoolFrameRow(TypedDict):", "A row of the pools frame: each column under its name.", columns)
    )
    parts.append(
        _class(
            "class MarketFrameRow(TypedDict):",
            "A row of the markets frame: each column under its name.",
            _market_fields(),
        )
    )
    parts.append(
        _record("BackstopFrameRow", "A row of the backstops frame: what insures a market.", _backstop_fields())
    )
    return "\n\n".join(parts)


def _record(name: str, meaning: str, attributes: Iterable[str]) -> str:
    return _class(f"class {name}(Struct, frozen=True, kw_only=True):", meaning, attributes)


def _class(head: str, meaning: str, attributes: Iterable[str]) -> str:
    body = f"{_docstring(meaning)}\n{''.join(attributes)}"
    return f"{head}\n{textwrap.indent(body, '    ')}"


def _required(column: Column) -> str:
    return f"{column.name}: {_type(column)}\n{_docstring(column.meaning)}"


def _optional(column: Column) -> str:
    return f"{column.name}: {PYTHON_TYPES[column.type]} | None = None\n{_docstring(column.meaning)}"


def _spoke_fields() -> Iterator[str]:
    for found in fields(pool_parts.AssetSpoke):
        optional = " | None" if _can_be_null(found.type) else ""
        yield f"{found.name}: {PYTHON_TYPES[column_type(found.type)]}{optional}\n{_meaning(found.type)}"


def _can_be_null(kind: Any) -> bool:
    """Whether a document's field, whose type is annotated with its meaning, can be null."""
    return type(None) in get_args(get_args(kind)[0])


def _meaning(kind: Any) -> str:
    """The docstring of a document's field: the meaning that its type is annotated with last."""
    return _docstring(kind.__metadata__[-1].description.replace("`", "``"))


def _backstop_fields() -> Iterator[str]:
    """The market and the fields of the document; one that can be null need not be given."""
    yield f"market: str\n{_docstring('The market that is insured, a strkey')}"
    for found in fields(MarketBackstop):
        optional = " | None = None" if _can_be_null(found.type) else ""
        yield f"{found.name}: {PYTHON_TYPES[column_type(found.type)]}{optional}\n{_meaning(found.type)}"


def _market_fields() -> Iterator[str]:
    """The columns of the markets frame: the fields of the document, and those that no list shows."""
    of_document = {found.name: _can_be_null(found.type) for found in fields(MarketEntry)}
    can_be_null = {"oracle": True, "wasm_hash": True, "listed_source": True} | of_document
    for name, dtype in MARKETS_SCHEMA.items():
        optional = " | None" if can_be_null.get(name, False) else ""
        yield f"{name}: {PYTHON_TYPES_OF_FRAMES[dtype]}{optional}\n"


def _type(column: Column) -> str:
    return PYTHON_TYPES[column.type] + (" | None" if column.nullable else "")


def _docstring(meaning: str) -> str:
    """A docstring of lines of at most 116 characters, which leaves room for the indentation."""
    text = meaning[0].upper() + meaning[1:]
    lines = textwrap.wrap(f'"""{text}.' if text[-1] != "." else f'"""{text}', 112)
    closing = '"""'
    return "\n".join(lines) + (f"\n{closing}\n" if len(lines) > 1 else f"{closing}\n")


def main() -> None:
    """Write the module."""
    PATH.write_text(module(), encoding="utf-8")


if __name__ == "__main__":
    main()
