"""A real nginx with TLS over a published tree."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.serve.edge.nginx_server import free_port, nginx_or_skip, running, write_main

_HTTP = """
    types { application/json json; application/vnd.apache.parquet parquet; }
"""
_SERVER = """
        listen 127.0.0.1:{port} ssl;
        ssl_certificate "{folder}/localhost.pem";
        ssl_certificate_key "{folder}/localhost.key";
        root "{root}";
"""


@dataclass(frozen=True, slots=True)
class WebServer:
    """A tree behind HTTPS with plain files and nothing else, as any static host has it."""

    url: str
    authority: Path
    """The certificate that a client must trust."""

    @property
    def trust(self) -> dict[str, str]:
        """The variables by which curl, Node, Polars and Python trust the authority."""
        return dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), str(self.authority))


@contextlib.contextmanager
def https_server(tree: Path, folder: Path) -> Iterator[WebServer]:
    """Serve a tree over HTTPS until the block ends; skips where nginx or openssl is not installed."""
    program = nginx_or_skip()
    folder.mkdir(parents=True, exist_ok=True)
    _make_certificate(folder)
    plain, secure = free_port(), free_port()
    configuration = write_main(folder, plain, _HTTP, _SERVER.format(port=secure, folder=folder, root=tree.resolve()))
    with running(program, configuration, secure):
        yield WebServer(f"https://localhost:{secure}", folder / "authority.pem")


_REQUEST = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
_CERTIFICATES = {
    "authority": "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign",
    "localhost": "-CA authority.pem -CAkey authority.key -addext basicConstraints=CA:FALSE"
    " -addext subjectAltName=DNS:localhost",
}


def _make_certificate(folder: Path) -> None:
    """An authority of two days, and localhost's certificate from it: some clients refuse one that is its own."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed, so there is no certificate to try HTTPS with")
    for name, more in _CERTIFICATES.items():
        command = f"{program} {_REQUEST} -subj /CN={name} -keyout {name}.key -out {name}.pem {more}"
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True, timeout=60)
