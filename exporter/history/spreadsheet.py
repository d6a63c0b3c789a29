"""Writes tables as CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import polars as pl

_FORMULA = r"^(\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n])"
"""The beginning of a text that a spreadsheet would run as a formula. Anybody can give a token such a name."""

_LATER_FORMULA = r"([;\r\n])([\s&&[^\r\n]]*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20])"
"""A formula where some spreadsheets begin a cell: in much of Europe semicolons separate cells, and commas do not.

Quotes inside a line do not count there."""


def without_formulas(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows, with a ``'`` in front of each text, or part of a text, that a spreadsheet would run as a formula."""
    texts = pl.col(pl.String).str.replace_all(_LATER_FORMULA, "${1}'${2}")
    return rows.with_columns(pl.when(texts.str.contains(_FORMULA)).then("'" + texts).otherwise(texts).name.keep())


def csv_of(rows: pl.DataFrame) -> bytes:
    """The rows as CSV in UTF-8 with a header. Times are in RFC 3339, null is empty, and no text is a formula."""
    text: str = without_formulas(rows).write_csv(datetime_format="%Y-%m-%dT%H:%M:%SZ")
    return text.encode()
