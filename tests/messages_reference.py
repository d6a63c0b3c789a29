"""docs/messages.txt, the warnings and notices of the package: ``python -m tests.messages_reference`` writes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATH = ROOT / "docs" / "messages.txt"
INTRODUCTION = """\
The warnings and notices of the package; what is in braces differs. After reading it you know what lines in a log and
`notices` of /v1/system/status may say. scripts/docs writes it from the code. After a warning or a notice the run goes
on and publishes what it could read; docs/failures.md has what ends a run.
"""
KINDS = {"warning": "Warnings: printed, and in the run report", "notice": "Notices: also published in the status"}


def render() -> str:
    """The file: each kind of message, sorted."""
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for path in sorted((ROOT / "exporter").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for kind, text in _messages(node):
                found[kind].add(text)
    parts = [f"{KINDS[kind]}\n\n" + "\n".join(sorted(texts)) + "\n" for kind, texts in found.items()]
    return "\n".join([INTRODUCTION, *parts])


def _messages(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The kind and the words of what a call reports; nothing where its words come from elsewhere."""
    match node:
        case ast.Call(func=ast.Attribute(attr="warning"), args=[words, *_]):
            kind = "warning"
        case (
            ast.Call(func=ast.Attribute(attr="notice") | ast.Name(id="notice"), args=[words, *_])
            | ast.Call(
                func=ast.Attribute(attr="append", value=ast.Attribute(attr="notices") | ast.Name(id="notices")),
                args=[words],
            )
            | ast.Assign(targets=[ast.Name(id="notice")], value=words)
        ):
            kind = "notice"
        case ast.Return(value=ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) as words) if (
            start[:6] == "drift:"
        ):
            kind = "notice"
        case _:
            return
    if re.search("[a-z]{2} [a-z]", text := _words(words)):
        yield kind, text


def _words(node: ast.expr) -> str:
    """A text as it is printed, with the name of each value in braces."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_words(part) for part in parts)
        case ast.FormattedValue(value=ast.IfExp(body=body, orelse=other)):
            return f"[{_words(body)}|{_words(other)}]"
        case ast.BinOp(left=left, right=right):
            return _words(left) + _words(right)
        case ast.IfExp(body=body, orelse=other):
            return f"[{_words(body)}|{_words(other)}]"
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="pluralize"), args=[_, ast.Constant(value=str(noun))])):
            return f"{{count}} {noun}s"
        case ast.FormattedValue(value=value):
            return f"{{{_name(value)}}}"
        case _:
            return f"{{{_name(node)}}}"


def _name(node: ast.expr) -> str:
    """The last name in an expression, such as ``market`` of ``item.market``."""
    names = [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Name)
    ]
    return names[0].strip("_").lower() if names else "value"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
