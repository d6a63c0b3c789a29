"""The preview server: serves a published tree over HTTP, with its query parameters, from the files alone.

It answers like the platforms that serve a tree in production. It sends only plain files inside the folder, and answers
503 for a folder without a published run. Publishing renames files, so a file that is read is either the old one or the
new one.
"""

from __future__ import annotations

import errno
import hashlib
import re
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvicorn
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from exporter.console import own_command
from exporter.errors import ConfigError, FormatError
from exporter.tree import problems
from exporter.tree.decoding import decode_json, refuse_other_format
from exporter.tree.families import STATUS_KEY, kind_of
from exporter.tree.headers import (
    CONTENT_TYPES,
    ERROR_CACHE_CONTROL,
    EVERY_ANSWER,
    PREFLIGHT,
    PROBLEM_CONTENT_TYPE,
    UNCACHED,
    cache_control,
    content_type,
)
from exporter.tree.problems import MAX_URL_LENGTH, METHOD_NOT_ALLOWED, METHODS, URL_TOO_LONG
from exporter.tree.routes import Served, route
from exporter.tree.values import Positive
from exporter.user_files import no_folder

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*", re.IGNORECASE)
_ABSENT_ERRORS = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EINVAL,
}


def create_app(root: Path) -> ASGIApp:
    """An application that serves the tree in a folder. The folder may change, appear and vanish while it runs."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            # Reading files blocks, so the answer is made on a worker thread.
            response = await run_in_threadpool(_answer, root, request)
        except Exception:
            failed = problems.problem(500, "The request could not be answered.")
            await _error(request.method, failed)(scope, receive, send)
            raise  # so that whoever runs the server sees it
        await response(scope, receive, send)

    return answer


def run_server(root: Path, host: str, port: int, on_ready: Callable[[str, int], None] | None = None) -> None:
    """Serve a tree until interrupted. ``on_ready`` is called with the host and the port.

    Port 0 stands for any free port. Raises `ConfigError` if there is no such folder, or the address cannot be used, and
    `FormatError` if the tree has another format.
    """
    if reason := no_folder(root):
        command = own_command("demo")
        raise ConfigError(f"{root} {reason}. Name the folder of a published tree, or make one: {command}")
    page_sizes(root)
    with bind(host, port) as listener:
        address = listener.getsockname()
        if on_ready is not None:
            on_ready(address[0], address[1])
        try:
            make_server(root).run(sockets=[listener])
        except KeyboardInterrupt:
            return


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Port 0 stands for any free port. Raises `ConfigError` if the address cannot be used."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server((str(address[0]), port), family=family)
    except (OSError, UnicodeError) as error:
        reason = (error.strerror or error) if isinstance(error, OSError) else "this cannot be the name of a host"
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}. Choose another --host or --port") from error
    # Connections inherit this option. Without it, every answer on a kept-alive connection waits 40 ms for the client's
    # delayed acknowledgement. asyncio sets it only for sockets that name their protocol, which this one does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_server(root: Path) -> uvicorn.Server:
    """The HTTP server for a tree. It logs nothing, and does not run yet."""
    return uvicorn.Server(
        uvicorn.Config(
            create_app(root),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=5,
        )
    )


def read_file(root: Path, key: str) -> bytes | None:
    """The content of a key; None if it is no plain file inside the folder. Symbolic links inside are followed."""
    try:
        folder = root.resolve(strict=True)
        path = (folder / key).resolve(strict=True)
        return path.read_bytes() if path.is_relative_to(folder) and path.is_file() else None
    except (RuntimeError, ValueError):
        # pathlib raises these for a name with a NUL in it and, before Python 3.13, for links that lead in a circle.
        return None
    except OSError as error:
        if error.errno in _ABSENT_ERRORS:
            return None
        raise


class _Status(msgspec.Struct):
    page_sizes: set[Positive]


def page_sizes(root: Path) -> tuple[int, ...] | None:
    """The page sizes of the published run, ascending; None if there is no usable status document.

    Raises `FormatError` if the tree has another format.
    """
    data = read_file(root, STATUS_KEY)
    try:
        refuse_other_format(f"{root}: {STATUS_KEY}", data or b"")
        sizes = decode_json(data or b"", _Status).page_sizes
    except msgspec.DecodeError:
        return None
    return tuple(sorted(sizes)) if 1 in sizes else None


def _answer(root: Path, request: Request) -> Response:
    method = request.method
    if method == "OPTIONS":
        return Response(status_code=204, headers=EVERY_ANSWER | PREFLIGHT)
    if method not in ("GET", "HEAD"):
        return _error(method, METHOD_NOT_ALLOWED, {"allow": METHODS})
    raw_path: bytes = request.scope["raw_path"]
    path = raw_path.decode("latin-1")
    query: bytes = request.scope["query_string"]
    if len(path) + len(query) > MAX_URL_LENGTH:
        return _error(method, URL_TOO_LONG)
    try:
        sizes = page_sizes(root)
    except FormatError as error:
        return _error(method, problems.problem(503, str(error)))
    if sizes is None:
        missing = f"No run is published here: {STATUS_KEY} is missing or unusable."
        return _error(method, problems.problem(503, missing))
    answer = route(path, query.decode("latin-1"), sizes)
    if isinstance(answer, Served):
        for key in answer.keys:
            data = read_file(root, key)
            if data is not None:
                return _file(request, key, data)
        answer = answer.missing
    if answer.status == 404 and problems.is_site_path(path):
        return _refusal(method, 404, problems.MISSING_PAGE.encode(), CONTENT_TYPES["html"])
    return _error(method, answer)


def _file(request: Request, key: str, data: bytes) -> Response:
    etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = EVERY_ANSWER | {"accept-ranges": "bytes", "cache-control": cache_control(kind_of(key)), "etag": etag}
    if etag_matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    headers["content-type"] = content_type(key) or "application/octet-stream"
    range_header = request.headers.get("range") if request.method == "GET" else None
    if request.headers.get("if-range", etag) != etag:
        range_header = None
    part = byte_range(range_header, len(data))
    if part is None:
        headers["content-length"] = str(len(data))
        return Response(b"" if request.method == "HEAD" else data, headers=headers)
    if not part:
        unsatisfiable = problems.problem(416, f"The file has {len(data)} bytes; no byte of the range is among them.")
        return _error(request.method, unsatisfiable, {"content-range": f"bytes */{len(data)}"})
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(data)}"
    return Response(data[part.start : part.stop], status_code=206, headers=headers)


def byte_range(header: str | None, size: int) -> range | None:
    """The positions that a ``Range`` header asks for.

    None stands for the whole file, which is the answer to several ranges, too. An empty range stands for status 416.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None:
        return None
    first, last = match.groups()
    if first:
        start, stop = int(first), int(last) + 1 if last else size
        if last and stop <= start:
            return None
        return range(start, max(start, min(stop, size)))
    if not last:
        return None
    return range(max(0, size - int(last)), size)


def etag_matches(header: str | None, etag: str) -> bool:
    """Whether an ``If-None-Match`` header names the ETag, by weak comparison."""
    if header is None:
        return False
    etags = [part.strip().removeprefix("W/") for part in header.split(",")]
    return "*" in etags or etag in etags


def _error(method: str, document: problems.Problem, more: dict[str, str] | None = None) -> Response:
    return _refusal(method, document.status, problems.encode_problem(document), PROBLEM_CONTENT_TYPE, more)


def _refusal(method: str, status: int, data: bytes, kind: str, more: dict[str, str] | None = None) -> Response:
    headers = EVERY_ANSWER | {
        "cache-control": ERROR_CACHE_CONTROL if status in (400, 404) else UNCACHED,
        "content-type": kind,
        "content-length": str(len(data)),
    }
    content = b"" if method == "HEAD" else data
    return Response(content, status_code=status, headers=headers | (more or {}))
