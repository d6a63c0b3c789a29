"""Writes `exporter/tree/pool_rows.py`: the rows of pools in lists, whose fields those of other documents repeat.

    python -m tools.pool_rows

msgspec allows only one base class with fields, so that a row cannot inherit them from several. The module is
generated, so that mypy knows each field, and a test compares it with what this program writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import fields

from exporter.tree import pool_periods, pools
from exporter.tree.columns import column_note

PATH: Final = Path(__file__).parent.parent / "exporter" / "tree" / "pool_rows.py"

HEAD: Final = '''\
"""The rows of pools in lists. ``python -m tools.pool_rows`` writes this module from `exporter/tree/pools.py`.

Each field repeats one of a class there, or of `exporter.tree.pool_periods.RecentMeans`: change it there.
"""

from __future__ import annotations

'''

MARKET_POOL: Final = '''\
class MarketPool(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool snapshot inside its market. It lacks `market` and `observed_ledger`, which the market's document has."""
'''

POOL_ROW: Final = '''\
class PoolRow(PoolOfMarket, frozen=True, forbid_unknown_fields=True):
    """One pool in one flat row: the snapshot, then what is needed to compare it with other pools.

    Each field has the meaning that it has in `/v1/assets/{market}/{pool}`, in its `operations`, `liquidity`, `risk`,
    `rewards` and `periods`. The means are those of the last 7 and 30 days.
    """
'''


class Source(NamedTuple):
    """A module that has the classes whose fields are repeated."""

    text: str
    tree: ast.Module

    @classmethod
    def of(cls, path: str | None) -> Source:
        """The source of a module. Raises `OSError` if it cannot be read."""
        text = Path(path or "").read_text(encoding="utf-8")
        return cls(text, ast.parse(text))

    def annotations(self) -> Iterator[tuple[str, ast.AnnAssign]]:
        """The fields of all classes, each with the name of its class and its own."""
        for model in self.tree.body:
            if isinstance(model, ast.ClassDef):
                for item in model.body:
                    if isinstance(item, ast.AnnAssign):
                        yield f"{model.name}.{ast.unparse(item.target)}", item

    def imports(self) -> Iterator[tuple[str, str]]:
        """The names that the module imports from other modules of the package, each with its module."""
        for item in self.tree.body:
            if isinstance(item, ast.ImportFrom) and (item.module or "").startswith("exporter."):
                yield from ((name.name, item.module or "") for name in item.names)


def module() -> str:
    """The text of the module, before it is formatted."""
    sources = [Source.of(pools.__file__), Source.of(pool_periods.__file__)]
    written = {name: (source, item) for source in sources for name, item in source.annotations()}

    def text_of(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            source, item = written[name]
            yield f"    {ast.get_source_segment(source.text, item)}\n"

    of_market = [
        f"PoolSnapshot.{name}"
        for name in pools.PoolSnapshot.__struct_fields__
        if name not in ("market", "observed_ledger")
    ]
    parts = (pools.AssetOperations, pools.AssetLiquidity, pools.AssetRisk, pools.PoolRewards)
    of_row = [f"{part.__name__}.{item.name}" for part in parts for item in fields(part) if column_note(item)]
    of_row += [f"RecentMeans.{name}" for name in pool_periods.RecentMeans.__struct_fields__]
    used = {
        node.id
        for name in (*of_market, *of_row)
        for node in ast.walk(written[name][1].annotation)
        if isinstance(node, ast.Name)
    }
    by_module = {pools.__name__: {"PoolOfMarket"}}
    for name, origin in chain.from_iterable(source.imports() for source in sources):
        if name in used:
            by_module.setdefault(origin, set()).add(name)
    imports = "".join(
        f"from {origin} import ({', '.join(sorted(names, key=_isort_order))})\n"
        for origin, names in sorted(by_module.items())
    )
    head = f"{HEAD}from typing import Annotated\n\nfrom msgspec import Struct\n\n{imports}"
    return "\n\n".join(
        (head, MARKET_POOL + "\n" + "".join(text_of(of_market)), POOL_ROW + "\n" + "".join(text_of(of_row)))
    )


def _isort_order(name: str) -> tuple[bool, str]:
    """The place of an imported name: names of classes come before those of functions."""
    return name[0].islower(), name


def main() -> None:
    """Write the module."""
    PATH.write_text(module(), encoding="utf-8")


if __name__ == "__main__":
    main()
