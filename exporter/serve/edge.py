"""The rule from URL to file (`exporter.tree.routes`) for web servers and content delivery networks, as ports of it.

Their templates are ``site_templates/edge``; one suite of cases holds for all (tests/serve/edge).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import jinja2
import msgspec

from exporter.config import Settings
from exporter.errors import ConfigError, StoreError
from exporter.ledger.rpc.endpoints import url_or_none
from exporter.render.site.templates import template_folder
from exporter.stores import scheme_of
from exporter.tree import families, headers, problems, routes
from exporter.tree.files import FileKind
from exporter.tree.problems import Problem, encode_problem, problem
from exporter.tree.routes import MAX_LIMIT
from exporter.tree.values import BUCKET_NAMES, CONTRACT, CURSOR, DEFAULT_BUCKET, POOL, PROTOCOL

# Regular expressions for nginx, which sees queries as they were sent and cannot compare numbers. They are of PCRE and
# anchored by whoever uses them. Parameter names, digits and the names of buckets match in their percent-encoded forms
# too, because what follows from them is a constant.

_DIGIT_PREFIX = "(?:%3)?"
"""``%30`` to ``%39`` are the digits."""


ENCODED_CURSOR = "(?:[A-Za-z0-9_-]|%(?:2[Dd]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9Aa])){1,128}"
"""A cursor with any of its characters percent-encoded."""


def either_form(text: str) -> str:
    """Matches a word of ASCII as it is or with any of its characters percent-encoded."""
    forms = []
    for character in text:
        digits = f"{ord(character):02x}"
        encoded = "".join(digit if digit.isdigit() else f"[{digit.upper()}{digit}]" for digit in digits)
        forms.append(f"(?:{character}|%{encoded})")
    return "".join(forms)


def first_value(name: str) -> str:
    """Captures a parameter's first value, if any. It never goes back (``*+``): a long query costs its length."""
    own = either_form(name)
    return f"^(?:(?!{own}(?:=|&|$))[^&]*&)*+{own}=([^&]+)"


def integers(low: int, high: int) -> str:
    """Matches the whole numbers from ``low`` to ``high``, with any leading zeros, digits encoded or not."""
    return f"(?:{_DIGIT_PREFIX}0)*+(?:{'|'.join(_ranges(low, high))})"


def _ranges(low: int, high: int) -> Iterator[str]:
    while low <= high:
        # The largest block 10^k that begins at low and does not go beyond high.
        free = 0
        while low % 10 ** (free + 1) == 0 and low + 10 ** (free + 1) - 1 <= high:
            free += 1
        # Blocks of that size one after another differ in one digit.
        block = 10**free
        fixed, first = divmod(low // block, 10)
        count = min(10 - first, (high - low + 1) // block)
        shared = "".join(f"{_DIGIT_PREFIX}{digit}" for digit in str(fixed)) if fixed else ""
        differs = f"[{first}-{first + count - 1}]" if count > 1 else str(first)
        rest = f"(?:{_DIGIT_PREFIX}[0-9]){{{free}}}" if free else ""
        yield f"{shared}{_DIGIT_PREFIX}{differs}{rest}"
        low += count * block


def limits(sizes: Sequence[int]) -> list[tuple[int, str]]:
    """(page size, expression of the limits that it answers), ascending; the first is the page without rows."""
    bounds = [*sizes[1:], MAX_LIMIT + 1]
    pages = [(size, integers(size, above - 1)) for size, above in zip(sizes, bounds, strict=True)]
    return [(0, f"(?:{_DIGIT_PREFIX}0)++"), *pages]


Platform = Literal["nginx", "cloudfront", "cloudflare"]

OPEN_FILES = 200
"""Files that nginx keeps open: few enough, with its connections, for the 1,024 that most systems allow a process."""

BARE_ERRORS = (408, 412, 413, 501)
"""Statuses that nginx may answer in its own words, in addition to the errors that have a problem document."""

MAX_FUNCTION_BYTES = 10_240
"""What CloudFront accepts as the code of a function."""

_UNQUOTABLE = re.compile(r"[\x00-\x1f\"'$\\]")
"""Characters that cannot be in a quoted path of an nginx configuration (``$`` has no escape there)."""


def render_edge(platform: Platform, settings: Settings, *, root: str | None, origin: str | None) -> dict[str, str]:
    """A rule's files by name: ``root`` for nginx, ``origin`` (None: a bound R2 bucket) for Cloudflare.

    Raises `ConfigError`.
    """
    if root is not None and platform != "nginx":
        raise ConfigError(f"--root is for nginx only: the rule for {platform} reads no folder")
    if origin is not None and platform != "cloudflare":
        raise ConfigError(f"--origin is for cloudflare only: the rule for {platform} asks no other server")
    sizes = tuple(sorted(settings.output.page_sizes))
    environment = _environment()
    if platform == "nginx":
        return _nginx(environment, sizes, _folder(root, settings.output.uri))
    if platform == "cloudflare":
        return _cloudflare(environment, sizes, origin)
    return _cloudfront(environment, sizes)


def write_edge(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write the files of a rule into a folder, which is made if need be; gives their paths."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
            written.append(folder / name)
    except OSError as error:
        raise StoreError(f"cannot write into {folder}: {error.strerror}. Choose another --out") from error
    return written


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder() / "edge"),
        autoescape=False,  # scripts and configuration files; every value is quoted in its place
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["js"] = lambda value: json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    environment.filters["json"] = lambda value: msgspec.json.encode(value).decode()
    environment.filters["body"] = lambda problem: _nginx_quoted(encode_problem(problem).decode())
    environment.filters["quoted"] = _nginx_quoted
    return environment


def _nginx_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _refused(name: str, accepted: str) -> Problem:
    """400 without the client's own value, which a rule would have to escape."""
    return problem(400, f"{name} must be {accepted}.")


def _common(sizes: tuple[int, ...]) -> dict[str, Any]:
    return {
        "sizes": sizes,
        "max_limit": routes.MAX_LIMIT,
        "max_url": problems.MAX_URL_LENGTH,
        "empty_page": families.EMPTY_PAGE_KEY,
        "bucket_names": BUCKET_NAMES,
        "default_bucket": DEFAULT_BUCKET,
        "problem_type": headers.PROBLEM_CONTENT_TYPE,
        "types": headers.CONTENT_TYPES,
        "every_answer": headers.EVERY_ANSWER,
        "preflight": headers.PREFLIGHT,
        "methods": problems.METHODS,
        "error_cache": headers.ERROR_CACHE_CONTROL,
        "uncached": headers.UNCACHED,
        "cached": {kind.value: headers.cache_control(kind) for kind in FileKind},
        "immutable": (*families.prefixes(FileKind.PAGE), *families.prefixes(FileKind.HISTORY)),
        "pointer": families.POINTER_KEY,
        "errors_folder": headers.ERRORS_FOLDER,
        "generic": {document.status: document for document in problems.GENERIC_PROBLEMS},
        "titles": {document.status: document.title for document in problems.GENERIC_PROBLEMS},
        "shown": problems.SHOWN_CHARACTERS,
        "missing_page": problems.MISSING_PAGE,
        "unsupported": routes.UNSUPPORTED_FILTERS,
        "lists": {name: ", ".join(accepted) for name, accepted in routes.LISTS.items()},
        "contract": CONTRACT,
        "pool_form": POOL,
        "cursor_form": CURSOR,
        "protocol_form": PROTOCOL,
        "bucket_pages": families.BUCKET_PAGE.prefix,
        "totals_pages": families.TOTALS_PAGE.prefix,
        "pools_pages": families.POOLS_PAGE.prefix,
    }


def _nginx(environment: jinja2.Environment, sizes: tuple[int, ...], root: str) -> dict[str, str]:
    market, pool, token = "${edge_market}", "${edge_pool_shown}", "${edge_token}"
    values = _common(sizes) | {
        "root": root,
        "open_files": OPEN_FILES,
        "bare": BARE_ERRORS,
        "refusing": {
            kind: (
                f"(?:^|&)(?:{'|'.join(map(either_form, names))})=[^&]",
                [(name, first_value(name)) for name in names],
            )
            for kind, names in _unsupported().items()
        },
        "bare_lists": [name for name, accepted in routes.LISTS.items() if not accepted],
        "open": either_form("open"),
        "api_path": rf"^/{either_form('v1')}(?:/|(?:(?:\.|%2[Ee]){either_form('json')})?(?:\?|$))",
        "names": {
            name: first_value(name) for name in ("market", "token", "cursor", "limit", "bucket", "protocol", "status")
        },
        "limits": limits(sizes),
        "buckets": [(name, either_form(name)) for name in BUCKET_NAMES if name != DEFAULT_BUCKET],
        "day_pattern": either_form(DEFAULT_BUCKET),
        "encoded_cursor": ENCODED_CURSOR,
        "refused": {
            "market": _refused("market", routes.STRKEY_ACCEPTED),
            "token": _refused("token", routes.STRKEY_ACCEPTED),
            "address": _refused("address", routes.STRKEY_ACCEPTED),
            "pool": _refused("pool", routes.POOL_ACCEPTED),
            "limit": _refused("limit", routes.LIMIT_ACCEPTED),
            "bucket": _refused("bucket", routes.BUCKET_ACCEPTED),
            "day": _refused("bucket", routes.DAY_ACCEPTED),
            "assets_name": problems.not_a_parameter("${edge_assets_unsupported}", "/v1/assets", routes.LISTS["assets"]),
            "pools_name": problems.not_a_parameter("${edge_pools_unsupported}", "/v1/pools", routes.LISTS["pools"]),
            "bare_name": problems.not_a_parameter("${edge_bare_unsupported}", "${uri}", ()),
            "together": problems.MUTUALLY_EXCLUSIVE,
            "protocol": _refused("protocol", routes.PROTOCOL_ACCEPTED),
            "status": _refused("status", routes.OPEN_ACCEPTED),
            "cursor": problem(400, "cursor must be sent as it was given, without percent-encoding."),
        },
        "unknown": {
            "cursor": problems.UNKNOWN_CURSOR,
            "bucket_page": problems.UNKNOWN_BUCKET_PAGE,
            "market": problems.unknown_market(market),
            "pool": problems.unknown_pool(market, pool),
            "token": problems.unknown_token(token),
            "path": problems.not_found(),
        },
    }
    return {
        name: environment.get_template(f"{name}.j2").render(values) for name in ("nginx-http.conf", "nginx-server.conf")
    }


def _unsupported() -> dict[str, list[str]]:
    accepted = {"assets": routes.LISTS["assets"], "pools": routes.LISTS["pools"], "bare": ()}
    return {kind: [name for name in routes.UNSUPPORTED_FILTERS if name not in own] for kind, own in accepted.items()}


def _folder(root: str | None, uri: str) -> str:
    parts = urlsplit(uri)
    if root is None and scheme_of(uri) not in (None, "file"):
        raise ConfigError(f"output.uri begins with {scheme_of(uri)}:; name the folder that nginx serves with --root")
    path = str(Path(root or (parts.path if parts.scheme == "file" else uri)).absolute())
    if _UNQUOTABLE.search(path):
        raise ConfigError(f"--root: nginx cannot serve {path!r}: no quotes, backslashes, $ or control characters")
    return path


def _details() -> dict[str, str]:
    """The texts of the JavaScript rules; ``{1}`` and ``{2}`` are names out of the path."""
    return {
        "nothing": problems.not_found().detail,
        "cursor": problems.UNKNOWN_CURSOR.detail,
        "page": problems.UNKNOWN_BUCKET_PAGE.detail,
        "market": problems.unknown_market("{1}").detail,
        "pool": problems.unknown_pool("{1}", "{2}").detail,
        "token": problems.unknown_token("{1}").detail,
        "bare": problems.not_a_parameter("", "", ()).detail.partition(": ")[2],
        "together": problems.MUTUALLY_EXCLUSIVE.detail,
        "protocol": routes.PROTOCOL_ACCEPTED,
        "open": routes.OPEN_ACCEPTED,
        "method": problems.METHOD_NOT_ALLOWED.detail,
        "long": problems.URL_TOO_LONG.detail,
        "strkey": routes.STRKEY_ACCEPTED,
        "pool_id": routes.POOL_ACCEPTED,
        "bucket": routes.BUCKET_ACCEPTED,
        "day": routes.DAY_ACCEPTED,
        "limit": routes.LIMIT_ACCEPTED,
    }


def _cloudfront(environment: jinja2.Environment, sizes: tuple[int, ...]) -> dict[str, str]:
    values, details = _common(sizes), _details()
    # The second function says what is missing; the first has few bytes, and only refuses.
    refusals = details | dict.fromkeys(("market", "pool", "token", "cursor", "page"), "")
    values["titles"] = {status: title for status, title in values["titles"].items() if status < 416}
    files = {
        name: environment.get_template(f"{name}.j2").render(values | {"details": texts})
        for name, texts in (("function.js", refusals), ("missing.js", details))
    }
    # A script without line ends and spaces and, but for those at its top, without comments: a function may have few
    # bytes. Every statement of ours ends with a semicolon or a brace, so nothing but the length depends on them.
    script = files["function.js"]
    lines = [line.strip() for line in script.splitlines()]
    top = next(position for position, line in enumerate(lines) if not line.startswith("//"))
    rest = "".join(line for line in lines[top:] if not line.startswith("//"))
    files["function.js"] = "\n".join([*lines[:top], _without_spaces(rest), ""])
    if len(files["function.js"].encode()) > MAX_FUNCTION_BYTES:
        raise ConfigError(f"output.page_sizes: this number of sizes makes a function above {MAX_FUNCTION_BYTES} bytes")
    allowed = headers.PREFLIGHT
    records = sorted(
        family.prefix + ("*" if family.prefix != family.template else "")
        for family in families.FAMILIES
        if not family.public
    )
    template = environment.get_template("template.json.j2").render(
        code_api=files["function.js"],
        code_missing=files["missing.js"],
        allowed=allowed["access-control-allow-headers"].split(", "),
        exposed=headers.EVERY_ANSWER["access-control-expose-headers"].split(", "),
        methods=problems.METHODS.split(", "),
        remembered=int(allowed["access-control-max-age"]),
        api_errors=[_error_response(code, answer) for code, answer in _ANSWERS.items()],
        missing_errors=[_error_response(code, 200) for code in (403, 404)],
        records=[{"Fn::Sub": f"arn:aws:s3:::${{BucketName}}/${{Prefix}}/{record}"} for record in records],
    )
    return files | {"template.json": msgspec.json.format(template, indent=2) + "\n"}


_ANSWERS = {403: 404, 416: 416, 500: 500, 502: 503, 503: 503, 504: 503}
"""What CloudFront answers instead of an error of the bucket, which says 403 for what is missing."""


def _error_response(code: int, answer: int) -> dict[str, Any]:
    page = families.EMPTY_PAGE_KEY if answer == 200 else families.ERROR.key(status=answer)
    least = 5 if answer in (200, 404) else 0
    return {"ErrorCode": code, "ResponsePagePath": f"/{page}", "ResponseCode": answer, "ErrorCachingMinTTL": least}


_LITERAL = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|/(?:[^/\\\[]|\\.|\[(?:[^]\\]|\\.)*])+/)""")
"""A text or a regular expression in a script of ours, in which nothing is divided."""


def _without_spaces(script: str) -> str:
    """The script without spaces around punctuation, but for those in literals."""
    parts = _LITERAL.split(script)
    parts[::2] = (re.sub(r"\s*([-=!<>&|?:,;{}()+])\s*", r"\1", part) for part in parts[::2])
    return "".join(parts)


def _cloudflare(environment: jinja2.Environment, sizes: tuple[int, ...], origin: str | None) -> dict[str, str]:
    if origin is not None:
        if url_or_none(origin) is None:
            raise ConfigError("--origin: its host or port is invalid; write it as https://host/path")
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"--origin must be an http(s) URL without a query; got a {parts.scheme or 'bare'} one")
        if parts.username is not None:
            raise ConfigError("--origin: the URL must hold no user or password; the rule would publish them")
        origin = origin.rstrip("/")
    values = _common(sizes) | {"details": _details() | {"range": "no byte of the range is among them."}}
    values |= {"origin": origin, "unavailable": problems.UNAVAILABLE.detail}
    return {"worker.js": environment.get_template("worker.js.j2").render(values)}
