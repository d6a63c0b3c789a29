"""The OpenAPI document as the reference page shows it: operations, parameters, fields and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from exporter.render.openapi import openapi_document

_REFERENCE = "#/components/schemas/"
_LONGEST = 2**53
_ANY_TEXT = "…"
_PLAIN = {"integer": 0, "number": 0, "boolean": True, "string": _ANY_TEXT, "object": {}}

Part = dict[str, Any]


@cache
def api_reference() -> Part:
    """The reference, from the very document that clients are generated from."""
    document = openapi_document()
    schemas = document.components["schemas"]
    routes = [_route(path, methods["get"], schemas) for path, methods in document.paths.items()]
    common = [failure for failure in routes[0]["failures"] if all(failure in route["failures"] for route in routes)]
    for route in routes:
        route["failures"] = [failure for failure in route["failures"] if failure not in common]
    return {
        "description": [" ".join(part.split()) for part in document.info["description"].split("\n\n")],
        "routes": routes,
        "common": common,
        "models": [
            {
                "name": name,
                "description": schema["description"],
                "fields": [_value(field, own) for field, own in schema["properties"].items()],
            }
            for name, schema in schemas.items()
        ],
    }


def _route(path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Part:
    parameters, request = operation.get("parameters", ()), path
    for parameter in parameters:
        if parameter["in"] == "path" and (value := _sample(parameter["schema"], {})) != _ANY_TEXT:
            request = request.replace(f"{{{parameter['name']}}}", str(value))
    [answer] = operation["responses"]["200"]["content"].values()
    return {
        "path": path,
        "name": operation["operationId"],
        "summary": operation["summary"],
        "description": operation["description"],
        "parameters": [_parameter(parameter) for parameter in parameters],
        "model": answer["schema"]["$ref"].removeprefix(_REFERENCE),
        "request": request,
        "response": json.dumps(_sample(answer["schema"], schemas), indent=2, ensure_ascii=False),
        "failures": [
            {
                "status": status,
                "title": response["description"],
                "details": [
                    example["value"]["detail"]
                    for content in response["content"].values()
                    for example in content["examples"].values()
                ],
            }
            for status, response in operation["responses"].items()
            if int(status) >= 400
        ],
    }


def _sample(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A value of this form: the first example, the default, the first choice, or one of the parts'."""
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


def _parameter(parameter: Mapping[str, Any]) -> Part:
    value = _value(parameter["name"], parameter["schema"])
    place = "in the path" if parameter["in"] == "path" else "in the query"
    return value | {"type": f"{value['type']}, {place}", "model": None, "note": parameter["description"]}


def _value(name: str, schema: Mapping[str, Any]) -> Part:
    kind, inner = _type(schema), next(part for part in schema.get("anyOf", [schema]) if part.get("type") != "null")
    model = next((word for word in kind.split() if word[0].isupper()), None)
    notes = [text for text in (inner.get("description"), _bounds(inner)) if text]
    example = next((str(example) for example in inner.get("examples", ())), None)
    return {"name": name, "type": kind, "model": model, "note": " ".join(notes), "example": example}


def _type(schema: Mapping[str, Any]) -> str:
    """The type in words; the names of models alone begin with a capital letter."""
    if "$ref" in schema:
        return str(schema["$ref"].removeprefix(_REFERENCE))
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _bounds(schema: Mapping[str, Any]) -> str:
    parts = []
    if "enum" in schema:
        parts.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".")
    if "default" in schema:
        parts.append(f"`{schema['default']}` when it is not given.")
    if schema.get("maximum", _LONGEST) < _LONGEST:
        parts.append(f"{schema.get('minimum', 0)} to {schema['maximum']}.")
    return " ".join(parts)
