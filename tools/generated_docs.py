"""The parts of the documentation that are made from the code: ``python -m tools.generated_docs`` writes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
from click.testing import CliRunner

from exporter.cli import main
from exporter.config import ACCEPTED
from exporter.protocols import PROTOCOLS
from exporter.tables import COLUMNS, Column
from exporter.tree.verifier import checker_digests
from tools import costs

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"

CLI = """# Command line

After reading this page you can give each command its options, and know how it ends. `scripts/docs` writes it from the
commands' own help. [failures.md](failures.md#exit-codes) says what to do about each exit code.
These options are the same for each command that has them:

```
{common}
```
"""
COMMON_OPTIONS = ("-h, --help", "--log-format", "--config FILE", "--network TEXT")
"""What is shown once, at the top."""

PROTOCOL_PAGE = """\
# Protocols

After reading this page you know what each protocol's numbers mean. `scripts/docs` writes it from the protocol modules.
`/v1/protocols` also has what the run found, every known address with its source, and what is left out, with the reason.
"""

MESSAGES = """\
The warnings and notices of the package; what is in braces differs. After reading it you know what lines in a log and
`notices` of /v1/system/status may say. scripts/docs writes it from the code. After a warning or a notice the run goes
on and publishes what it could read; docs/failures.md has what ends a run.
"""
MESSAGE_KINDS = {
    "warning": "Warnings: printed, and in the run report",
    "notice": "Notices: also published in the status",
}

_COLUMNS = re.compile(r"(?<=^column \| type \| meaning\n---\|---\|---\n)(.+\n)+", re.MULTILINE)
_KEYS = re.compile(r"(?<=^key \| accepted\n---\|---\n)(.+\n)+", re.MULTILINE)
_SAID_ABOVE = re.compile(
    r", in token base units|, floor to basis points|,? times 10\^\w+|, a strkey|; null when (?:unknown|not known)"
)
"""Units and nulls that the page of columns explains above the table."""
_DIGESTS = re.compile(r"(?<=^```text digests\n).*?(?=^```)", re.MULTILINE | re.DOTALL)
_COSTS = re.compile(r"(?<=^<!-- made by scripts/docs: costs -->\n).*?(?=^<!-- end of what is made -->)", re.M | re.S)


def cli(_: str) -> str:
    """The text of docs/cli.md: the help of the program, of its commands, and of their commands."""
    parts: list[str] = []
    common: dict[str, str] = {}
    for names in _commands(main):
        result = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*names, "--help"], prog_name="exporter")
        assert result.exit_code == 0, result.output
        text = result.output.split("\n\nCommands:\n")[0].rstrip()  # each has its own heading
        text = text.removeprefix(f"Usage: {' '.join(('exporter', *names))} [OPTIONS]\n\n")  # the heading says it
        lines = re.sub(r" RANGE( +|$)", r"\1      ", text, flags=re.MULTILINE).splitlines()
        shared = {line: line.strip() for line in lines if line.strip().startswith(COMMON_OPTIONS)}
        for option, meaning in (text.split("  ", 1) for text in shared.values()):
            assert common.setdefault(option, meaning.strip()) == meaning.strip(), f"{names}: {option}"
        shown = "\n".join(line.rstrip() for line in lines if line not in shared).removesuffix("\n\nOptions:")
        parts.append(f"## {' '.join(('exporter', *names))}\n\n```\n{shown}\n```\n")
    listed = "\n".join(f"{option:32}{meaning}" for option, meaning in sorted(common.items()))
    return "\n".join([CLI.format(common=listed), *parts])


def _commands(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from _commands(command.commands[name], *names, name)


def protocols(_: str) -> str:
    """The text of docs/protocols.md, from what the protocols say about themselves."""
    lines = [PROTOCOL_PAGE]
    for name, protocol in sorted(PROTOCOLS.items()):
        about = protocol.words.coverage
        supply = f"{about.supply_yield} (`{about.supply_compounding}`)"
        borrow = f"{about.borrow_yield} (`{about.borrow_compounding}`)"
        lines += [f"## {about.title} (`{name}`)\n", f"- Formulas and storage: [{name}](protocols/{name}.md)"]
        lines.append(f"- Market: {about.structure}")
        if supply == borrow:
            lines.append(f"- `supply_apy_bps`, `borrow_apy_bps`: {supply}")
        else:
            lines += [f"- `supply_apy_bps`: {supply}", f"- `borrow_apy_bps`: {borrow}"]
        lines.append(f"- A year has {about.year_seconds:,} s. Rates: {about.rates}")
        lines += [f"- Totals: {about.totals}", f"- Prices: {about.prices}"]
        lines += [f"- Not in the numbers: {about.limits}"] if about.limits else []
        for kind, statuses in (("market", protocol.words.market_statuses), ("pool", protocol.words.pool_statuses)):
            lines += [f"- Statuses of a {kind}:"] if statuses else []
            lines += [f"  - `{status}`: {meaning}" for status, meaning in statuses.items()]
        lines.append("")
    return "\n".join(lines)


def messages(_: str) -> str:
    """The text of docs/messages.txt: each kind of message, sorted."""
    found: dict[str, set[str]] = {kind: set() for kind in MESSAGE_KINDS}
    for path in sorted((ROOT / "exporter").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (message := _message(node)) and re.search("[a-z]{2} [a-z]", text := _words(message[1])):
                found[message[0]].add(text)
    parts = [f"{MESSAGE_KINDS[kind]}\n\n" + "\n".join(sorted(texts)) + "\n" for kind, texts in found.items()]
    return "\n".join([MESSAGES, *parts])


def _message(node: ast.AST) -> tuple[str, ast.expr] | None:
    """The kind and the expression of what a node reports."""
    match node:
        case (
            ast.Call(func=ast.Attribute(attr="warning" | "optional"), args=[words, *_])
            | ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id="warnings")), args=[words])
        ):
            return "warning", words
        case (
            ast.Call(func=ast.Attribute(attr="notice") | ast.Name(id="notice"), args=[words, *_])
            | ast.Call(
                func=ast.Attribute(attr="append", value=ast.Attribute(attr="notices") | ast.Name(id="notices")),
                args=[words],
            )
            | ast.Assign(targets=[ast.Name(id="notice")], value=words)
        ):
            return "notice", words
        case ast.Return(value=ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) as words) if (
            start[:6] == "drift:"
        ):
            return "notice", words
    return None


def _words(node: ast.expr) -> str:
    """A text as it is printed, with the name of each value in braces."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_words, parts))
        case ast.FormattedValue(value=ast.IfExp(body=body, orelse=other)) | ast.IfExp(body=body, orelse=other):
            return f"[{_words(body)}|{_words(other)}]"
        case ast.BinOp(left=left, right=right):
            return _words(left) + _words(right)
        case ast.FormattedValue(value=ast.Call(func=ast.Name(id="pluralize"), args=[_, ast.Constant(value=str(noun))])):
            return f"{{count}} {noun}s"
    names = [
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute | ast.Name)
    ]
    return f"{{{names[0].strip('_').lower() if names else 'value'}}}"


def columns(page: str) -> str:
    """The text of docs/history.md with the table of columns that `exporter.tree.pools` has."""
    return _COLUMNS.sub(lambda _: "".join(map(_row, COLUMNS)), page)


def _row(column: Column) -> str:
    meaning = _SAID_ABOVE.sub("", column.meaning)
    short = meaning.replace("; null without a valid price", "")
    null = ("?" if meaning == short else "??") if column.nullable else ""
    return f"`{column.name}` | {column.type}{null} | {short}\n"


def keys(page: str) -> str:
    """The text of docs/configuration.md with the table of keys that `exporter.config` has."""
    return _KEYS.sub(lambda _: "".join(f"`{name}` | {accepted}\n" for name, accepted in ACCEPTED.items()), page)


def digests(page: str) -> str:
    """The text of docs/proofs.md with the digests of the proof checker, in the form of ``sha256sum``."""
    return _DIGESTS.sub("".join(f"{digest}  {name}\n" for name, digest in checker_digests().items()), page)


def prices(page: str) -> str:
    """The text of docs/operations.md with the tables of `tools.costs`."""
    return _COSTS.sub(f"\n{costs.tables()}\n\n", page)


PAGES: Final[dict[str, Callable[[str], str]]] = {
    "cli.md": cli,
    "protocols.md": protocols,
    "messages.txt": messages,
    "history.md": columns,
    "configuration.md": keys,
    "proofs.md": digests,
    "operations.md": prices,
}
"""The function that gives the new text of a page for its text, keyed by page."""


if __name__ == "__main__":
    for name, written in PAGES.items():
        (DOCS / name).write_text(written((DOCS / name).read_text(encoding="utf-8")), encoding="utf-8")
