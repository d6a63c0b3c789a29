"""Made-up values of any XDR type, built with stellar-sdk's classes, which know each type's fields and arms."""

from __future__ import annotations

import inspect
import random
import re
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from stellar_sdk import xdr

_DEEP = 7
"""From this depth on lists are empty and optional fields are absent, so that types that contain themselves end."""

_MAX_TRIES = 200

_SIGNATURE_BYTES = 64
"""What every signature of the network has. The type would take fewer."""


def made(kind: type[Any] | str, source: random.Random, **given: Any) -> Any:
    """A value of a type of `stellar_sdk.xdr`, or of the type with this name. ``given`` are fields that it must have."""
    cls = getattr(xdr, kind) if isinstance(kind, str) else kind
    return _made(cls, source, 0, given)


_fields_of: dict[type[object], dict[str, Any]] = {}


def _fields(cls: type[object]) -> dict[str, Any]:
    """The types of a class's fields, which are looked up once."""
    if cls not in _fields_of:
        known = {name: each for name, each in vars(xdr).items() if isinstance(each, type)}
        hints = get_type_hints(cls.__init__, {**vars(inspect.getmodule(cls)), **known})
        hints.pop("return", None)
        _fields_of[cls] = hints
    return _fields_of[cls]


def _is_union(cls: type[object]) -> bool:
    own = (cls.__doc__ or "").split("Source Code::")[1].strip()
    return own.startswith("union ")


def _made(cls: type[object], source: random.Random, depth: int, given: dict[str, Any]) -> Any:
    if issubclass(cls, Enum):
        successes = [each for each in cls if each.value == 0]
        return source.choice(successes if successes and source.random() < 0.4 else list(cls))
    types = _fields(cls)
    if _is_union(cls):
        return _made_union(cls, types, source, depth, given)
    sizes = {"signature": _SIGNATURE_BYTES} if cls is xdr.Signature else dict[str, int]()
    for _ in range(_MAX_TRIES):
        fields = {name: _field(types[name], source, depth, sizes.get(name)) for name in types if name not in given}
        try:
            value = cls(**fields, **given)
        except ValueError as error:  # this list, or these bytes, have a fixed length, or a largest one
            name, size = re.findall(r"length of `(\w+)` should be (\d+)", str(error))[0]
            sizes[name] = int(size)
            continue
        for name in fields.keys() - sizes.keys():  # a class takes an empty value even where the length is fixed
            is_many = types[name] is bytes or get_origin(types[name]) is list
            if is_many and source.random() < 0.2:
                setattr(value, name, type(fields[name])())
        return value
    raise AssertionError(f"no value of {cls.__name__} was found")


def _made_union(cls: type[Any], types: dict[str, Any], source: random.Random, depth: int, given: dict[str, Any]) -> Any:
    switch, *_ = types
    for _ in range(_MAX_TRIES):
        chosen = given.get(switch, source.randrange(-1, 6) if types[switch] is int else None)
        value = cls(**{switch: chosen if chosen is not None else _made(types[switch], source, depth, {})})
        for _ in range(2):
            try:
                value.to_xdr_bytes()
                return value
            except ValueError as error:
                arm = re.match(r"(\w+) should not be None", str(error))
                if arm is None:
                    break  # no arm has this number
                name = arm[1]
                setattr(value, name, given.get(name) or _field(types[name], source, depth, None, needed=True))
    raise AssertionError(f"no value of {cls.__name__} was found")


def _field(hint: Any, source: random.Random, depth: int, size: int | None, *, needed: bool = False) -> Any:
    is_deep = depth > _DEEP
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
        if not needed and (is_deep or source.random() < 0.5):
            return None
    if get_origin(hint) is list:
        count = (0 if is_deep else source.choice((1, 1, 2))) if size is None else size
        return [_field(get_args(hint)[0], source, depth + 1, None) for _ in range(count)]
    if hint is bytes:
        return source.randbytes(source.randrange(1, 7) if size is None else size)
    if hint is int:
        return source.randrange(100)
    if hint is bool:
        return source.random() < 0.5
    return _made(cast("type[Any]", hint), source, depth + 1, {})
