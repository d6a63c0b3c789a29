"""Validating documents against the schemas that the tree itself publishes in its OpenAPI document.

Documents are read by the models that the schemas are made from, too; but clients have only the schemas, and these must
hold on their own. So this knows none of the models. It knows the keywords of JSON Schema (2020-12) that the schemas
use, and refuses any other instead of passing over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from exporter.api.fields import ObjectKey
from exporter.errors import CheckError

_PREFIX = "#/components/schemas/"
_ANNOTATIONS = frozenset({"title", "description", "examples", "default", "$comment"})
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

_REPEATED_GROUP = re.compile(r"\)[*+{]")

OUR_PATTERNS = frozenset({get_args(ObjectKey)[1].pattern})
"""Patterns with a repeated group that are known to end soon. Of a stranger's tree any other may take for ever."""

Validator = Callable[[Any, str], Iterator[str]]
"""(value, its path) to what is wrong with it."""


class Schemas:
    """The schemas of an OpenAPI document, by name."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        """Compile them. Raises `CheckError` for a keyword or a reference that is not known."""
        self._compiled: dict[str, Validator] = {}
        self._names = frozenset(components)
        for name, schema in components.items():
            self._compiled[name] = self._compile(schema, name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def faults(self, name: str, value: Any) -> Iterator[str]:
        """What is wrong with a decoded JSON value by the schema of a name."""
        for text in self._compiled[name](value, "$"):
            yield f"is not as the OpenAPI document says: {text}"

    def _compile(self, schema: Any, where: str) -> Validator:
        if not isinstance(schema, dict):
            raise CheckError(f"$.components.schemas: {where} is no schema")
        checks = [
            self._keyword(keyword, argument, schema, f"{where}.{keyword}")
            for keyword, argument in schema.items()
            if keyword not in _ANNOTATIONS
        ]

        def everything(value: Any, path: str) -> Iterator[str]:
            for check in checks:
                yield from check(value, path)

        return everything

    def _keyword(self, keyword: str, argument: Any, schema: Mapping[str, Any], where: str) -> Validator:
        try:
            match keyword:
                case "$ref":
                    return self._reference(argument)
                case "type":
                    return _type(argument)
                case "enum":
                    return _holds(lambda value: value in argument, f"is not one of {argument}")
                case "const":
                    return _holds(lambda value: value == argument, f"is not {argument!r}")
                case "anyOf":
                    return self._any_of(argument, where)
                case "properties":
                    return self._properties(argument, where)
                case "required":
                    return _required(argument)
                case "additionalProperties":
                    return self._additional(argument, frozenset(schema.get("properties", ())), where)
                case "items":
                    return self._items(argument, where)
            return _bound(keyword, argument)
        except (KeyError, TypeError, ValueError, re.error) as error:
            raise CheckError(f"$.components.schemas: {where} is not known here: {error}") from error

    def _reference(self, reference: str) -> Validator:
        name = reference.removeprefix(_PREFIX)
        if name not in self._names or not reference.startswith(_PREFIX):
            raise ValueError(f"{reference} leads to no schema")
        # Looked up when it is used: schemas may refer to each other in any order.
        return lambda value, path: self._compiled[name](value, path)

    def _any_of(self, schemas: list[Any], where: str) -> Validator:
        compiled = [self._compile(schema, where) for schema in schemas]

        def check(value: Any, path: str) -> Iterator[str]:
            if not any(next(validator(value, path), None) is None for validator in compiled):
                yield f"{path} fits none of its schemas"

        return check

    def _properties(self, schemas: Mapping[str, Any], where: str) -> Validator:
        compiled = {name: self._compile(schema, f"{where}.{name}") for name, schema in schemas.items()}

        def check(value: Any, path: str) -> Iterator[str]:
            if isinstance(value, dict):
                for name, validator in compiled.items():
                    if name in value:
                        yield from validator(value[name], f"{path}.{name}")

        return check

    def _additional(self, schema: Any, known: frozenset[str], where: str) -> Validator:
        if schema is True:
            return lambda value, path: iter(())  # noqa: ARG005
        validator = None if schema is False else self._compile(schema, where)

        def check(value: Any, path: str) -> Iterator[str]:
            for name in value if isinstance(value, dict) else ():
                if name in known:
                    continue
                if validator is None:
                    yield f"{path} has the field {name}"
                else:
                    yield from validator(value[name], f"{path}.{name}")

        return check

    def _items(self, schema: Any, where: str) -> Validator:
        validator = self._compile(schema, where)

        def check(value: Any, path: str) -> Iterator[str]:
            if isinstance(value, list):
                for index, item in enumerate(value):
                    yield from validator(item, f"{path}[{index}]")

        return check


def _type(names: str | list[str]) -> Validator:
    allowed = [_TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    kinds = tuple(kind for group in allowed for kind in group)

    def holds(value: Any) -> bool:
        return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))

    return _holds(holds, f"is not of type {names}")


def _required(names: list[str]) -> Validator:
    def check(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    yield f"{path} lacks the field {name}"

    return check


def _bound(keyword: str, limit: Any) -> Validator:
    """Keywords that concern one kind of value only, and leave others alone."""
    text, number, array = (str,), (int, float), (list,)
    if keyword == "pattern":
        if _REPEATED_GROUP.search(limit) and limit not in OUR_PATTERNS:
            raise ValueError(f"{limit} repeats a group, and may take for ever")
        pattern = re.compile(limit)
        return _holds(lambda value: pattern.search(value) is not None, f"does not match {limit}", text)
    known: dict[str, tuple[tuple[type, ...], Callable[[Any], bool]]] = {
        "minLength": (text, lambda value: len(value) >= limit),
        "maxLength": (text, lambda value: len(value) <= limit),
        "minimum": (number, lambda value: value >= limit),
        "maximum": (number, lambda value: value <= limit),
        "exclusiveMinimum": (number, lambda value: value > limit),
        "exclusiveMaximum": (number, lambda value: value < limit),
        "minItems": (array, lambda value: len(value) >= limit),
        "maxItems": (array, lambda value: len(value) <= limit),
    }
    kinds, condition = known[keyword]
    return _holds(condition, f"breaks {keyword} {limit}", kinds)


def _holds(condition: Callable[[Any], bool], otherwise: str, kinds: tuple[type, ...] = (object,)) -> Validator:
    def check(value: Any, path: str) -> Iterator[str]:
        if isinstance(value, kinds) and not condition(value):
            yield f"{path} {otherwise}"

    return check
