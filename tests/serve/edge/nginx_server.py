"""A real nginx over a folder, with the rendered rule: one process, unprivileged, on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config import Settings
from exporter.serve.edge import render_edge, write_edge

START_SECONDS = 10.0

_MAIN = """
daemon off;
master_process off;
pcre_jit on;
pid "{folder}/nginx.pid";
error_log "{folder}/error.log" warn;
worker_rlimit_nofile 1024;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path "{folder}/body";
    proxy_temp_path "{folder}/proxy";
    fastcgi_temp_path "{folder}/fastcgi";
    uwsgi_temp_path "{folder}/uwsgi";
    scgi_temp_path "{folder}/scgi";
    sendfile on;
    keepalive_requests 1000000;
    {http}
    server {{
        listen 127.0.0.1:{port};
        {server}
    }}
}}
"""


def nginx_or_skip() -> str:
    """The nginx program; skips the test where there is none."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light), so its rule was not tried")
    return program


def free_port() -> int:
    """A port that nothing listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def write_rule(folder: Path, root: Path, settings: Settings, port: int) -> Path:
    """Write the rendered rule and a configuration around it; gives the configuration's path."""
    http, server = write_edge(folder / "edge", render_edge("nginx", settings, root=str(root), origin=None))
    return write_main(folder, port, f'include "{http}";', f'include "{server}";')


def write_main(folder: Path, port: int, http: str, server: str) -> Path:
    """Write a configuration with a part for the http and one for the server block; gives its path."""
    path = folder / "nginx.conf"
    path.write_text(_MAIN.format(folder=folder, port=port, http=http, server=server))
    return path


@contextlib.contextmanager
def running(
    program: str, configuration: Path, port: int, prefix: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run nginx until the block ends. RuntimeError with its output if it does not start."""
    log = configuration.parent / "error.log"
    command = [*prefix, program, "-e", str(log), "-p", str(configuration.parent), "-c", str(configuration)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _wait(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    said = log.read_text() if log.exists() else "nothing"
    raise RuntimeError(f"nginx did not start within {START_SECONDS:.0f} s; it said: {said}")
