"""Schemas that anybody may have written."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.audit.document_schemas import schema_faults, schemas_of
from exporter.errors import CheckError


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"pattern": "("},
        {"$ref": "#/components/schemas/Nothing"},
        {"$ref": "https://elsewhere/schema"},
        {"items": 3},
    ],
)
def test_unknown_schemas_are_refused(schema: dict[str, Any]) -> None:
    """A malformed schema, or one that refers outside of the document, is refused, and nothing is fetched."""
    with pytest.raises(CheckError, match="Thing"):
        schemas_of({"Thing": schema})


def test_patterns_end_soon() -> None:
    """A pattern with which other engines would be busy for years is done at once."""
    schemas = schemas_of({"Thing": {"pattern": "^(a+)+$"}})

    assert [] == list(schema_faults(schemas, "Thing", "a" * 40))
    assert 1 == len(list(schema_faults(schemas, "Thing", "a" * 40 + "b")))
