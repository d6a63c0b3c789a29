"""The OpenAPI 3.1 description of the API, made from the models that write and read back every file.

It depends on nothing but the code, so it changes only with a version of the exporter.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

import exporter
from exporter.api import fields
from exporter.api.documents import SCHEMA_VERSION, OpenApiDocument
from exporter.api.headers import CONTENT_TYPES, PROBLEM_CONTENT_TYPE
from exporter.api.openapi_paths import OPERATIONS, PARAMETERS, TAGS, Operation, problems_of
from exporter.api.problems import Problem
from exporter.api.render import render_document
from exporter.api.routes import MISTAKABLE
from exporter.files import RenderedFile

OPENAPI_KEY = "v1/openapi.json"

_SCHEMAS = "#/components/schemas/"

_DESCRIPTION = (
    """Exact snapshots of every lending market on Soroban, at one ledger a run.

Token amounts, prices and money are decimal strings, because they exceed 2^53; basis points, decimals, ledgers and
counts are integers. Null is allowed only where the schema says so. Order everywhere is by market, then pool,
ascending bytes. Every document states the ledger that it was observed at.

Within a major version (`/v1`) fields are only added: clients must ignore fields that they do not know. Renaming,
removing, or changing the type or meaning of a field makes a new major version, beside which the old one stays.

Everything is a file. A path without an extension is also served under its name with `.json` at the end, but for two:
`/v1/assets` is `/v1/assets/index.json`, and a pool's `/history` is `/history/1d.json`, or another bucket's name.

On `/v1/assets` and `/v1/markets`, names that read like a filter, an order or a page but are none are refused with 400
where they have a value: """
    + ", ".join(f"`{name}`" for name in MISTAKABLE)
    + ". All other names that are not described are ignored everywhere."
)


def openapi_document() -> OpenApiDocument:
    """The description of the API."""
    return OpenApiDocument(
        openapi="3.1.0",
        info={
            "title": "Lending markets of Soroban",
            "version": f"{SCHEMA_VERSION}.0.0",
            "summary": "A static JSON API of exact lending market snapshots.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "x-exporter-version": exporter.__version__,
        },
        servers=[{"url": "..", "description": "Wherever this file is served from: its folder's parent."}],
        tags=[{"name": name, "description": description} for name, description in TAGS.items()],
        paths={operation.path: {"get": _operation(operation)} for operation in OPERATIONS},
        components={"schemas": _schemas(), "headers": _headers()},
    )


def render_openapi() -> RenderedFile:
    """The description as a file of the tree."""
    return render_document(OPENAPI_KEY, openapi_document())


def _operation(operation: Operation) -> dict[str, object]:
    result: dict[str, object] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.parameters:
        result["parameters"] = [_parameter(name) for name in operation.parameters]
    return result | {"responses": _responses(operation)}


def _parameter(name: str) -> dict[str, object]:
    parameter = dict(PARAMETERS[name])
    kind = parameter["schema"].get("$ref")
    if kind is not None:
        parameter["schema"] = _tolerant(msgspec.json.schema(getattr(fields, kind)))
    return parameter


def _responses(operation: Operation) -> dict[str, object]:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("ETag", "Cache-Control")}
    responses: dict[str, object] = {
        "200": {
            "description": operation.summary,
            "headers": headers,
            "content": {CONTENT_TYPES["json"]: {"schema": {"$ref": _SCHEMAS + operation.document.__name__}}},
        },
        "304": {"description": "`If-None-Match` names the file as it is.", "headers": headers},
    }
    for status, examples in problems_of(operation):
        responses[str(status)] = {
            "description": next(iter(examples.values())).title,
            "content": {
                PROBLEM_CONTENT_TYPE: {
                    "schema": {"$ref": f"{_SCHEMAS}Problem"},
                    "examples": {name: {"value": msgspec.to_builtins(problem)} for name, problem in examples.items()},
                }
            },
        }
    return responses


def _schemas() -> dict[str, object]:
    models = [*{operation.document: None for operation in OPERATIONS}, Problem]
    _, components = msgspec.json.schema_components(models, ref_template=_SCHEMAS + "{name}")
    return {name: _tolerant(components[name]) for name in sorted(components)}


def _tolerant(schema: Any) -> Any:
    """A schema that allows fields it does not know, as clients must, with its texts in one line each."""
    if isinstance(schema, dict):
        kept = {name: value for name, value in schema.items() if (name, value) != ("additionalProperties", False)}
        return {
            name: re.sub(r"\s*\n\s*", " ", value)
            if name == "description" and isinstance(value, str)
            else _tolerant(value)
            for name, value in kept.items()
        }
    if isinstance(schema, list):
        return [_tolerant(item) for item in schema]
    return schema


def _headers() -> dict[str, object]:
    return {
        "ETag": {
            "description": "A strong validator of the bytes, for `If-None-Match`.",
            "schema": {"type": "string"},
        },
        "Cache-Control": {
            "description": "How long the answer may be kept: pages of a run for good, documents for seconds.",
            "schema": {"type": "string"},
        },
    }
