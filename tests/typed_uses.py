"""Uses of the public API, for a type checker alone. Without the package's types, each line says otherwise to mypy."""

from __future__ import annotations

import polars

import exporter


def uses() -> None:
    code: int = exporter.run(exporter.load_settings(), dry_run=True).exit_code
    tables, certificate = exporter.read("ledger.json")
    pools: polars.DataFrame = tables.pools
    history: polars.LazyFrame = exporter.scan_history("public")
    lines: list[str] = list(exporter.check_tree("public").lines())
    wrong: str = certificate.ledger  # type: ignore[assignment]
    print(code, pools, history, lines, wrong)
