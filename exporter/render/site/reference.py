"""The OpenAPI document as the reference shows it: an index, and a page for each tag."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from exporter.render.openapi import openapi_document
from exporter.render.operations import TAGS
from exporter.tree.families import API_PAGE
from exporter.tree.problems import Problem

_REFERENCE = "#/components/schemas/"
_LONGEST = 2**53
_ANY_TEXT = "…"
_PLAIN = {"integer": 0, "number": 0, "boolean": True, "string": _ANY_TEXT, "object": {}}

INDEX_KEY = "api.html"

Schema = Mapping[str, Any]


class Value(Struct, frozen=True):
    """A parameter or a field.

    ``model`` is the document that a field holds. ``location`` says where a parameter is sent: in the path or in the
    query.
    """

    name: str
    type: str
    model: str | None
    note: str
    example: str | None
    location: str = ""


class Failure(Struct, frozen=True):
    """A status with which a request may fail, and examples of the details in its answer."""

    status: str
    title: str
    details: Sequence[str]


class Route(Struct, frozen=True):
    """An operation: an example of its response, and the failures that not every operation has."""

    path: str
    name: str
    tag: str
    summary: str
    description: str
    parameters: Sequence[Value]
    model: str
    response: str
    failures: Sequence[Failure]


class Model(Struct, frozen=True):
    """A document, or a part of one."""

    name: str
    description: str
    fields: Sequence[Value]


class TagPage(Struct, frozen=True):
    """The page of a tag: its operations, and the documents that no earlier page has."""

    key: str
    tag: str
    description: str
    routes: Sequence[Route]
    models: Sequence[Model]


class Reference(Struct, frozen=True):
    """The whole reference.

    Attributes:
        description: paragraphs about the whole API.
        pages: the pages of the tags, in their order.
        common: failures that every operation has.
        problem: the document that failures answer with; it is on the index.
        addresses: the address of each document's description: the key of a page, and an anchor.
    """

    description: Sequence[str]
    pages: Sequence[TagPage]
    common: Sequence[Failure]
    problem: Model
    addresses: Mapping[str, str]


@cache
def api_reference() -> Reference:
    """The reference, made from the same document that clients are generated from."""
    document = openapi_document()
    schemas = document.components["schemas"]
    routes = [_route(path, methods["get"], schemas) for path, methods in document.paths.items()]
    everywhere = set.intersection(
        *(
            {_StatusDetail(failure.status, detail) for failure in route.failures for detail in failure.details}
            for route in routes
        )
    )
    common = _failures(routes[0].failures, everywhere, common=True)
    routes = [replace(route, failures=_failures(route.failures, everywhere, common=False)) for route in routes]
    addresses, pages = {Problem.__name__: f"{INDEX_KEY}#{Problem.__name__}"}, []
    for tag, description in TAGS.items():
        key, own = API_PAGE.key(tag=tag), sorted((route for route in routes if route.tag == tag), key=_by_path)
        used = {name for route in own for name in _models_in(route.model, schemas)}
        models = [_model(name, schemas[name]) for name in schemas if name in used and name not in addresses]
        addresses |= {model.name: f"{key}#{model.name}" for model in models}
        pages.append(TagPage(key, tag, description, own, models))
    return Reference(
        description=[" ".join(part.split()) for part in document.info["description"].split("\n\n")],
        pages=pages,
        common=common,
        problem=_model(Problem.__name__, schemas[Problem.__name__]),
        addresses=addresses,
    )


def _by_path(route: Route) -> str:
    return route.path


class _StatusDetail(NamedTuple):
    """A status with which requests fail, and one sentence about when."""

    status: str
    detail: str


def _failures(failures: Sequence[Failure], everywhere: set[_StatusDetail], *, common: bool) -> list[Failure]:
    """Failures with only those details that are in ``everywhere`` (``common``), or only the other ones.

    Failures without any details left are omitted.
    """

    def is_chosen(failure: Failure, detail: str) -> bool:
        return (_StatusDetail(failure.status, detail) in everywhere) is common

    chosen = [
        replace(failure, details=[detail for detail in failure.details if is_chosen(failure, detail)])
        for failure in failures
    ]
    return [failure for failure in chosen if failure.details]


def _models_in(name: str, schemas: Schema) -> set[str]:
    """The names of a document and of all documents that it contains."""
    names, left = set(), [name]
    while left:
        one = left.pop()
        if one not in names:
            names.add(one)
            left += re.findall(rf"{_REFERENCE}(\w+)", json.dumps(schemas[one]))
    return names


def _model(name: str, schema: Schema) -> Model:
    return Model(name, schema["description"], [_value(field, own) for field, own in schema["properties"].items()])


def _route(path: str, operation: Schema, schemas: Schema) -> Route:
    [answer] = operation["responses"]["200"]["content"].values()
    [tag] = operation["tags"]
    return Route(
        path=path,
        name=operation["operationId"],
        tag=tag,
        summary=operation["summary"],
        description=operation["description"],
        parameters=[_parameter(parameter) for parameter in operation.get("parameters", ())],
        model=answer["schema"]["$ref"].removeprefix(_REFERENCE),
        response=json.dumps(_sample(answer["schema"], schemas), indent=2, ensure_ascii=False),
        failures=[
            Failure(
                status,
                response["description"],
                [
                    example["value"]["detail"]
                    for content in response["content"].values()
                    for example in content["examples"].values()
                ],
            )
            for status, response in operation["responses"].items()
            if int(status) >= 400
        ],
    )


def _sample(schema: Schema, schemas: Schema) -> Any:
    """An example of a value of this schema: its first example, default or choice, or one made from its parts."""
    if "$ref" in schema:
        return _sample(schemas[schema["$ref"].removeprefix(_REFERENCE)], schemas)
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    if "default" in schema:
        return schema["default"]
    if "anyOf" in schema:
        value = _sample(next(part for part in schema["anyOf"] if part.get("type") != "null"), schemas)
        return None if value == _ANY_TEXT and {"type": "null"} in schema["anyOf"] else value
    if "properties" in schema:
        return {name: _sample(own, schemas) for name, own in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_sample(schema.get("items", {}), schemas)]
    return _PLAIN.get(str(schema.get("type")))


def _parameter(parameter: Schema) -> Value:
    location = "in the path" if parameter["in"] == "path" else "in the query"
    value = _value(parameter["name"], parameter["schema"])
    return replace(value, model=None, location=location)


def _value(name: str, schema: Schema) -> Value:
    kind, inner = _type(schema), next(part for part in schema.get("anyOf", [schema]) if part.get("type") != "null")
    model = next((word for word in kind.split() if word[0].isupper()), None)
    notes = [text for text in (inner.get("description"), _bounds(inner)) if text]
    example = next((str(example) for example in inner.get("examples", ())), None)
    return Value(name, kind, model, " ".join(notes), example)


def _type(schema: Schema) -> str:
    """The type in words. Only the names of models begin with a capital letter."""
    if "$ref" in schema:
        return str(schema["$ref"].removeprefix(_REFERENCE))
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _bounds(schema: Schema) -> str:
    parts = []
    values = [f"`{value}`" for value in schema.get("enum", ())]
    if len(values) == 1:
        return f"The only value is {values[0]}."
    if values:
        parts.append(f"One of {', '.join(values)}.")
    if "default" in schema:
        parts.append(f"`{schema['default']}` when it is not given.")
    if schema.get("maximum", _LONGEST) < _LONGEST:
        parts.append(f"From {schema.get('minimum', 0)} to {schema['maximum']}.")
    return " ".join(parts)
