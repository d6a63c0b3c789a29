"""The preview server: a published tree over HTTP, with the query parameters, from the files alone.

It answers as the platforms do that serve a tree in earnest: strong ETags, conditional and range requests, any
origin, cache lifetimes by class of file, problem documents for errors. Only plain files inside the folder are
ever sent; a folder without a published run answers 503.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from exporter.console import own_command
from exporter.errors import ConfigError, FormatError
from exporter.render.run_documents import MAX_URL_LENGTH, METHOD_NOT_ALLOWED, URL_TOO_LONG
from exporter.serve.folder_tree import FileResponse, OpenFile, Tree, byte_range, etag_matches
from exporter.tree import problems
from exporter.tree.families import POINTER_KEY, kind_of
from exporter.tree.headers import (
    CONTENT_TYPES,
    ERROR_CACHE_CONTROL,
    EVERY_ANSWER,
    METHODS,
    PREFLIGHT,
    PROBLEM_CONTENT_TYPE,
    UNCACHED,
    cache_control,
    content_type,
)
from exporter.tree.routes import Served, route


def create_app(root: Path) -> Starlette:
    """An application that serves the tree in `root`, which may change, come and go while it runs."""

    async def on_http_exception(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return _error(request.method, problems.problem(status, "The request could not be answered."))

    app = Starlette(
        routes=[Route("/{path:path}", endpoint=_TreeEndpoint(Tree(root)))],
        exception_handlers={HTTPException: on_http_exception, Exception: on_http_exception},
    )
    app.router.redirect_slashes = False
    return app


def run_server(root: Path, host: str, port: int, on_ready: Callable[[str, int], None] | None = None) -> None:
    """Serve the tree in `root` until the process is interrupted; `on_ready` receives the address once it is bound.

    Port 0 takes any free port. Prints nothing. ConfigError when `root` is not a folder or has another format, or the
    address cannot be had.
    """
    if not root.is_dir():
        making = own_command("demo")
        raise ConfigError(f"{root} is not a folder. Name the folder of a published tree, or make one: {making}")
    Tree(root).page_sizes()
    with bind(host, port) as listener:
        address = listener.getsockname()
        if on_ready is not None:
            on_ready(address[0], address[1])
        try:
            make_server(root).run(sockets=[listener])
        except KeyboardInterrupt:
            return


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or ConfigError when the address cannot be had. Port 0 takes any free port."""
    if not 0 <= port <= 65_535:
        raise ConfigError(f"cannot listen on port {port}: a port is a number from 0 to 65535. Choose another --port")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}. Choose another --host or --port") from error
    # Connections inherit it. asyncio sets it only on sockets that name their protocol, which this one does not, and
    # without it every answer on a kept-alive connection waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def make_server(root: Path) -> uvicorn.Server:
    """The HTTP server for a tree, quiet and not yet running."""
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


class _TreeEndpoint:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Reading files blocks, so the answer is made on a worker thread.
        response = await run_in_threadpool(self._answer, Request(scope))
        await response(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        method = request.method
        if method == "OPTIONS":
            return Response(status_code=204, headers=EVERY_ANSWER | PREFLIGHT)
        if method not in ("GET", "HEAD"):
            return _error(method, METHOD_NOT_ALLOWED, {"allow": METHODS})
        sent: bytes = request.scope["raw_path"]
        path = sent.decode("latin-1")
        query: bytes = request.scope["query_string"]
        if len(path) + len(query) > MAX_URL_LENGTH:
            return _error(method, URL_TOO_LONG)
        try:
            sizes = self._tree.page_sizes()
        except FormatError as error:
            return _error(method, problems.nothing_published(str(error)))
        if sizes is None:
            return _error(
                method,
                problems.nothing_published(f"No run is published here: {POINTER_KEY} is missing or unusable."),
            )
        answer = route(path, query.decode("latin-1"), sizes)
        if isinstance(answer, Served):
            for key in answer.keys:
                opened = self._tree.open(key)
                if opened is not None:
                    return _file(request, opened)
            answer = answer.missing
        if answer.status == 404 and problems.is_for_people(path):
            return _refusal(method, 404, problems.MISSING_PAGE.encode(), CONTENT_TYPES["html"])
        return _error(method, answer)


def _file(request: Request, opened: OpenFile) -> Response:
    """The answer for a file: 200, 206, 304 or 416."""
    headers = EVERY_ANSWER | {
        "accept-ranges": "bytes",
        "cache-control": cache_control(kind_of(opened.key)),
        "etag": opened.etag,
    }
    if etag_matches(request.headers.get("if-none-match"), opened.etag):
        opened.file.close()
        return Response(status_code=304, headers=headers)
    headers["content-type"] = content_type(opened.key) or "application/octet-stream"
    wanted = request.headers.get("range") if request.method == "GET" else None
    if request.headers.get("if-range", opened.etag) != opened.etag:
        wanted = None
    part = byte_range(wanted, opened.size)
    if part is None:
        return FileResponse(opened.file, 0, opened.size, 200, headers)
    if not part:
        opened.file.close()
        unsatisfiable = problems.problem(416, f"The file has {opened.size} bytes; no byte of the range is among them.")
        return _error(request.method, unsatisfiable, {"content-range": f"bytes */{opened.size}"})
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{opened.size}"
    return FileResponse(opened.file, part.start, len(part), 206, headers)


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
