"""The OpenAPI document as the reference page shows it: operations, parameters, fields and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from exporter.render.openapi import openapi_document

_REFERENCE = "#/components/schemas/"
_LONGEST = 2**53


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter or a field: its type in words, the model that it is or holds, and what it may be."""

    name: str
    type: str
    model: str | None
    note: str
    example: str | None
    required: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP status other than success, with an example of each detail that comes with it."""

    status: str
    title: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """One operation."""

    path: str
    name: str
    tag: str
    summary: str
    description: str
    parameters: tuple[Value, ...]
    model: str
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A document, or a part of one, with its fields."""

    name: str
    description: str
    fields: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The whole API. ``common`` are the failures that every operation shares."""

    description: tuple[str, ...]
    tags: Mapping[str, str]
    routes: tuple[Route, ...]
    common: tuple[Failure, ...]
    models: tuple[Model, ...]


@cache
def api_reference() -> Reference:
    """The reference, from the very document that clients are generated from."""
    document = openapi_document()
    answers = [_failures(path["get"]) for path in document.paths.values()]
    common = tuple(failure for failure in answers[0] if all(failure in others for others in answers))
    return Reference(
        description=tuple(" ".join(part.split()) for part in document.info["description"].split("\n\n")),
        tags={tag["name"]: tag["description"] for tag in document.tags},
        routes=tuple(
            _route(path, methods["get"], tuple(failure for failure in failures if failure not in common))
            for (path, methods), failures in zip(document.paths.items(), answers, strict=True)
        ),
        common=common,
        models=tuple(_model(name, schema) for name, schema in document.components["schemas"].items()),
    )


def _route(path: str, operation: Mapping[str, Any], failures: tuple[Failure, ...]) -> Route:
    [content] = operation["responses"]["200"]["content"].values()
    return Route(
        path=path,
        name=operation["operationId"],
        tag=operation["tags"][0],
        summary=operation["summary"],
        description=operation["description"],
        parameters=tuple(_parameter(parameter) for parameter in operation.get("parameters", ())),
        model=content["schema"]["$ref"].removeprefix(_REFERENCE),
        failures=failures,
    )


def _failures(operation: Mapping[str, Any]) -> tuple[Failure, ...]:
    found = []
    for status, response in operation["responses"].items():
        examples = [
            example["value"]["detail"]
            for content in response.get("content", {}).values()
            for example in content.get("examples", {}).values()
        ]
        if int(status) >= 400:
            found.append(Failure(status, response["description"], tuple(examples)))
    return tuple(found)


def _parameter(parameter: Mapping[str, Any]) -> Value:
    value = _value(parameter["name"], parameter["schema"], required=parameter.get("required", False))
    place = "in the path" if parameter["in"] == "path" else "in the query"
    return Value(value.name, f"{value.type}, {place}", None, parameter["description"], value.example, value.required)


def _model(name: str, schema: Mapping[str, Any]) -> Model:
    required = schema.get("required", ())
    fields = tuple(
        _value(field, own, required=field in required) for field, own in schema.get("properties", {}).items()
    )
    return Model(name, schema.get("description", ""), fields)


def _value(name: str, schema: Mapping[str, Any], *, required: bool) -> Value:
    kind, model = _type(schema)
    inner = next((part for part in schema.get("anyOf", ()) if part.get("type") != "null"), schema)
    notes = [text for text in (inner.get("description"), _bounds(inner)) if text]
    examples = inner.get("examples", ())
    return Value(name, kind, model, " ".join(notes), str(examples[0]) if examples else None, required)


def _type(schema: Mapping[str, Any]) -> tuple[str, str | None]:
    """The type in words, and the model at its heart."""
    if "$ref" in schema:
        model = schema["$ref"].removeprefix(_REFERENCE)
        return model, model
    if "anyOf" in schema:
        kinds = [_type(part) for part in schema["anyOf"]]
        return " or ".join(kind for kind, _ in kinds), next((model for _, model in kinds if model), None)
    if schema.get("type") == "array":
        kind, model = _type(schema.get("items", {}))
        return f"array of {kind}", model
    if schema.get("type") == "object":
        return "object", None
    return str(schema.get("type", "any")), None


def _bounds(schema: Mapping[str, Any]) -> str:
    parts = []
    if "enum" in schema:
        parts.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".")
    if "default" in schema:
        parts.append(f"`{schema['default']}` when it is not given.")
    if schema.get("maximum", _LONGEST) < _LONGEST:
        parts.append(f"{schema.get('minimum', 0)} to {schema['maximum']}.")
    return " ".join(parts)
