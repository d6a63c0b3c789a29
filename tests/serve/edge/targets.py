"""The servers that answer the cases: the preview server, a real nginx, and both JavaScript rules in Node."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from exporter.config import Settings
from exporter.serve.edge import render_edge, write_edge
from exporter.tree.families import kind_of
from exporter.tree.headers import cache_control, content_type
from tests.serve.edge.cases import Answer, Case

NODE_SECONDS = 120.0
"""A request that is not answered by then has hung the rule."""

Ask = Callable[[Case], Answer]


class HttpTarget:
    """Asks a server, and sends URLs exactly as they are."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, case: Case) -> Answer:
        """Ask, and read the whole answer."""
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=20)) as connection:
            connection.putrequest(case.method, case.url, skip_accept_encoding=True)
            for name, value in case.headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            headers: dict[str, str] = {}
            for name, value in response.getheaders():  # what is sent twice is read as a list
                headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
            return Answer(response.status, headers, response.read())


class NodeProcess:
    """The simulator of the two platforms, run by Node: one line in, one line out."""

    def __init__(self, folder: Path, root: Path, settings: Settings) -> None:
        program = shutil.which("node")
        if program is None:
            pytest.skip("node is not installed, so the rules in JavaScript were not tried")
        workers = {}
        for name, origin in (("worker_r2", None), ("worker_origin", "https://tree.example/")):
            (script,) = write_edge(folder / name, render_edge("cloudflare", settings, root=None, origin=origin))
            workers[name] = str(script.rename(script.with_suffix(".mjs")))
        write_edge(folder / "cloudfront", render_edge("cloudfront", settings, root=None, origin=None))
        objects = {
            key: (kind, cache_control(kind_of(key)))
            for path in root.rglob("*")
            if path.is_file() and not path.is_symlink()
            for key in [path.relative_to(root).as_posix()]
            if (kind := content_type(key)) is not None
        }
        setup = {"root": str(root), "objects": objects, "cloudfront": str(folder / "cloudfront"), **workers}
        (folder / "setup.json").write_text(json.dumps(setup))
        command = [program, str(Path(__file__).with_name("simulator.mjs")), str(folder / "setup.json")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def target(self, name: str) -> Ask:
        """Ask one of the simulated platforms."""

        def ask(case: Case) -> Answer:
            answer = self._exchange({"target": name, "method": case.method, "url": case.url, "headers": case.headers})
            return Answer(answer["status"], answer["headers"], base64.b64decode(answer["body"]), answer.get("asked"))

        return ask

    def _exchange(self, request: dict[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = Timer(NODE_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise AssertionError(f"the rule ended with an error, or did not answer: {request}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=20)
