"""The answers to questions that cannot be asked: a wrong name, a missing or unknown argument, a wrong value.

The SDK would answer with the text of the library that checks its types. Here a tool's own description says what it
takes, all mistakes are said at once, and nothing long is repeated.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from exporter.render.site.text import cut

MOST_CHARACTERS: Final = 200
"""The longest text that an argument may be."""

_MOST_SHOWN: Final = 60
_MOST_DIGITS: Final = 18
_WHOLE: Final = re.compile(rf"[+-]?[0-9]{{1,{_MOST_DIGITS}}}", re.ASCII)
_ARGUMENT: Final = re.compile(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)


class MistakeError(Exception):
    """A question that cannot be asked; the text says what to ask instead."""


class Argument(Struct, frozen=True):
    """What a tool or prompt takes under a name: a choice, a whole number, or a text."""

    name: str
    is_required: bool
    choices: tuple[str, ...] = ()
    is_number: bool = False
    meaning: str = ""

    @property
    def accepted(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return "a whole number" if self.is_number else "a text"

    def checked(self, value: object) -> str | int:
        """The value as the tool takes it. Raises `MistakeError`."""
        if self.is_number:
            if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
                return int(value)
            if isinstance(value, float) and value.is_integer() and abs(value) < 10**_MOST_DIGITS:
                return int(value)
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**_MOST_DIGITS:
                return value
        elif isinstance(value, str):
            if value in self.choices or (not self.choices and len(value) <= MOST_CHARACTERS):
                return value
            if not self.choices:
                raise MistakeError(f"{self.name} has {len(value):,} characters, more than {MOST_CHARACTERS}")
        raise MistakeError(f"{self.name} must be {self.accepted}, not {shown(value)}")


def arguments_of(schema: Mapping[str, Any], text: str) -> tuple[Argument, ...]:
    """The arguments that a JSON schema describes, with their meanings by the "Args" in a docstring."""
    meanings = {name: " ".join(meaning.split()) for name, meaning in _ARGUMENT.findall(text)}
    arguments = []
    for name, given in schema.get("properties", {}).items():
        forms = given.get("anyOf", [given])
        choices = tuple(choice for form in forms for choice in form.get("enum", ()))
        is_number = any(form.get("type") == "integer" for form in forms)
        is_required = name in schema.get("required", ())
        arguments.append(Argument(name, is_required, choices, is_number, meanings.get(name, "")))
    return tuple(arguments)


def checked(what: str, arguments: Iterable[Argument], given: Mapping[str, Any]) -> dict[str, str | int]:
    """The arguments of a call as ``what`` takes them; null counts as left out.

    Raises `MistakeError`, which names all faults.
    """
    by_name = {argument.name: argument for argument in arguments}
    values: dict[str, str | int] = {}
    faults: list[str] = []
    for name, value in given.items():
        if name not in by_name:
            faults.append(f"there is no argument {shown(name)}{nearest(name, by_name)}")
        elif value is not None:
            try:
                values[name] = by_name[name].checked(value)
            except MistakeError as error:
                faults.append(str(error))
    for argument in by_name.values():
        if argument.is_required and given.get(argument.name) is None:
            faults.append(
                f"{argument.name} is missing" + (f": {argument.meaning.rstrip('.')}" if argument.meaning else "")
            )
    if faults:
        takes = ", ".join(f"{each.name} (required)" if each.is_required else each.name for each in by_name.values())
        takes = f"It takes {takes}" if by_name else "It takes no arguments"
        raise MistakeError(f"{what} cannot be asked like this: {'; '.join(faults[:8])}. {takes}.")
    return values


def no_such(kind: str, name: str, names: Iterable[str]) -> MistakeError:
    """The error of a name that is none of these."""
    there = list(names)
    return MistakeError(f"there is no {kind} {shown(name)}{nearest(name, there)}. There are: {', '.join(there)}.")


def nearest(name: str, names: Iterable[str]) -> str:
    """A question for the name that was meant, where one is near."""
    close = difflib.get_close_matches(name[:MOST_CHARACTERS], list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def shown(value: object) -> str:
    """A value in an error: harmless, and short."""
    if isinstance(value, str):
        return f"a text of {len(value):,} characters" if len(value) > _MOST_SHOWN else repr(cut(value, _MOST_SHOWN))
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**_MOST_DIGITS else f"a number of more than {_MOST_DIGITS} digits"
    return "a list" if isinstance(value, list) else "an object"
