"""The tree that all rules serve, and the rules in their places."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config import Settings
from exporter.serve.preview import bind, make_server
from exporter.tree.families import HISTORY, POOL_DOCUMENT, TOKEN, TOKENS_OF_SYMBOL, totals_key
from exporter.tree.problems import GENERIC_PROBLEMS
from exporter.tree.read_back import file_of
from tests.render.rendering import write
from tests.serve.edge.nginx_server import free_port, nginx_or_skip, running, write_rule
from tests.serve.edge.targets import HttpTarget, NodeProcess
from tests.serve.test_preview import BIG, COMMON, write_served_tree


@pytest.fixture(scope="package")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the preview server's tests without its link to the outside, and what is needed for every route."""
    folder = tmp_path_factory.mktemp("edge") / "public"
    write_served_tree(folder)
    (folder / "v1" / "out.json").unlink()
    write(folder, map(file_of, GENERIC_PROBLEMS))
    for key in (
        POOL_DOCUMENT.key(market=BIG, pool=COMMON),
        TOKEN.key(address=COMMON),
        "v1/tokens.json",
        TOKENS_OF_SYMBOL.key(symbol="usdc"),
        *(HISTORY.key(market=BIG, pool=COMMON, bucket=bucket) for bucket in ("1d", "1h")),
        *(
            totals_key(scope, name)
            for scope, name in (("market", BIG), ("token", COMMON), ("protocol", "blend"), ("network", "network"))
        ),
    ):
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_text(f'{{"of":"{key}"}}')
    for folder_name in ("pages", "buckets", "buckets/totals"):
        path = folder / "v1" / folder_name / "47DEQpj8HBSa-_TImW-5JC.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"of":"{folder_name}"}}')
    return folder


@pytest.fixture(scope="package")
def preview(root: Path) -> Iterator[HttpTarget]:
    """The preview server."""
    with bind("127.0.0.1", 0) as listener:
        server = make_server(root)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield HttpTarget(listener.getsockname()[1])
        server.should_exit = True
        thread.join(timeout=20)


@pytest.fixture(scope="package")
def nginx(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpTarget]:
    """A real nginx with the rendered rule."""
    program, port = nginx_or_skip(), free_port()
    configuration = write_rule(tmp_path_factory.mktemp("nginx"), root, Settings(), port)
    with running(program, configuration, port):
        yield HttpTarget(port)


@pytest.fixture(scope="package")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Both JavaScript rules on their simulated platforms."""
    process = NodeProcess(tmp_path_factory.mktemp("node"), root, Settings())
    yield process
    process.close()
