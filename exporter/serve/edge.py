"""Writes the rule from URLs to files (`exporter.tree.routes`) for web servers and content delivery networks.

The templates are in ``site_templates/edge``. One suite of cases is run against all of them (tests/serve/edge).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import jinja2
import msgspec

from exporter.config import Settings
from exporter.errors import ConfigError, StoreError
from exporter.ledger.rpc.endpoints import url_or_none
from exporter.render.template_files import template_folder
from exporter.serve.short_script import short_script
from exporter.stores import scheme_of
from exporter.tree import families, headers, problems, routes, values
from exporter.tree.files import FileKind
from exporter.tree.problems import encode_problem, problem
from exporter.tree.routes import MAX_LIMIT
from exporter.user_files import user_path, write_text

# The regular expressions are for nginx, which sees queries as they were sent and cannot compare numbers. They are in
# the syntax of PCRE, and whoever uses them adds the anchors. Names of parameters, digits and names of buckets also
# match if they are percent-encoded.

_DIGIT_PREFIX = "(?:%3)?"
"""Matches the beginning of a percent-encoded digit: ``%30`` to ``%39`` are the digits."""


_LETTER_OR_DIGIT = "3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]"
"""Matches what follows the percent sign of an encoded letter or digit."""

ENCODED_CURSOR = f"(?:[A-Za-z0-9_-]|%(?:2[Dd]|5[Ff]|{_LETTER_OR_DIGIT})){{1,128}}"
"""Matches a cursor, any of whose characters may be percent-encoded."""

ENCODED_NAME = (
    f"(?:[A-Za-z0-9]|%(?:{_LETTER_OR_DIGIT}))(?:[A-Za-z0-9._-]|%(?:2[DdEe]|5[Ff]|{_LETTER_OR_DIGIT})){{0,31}}"
)
"""Matches a symbol or the name of a protocol, any of whose characters may be percent-encoded."""


def either_form(text: str) -> str:
    """A regular expression for an ASCII word, any of whose characters may be percent-encoded."""
    forms = []
    for character in text:
        digits = f"{ord(character):02x}"
        encoded = "".join(digit if digit.isdigit() else f"[{digit.upper()}{digit}]" for digit in digits)
        forms.append(f"(?:{character}|%{encoded})")
    return "".join(forms)


def first_value(name: str) -> str:
    """A regular expression that captures the first value of a parameter.

    It never backtracks (``*+``), so that its time is proportional to the length of the query.
    """
    parameter = either_form(name)
    return f"^(?:(?!{parameter}(?:=|&|$))[^&]*&)*+{parameter}=([^&]+)"


def integers(low: int, high: int) -> str:
    """A regular expression for the integers from ``low`` to ``high``.

    They may have leading zeros, and their digits may be percent-encoded.
    """
    return f"(?:{_DIGIT_PREFIX}0)*+(?:{'|'.join(_ranges(low, high))})"


def _ranges(low: int, high: int) -> Iterator[str]:
    """Regular expressions that together match the integers from ``low`` to ``high``."""
    while low <= high:
        # The number of last digits that are free: of the largest block 10^k that begins at low and ends below high.
        free = 0
        while low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high:
            free += 1
        # Blocks of that size that follow each other differ in one digit.
        block = 10**free
        fixed, first = divmod(low // block, 10)
        count = min(10 - first, (high - low + 1) // block)
        shared = "".join(f"{_DIGIT_PREFIX}{digit}" for digit in str(fixed)) if fixed else ""
        differs = f"[{first}-{first + count - 1}]" if count > 1 else str(first)
        rest = f"(?:{_DIGIT_PREFIX}[0-9]){{{free}}}" if free else ""
        yield f"{shared}{_DIGIT_PREFIX}{differs}{rest}"
        low += count * block


def limits(sizes: Sequence[int]) -> list[tuple[int, str]]:
    """Each page size with a regular expression for the limits that it answers, ascending. The first size is 0."""
    next_sizes = [*sizes[1:], MAX_LIMIT + 1]
    pages = [(size, integers(size, following - 1)) for size, following in zip(sizes, next_sizes, strict=True)]
    return [(0, f"(?:{_DIGIT_PREFIX}0)++"), *pages]


Platform = Literal["nginx", "cloudfront", "cloudflare"]

MAX_FUNCTION_BYTES = 10_240
"""Largest size of a function that CloudFront accepts."""

_UNQUOTABLE = re.compile(r"[\x00-\x1f\"'$\\]")
"""Characters that a quoted path in nginx's configuration cannot have (nothing can escape ``$`` there)."""


def render_edge(platform: Platform, settings: Settings, *, root: str | None, origin: str | None) -> dict[str, str]:
    """The files of the rule for a platform, by name.

    ``root`` is the folder that nginx serves. ``origin`` is the URL that Cloudflare asks for the tree's files; None for
    a bound R2 bucket. Raises `ConfigError` if an argument is not accepted, or is not for this platform.
    """
    if root is not None and platform != "nginx":
        raise ConfigError(f"--root is for nginx only: the rule for {platform} reads no folder")
    if origin is not None and platform != "cloudflare":
        raise ConfigError(f"--origin is for cloudflare only: the rule for {platform} asks no other server")
    environment = _environment(tuple(sorted(settings.output.page_sizes)))
    if platform == "nginx":
        folder, names = _folder(root, settings.output.uri), ("nginx-http.conf", "nginx-server.conf")
        return {name: environment.get_template(f"{name}.j2").render(root=folder) for name in names}
    return _cloudflare(environment, origin) if platform == "cloudflare" else _cloudfront(environment)


def write_edge(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write the files of a rule into a folder, which is made if it is missing, and return their paths.

    Raises `StoreError` if they cannot be written.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_text(folder / name, text, "--out")
            written.append(folder / name)
    except OSError as error:
        raise StoreError(f"cannot write into {folder}: {error.strerror}. Choose another --out") from error
    return written


@cache
def _environment(page_sizes: tuple[int, ...]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder() / "edge"),
        autoescape=False,  # the templates are scripts and configuration files, and quote every value
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "js": lambda value: json.dumps(value, ensure_ascii=True, separators=(",", ":")),
        "json": lambda value: msgspec.json.encode(value).decode(),
        "body": lambda problem: _nginx_quoted(encode_problem(problem).decode()),
        "quoted": _nginx_quoted,
        "either_form": either_form,
        "first_value": first_value,
        "limits": limits,
    }
    # The templates take the constants of the rule from these modules.
    environment.globals |= {"families": families, "headers": headers, "problems": problems, "routes": routes}
    environment.globals |= {
        "values": values,
        "sizes": page_sizes,
        "cached": {kind.value: headers.cache_control(kind) for kind in FileKind},
        "immutable": (*families.prefixes(FileKind.PAGE), *families.prefixes(FileKind.HISTORY)),
        "lists": {name: ", ".join(accepted) for name, accepted in routes.LISTS.items()},
        "encoded_cursor": ENCODED_CURSOR,
        "encoded_name": ENCODED_NAME,
        # The text does not repeat the client's value, which a rule would have to escape.
        "refusal": lambda name, accepted: problem(400, f"{name} must be {accepted}."),
    }
    return environment


def _nginx_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _folder(root: str | None, uri: str) -> str:
    parts = urlsplit(uri)
    if root is None and scheme_of(uri) not in (None, "file"):
        raise ConfigError(f"output.uri begins with {scheme_of(uri)}:; name the folder that nginx serves with --root")
    path = str(user_path(root or (parts.path if parts.scheme == "file" else uri)).absolute())
    if _UNQUOTABLE.search(path):
        raise ConfigError(f"--root: nginx cannot serve {path!r}: no quotes, backslashes, $ or control characters")
    return path


def _cloudfront(environment: jinja2.Environment) -> dict[str, str]:
    titles = {document.status: document.title for document in problems.GENERIC_PROBLEMS if document.status < 416}
    files = {
        name: environment.get_template(f"{name}.j2").render(titles=titles) for name in ("function.js", "missing.js")
    }
    files["function.js"] = short_script(files["function.js"])  # a function may have few bytes
    if len(files["function.js"].encode()) > MAX_FUNCTION_BYTES:
        raise ConfigError(f"output.page_sizes: this number of sizes makes a function above {MAX_FUNCTION_BYTES} bytes")
    records = sorted(
        family.prefix + ("*" if family.prefix != family.template else "")
        for family in families.FAMILIES
        if not family.public
    )
    template = environment.get_template("template.json.j2").render(
        code_api=files["function.js"],
        code_missing=files["missing.js"],
        api_errors=[_error_response(code, answer) for code, answer in _ANSWERS.items()],
        missing_errors=[_error_response(code, 200) for code in (403, 404)],
        records=[{"Fn::Sub": f"arn:aws:s3:::${{BucketName}}/${{Prefix}}/{record}"} for record in records],
    )
    return files | {"template.json": msgspec.json.format(template, indent=2) + "\n"}


_ANSWERS = {403: 404, 416: 416, 500: 500, 502: 503, 503: 503, 504: 503}
"""The HTTP status with which CloudFront answers each error of the bucket. A bucket says 403 for a missing file."""


def _error_response(code: int, answer: int) -> dict[str, object]:
    page = families.EMPTY_PAGE_KEY if answer == 200 else families.ERROR.key(status=answer)
    min_seconds = 5 if answer in (200, 404) else 0
    return {
        "ErrorCode": code,
        "ResponsePagePath": f"/{page}",
        "ResponseCode": answer,
        "ErrorCachingMinTTL": min_seconds,
    }


def _cloudflare(environment: jinja2.Environment, origin: str | None) -> dict[str, str]:
    if origin is not None:
        if url_or_none(origin) is None:
            raise ConfigError("--origin: its host or port is invalid; write it as https://host/path")
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"--origin must be an http(s) URL without a query; got a {parts.scheme or 'bare'} one")
        if parts.username is not None:
            raise ConfigError("--origin: the URL must hold no user or password; the rule would publish them")
        origin = origin.rstrip("/")
    titles = {document.status: document.title for document in problems.GENERIC_PROBLEMS}
    return {"worker.js": environment.get_template("worker.js.j2").render(titles=titles, origin=origin)}
