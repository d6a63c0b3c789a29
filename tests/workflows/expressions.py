"""What the workflows here use of GitHub's expressions; anything else is an error, so that nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<name>[A-Za-z_][\w.-]*)|(?P<sign>==|!=|&&|\|\||[!(),]))")


def substitute(text: str, context: Mapping[str, Any]) -> str:
    """Replace every ``${{ }}`` of a text."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: _text(evaluate(found[1], context)), text)


def evaluate(expression: str, context: Mapping[str, Any]) -> Any:
    """The value of an expression. ``context`` holds the contexts by name, and the status as ``failed``."""
    parser = _Parser(expression, context)
    value = parser.either()
    if parser.tokens:
        raise ValueError(f"{expression!r}: {parser.tokens} is left over")
    return value


def looks_at_status(expression: str) -> bool:
    """Say whether a condition decides itself what happens after a failure."""
    return re.search(r"\b(always|failure|cancelled|success)\(\)", expression) is not None


class _Parser:
    """Recursive descent over: or, and, comparison, not, value."""

    def __init__(self, expression: str, context: Mapping[str, Any]) -> None:
        self.context = context
        self.tokens: list[str] = []
        rest = expression.strip()
        while rest:
            found = _TOKEN.match(rest)
            if found is None:
                raise ValueError(f"{expression!r}: {rest!r} is not understood")
            self.tokens.append(found[0].strip())
            rest = rest[found.end() :].strip()

    def taken(self, *signs: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in signs else None

    def either(self) -> Any:
        value = self.both()
        while self.taken("||"):
            other = self.both()
            value = value or other
        return value

    def both(self) -> Any:
        value = self.compared()
        while self.taken("&&"):
            other = self.compared()
            value = value and other
        return value

    def compared(self) -> Any:
        value = self.single()
        sign = self.taken("==", "!=")
        if sign is None:
            return value
        same = _text(value).lower() == _text(self.single()).lower()  # GitHub compares texts without case
        return same if sign == "==" else not same

    def single(self) -> Any:
        if self.taken("!"):
            return not self.single()
        if self.taken("("):
            value = self.either()
            assert self.taken(")")
            return value
        token = self.tokens.pop(0)
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if self.taken("("):
            assert self.taken(")"), f"{token} with arguments is not known here"
            return {"always": True, "failure": self.context["failed"], "success": not self.context["failed"]}[token]
        value = self.context
        for part in token.split("."):
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        return value


def _text(value: Any) -> str:
    return {True: "true", False: "false", None: ""}.get(value, str(value)) if not isinstance(value, str) else value
