"""Shortens the script of an edge, because CloudFront runs no function of more than 10 kB.

This is no minifier for any script. It relies on how the template is written, as each function here says, and
`exporter.serve.edge` refuses a result that is still too long.
"""

from __future__ import annotations

import re
from string import ascii_uppercase

_LITERAL = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|/(?:[^/\\\[]|\\.|\[(?:[^]\\]|\\.)*])+/)""")
"""A string or a regular expression in the script. The script divides nothing, so ``/`` begins a regular expression."""


def short_script(script: str) -> str:
    """The script in one line below its first comments, without other comments, and with short names of functions.

    Every statement in it ends with a semicolon or a brace, so it means the same without line ends.
    """
    lines = [line.strip() for line in script.splitlines()]
    comment_count = next(index for index, line in enumerate(lines) if not line.startswith("//"))
    code = "".join(line for line in lines[comment_count:] if not line.startswith("//"))
    return "\n".join([*lines[:comment_count], _with_short_names(code), ""])


def _with_short_names(script: str) -> str:
    """The script without spaces around punctuation, and with one capital as the name of each function.

    Strings and regular expressions stay as they are. ``handler`` keeps its name, because the platform calls it. No
    constant in the script is a single capital.
    """
    parts = _LITERAL.split(script)  # every other part is a literal
    functions = [name for part in parts[::2] for name in re.findall(r"\bfunction (\w+)\(", part)]
    short_names = dict(zip((name for name in functions if name != "handler"), ascii_uppercase, strict=False))
    for index in range(0, len(parts), 2):
        renamed = re.sub(r"(?<![.\w])\w+(?!\s*:)\b", lambda word: short_names.get(word[0], word[0]), parts[index])
        parts[index] = re.sub(r"\s*([-=!<>&|?:,;{}()+])\s*", r"\1", renamed)
    return "".join(parts)
