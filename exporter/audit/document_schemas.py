"""Validates documents against the schemas of a tree's own OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs

from exporter.errors import CheckError
from exporter.tree.decoding import decode_json
from exporter.tree.documents import OpenApiDocument

MAX_SCHEMA_FAULTS = 20
"""Largest number of faults that are reported of one document that does not match its schema."""

_DOCUMENT = "urn:exporter:openapi"
"""The name by which compiled schemas refer to their document. It is read once for all of them."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schemas = dict[str, jsonschema_rs.Draft202012Validator]
"""Compiled schemas, by the names of the models that they describe."""


@lru_cache(maxsize=4)
def schemas_in(openapi: bytes) -> Schemas:
    """The compiled schemas of an OpenAPI document, cached because trees of one version have the same document."""
    return schemas_of(decode_json(openapi, OpenApiDocument).components["schemas"])


def schemas_of(components: Mapping[str, Any]) -> Schemas:
    """Compile schemas that anybody may have written: nothing is fetched for them, and no pattern runs for long.

    Raises `CheckError` for a schema that cannot be compiled.
    """
    document = jsonschema_rs.Registry([(_DOCUMENT, {"components": {"schemas": components}})], retriever=_fetch_nothing)
    compiled = {}
    for name, schema in components.items():
        if not isinstance(schema, dict):
            raise CheckError(f"$.components.schemas: {name} is not a schema")
        try:
            jsonschema_rs.meta.validate({**schema, "$schema": _DIALECT})
            compiled[name] = jsonschema_rs.Draft202012Validator(
                {"$ref": f"{_DOCUMENT}#/components/schemas/{name}"},
                registry=document,
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(),  # the one engine that never backtracks
            )
        except ValueError as error:
            raise CheckError(f"$.components.schemas: {name} is not known here: {_first_line(error)}") from error
    return compiled


def _fetch_nothing(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the document")


def schema_faults(schemas: Schemas, name: str, value: Any) -> Iterator[str]:
    """The places at which a decoded JSON value does not match the named schema, at most `MAX_SCHEMA_FAULTS` texts."""
    for error in islice(schemas[name].iter_errors(value), MAX_SCHEMA_FAULTS):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        yield f"is not as the OpenAPI document says: ${path}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
