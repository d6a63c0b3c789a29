"""The rule for Cloudflare in Cloudflare's own runtime, workerd, with a bucket that miniflare keeps."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config import Settings
from exporter.serve.edge import render_edge, write_edge
from exporter.tree.headers import content_type
from tests.serve.edge.cases import can_be_sent, expected, faults, table
from tests.serve.edge.conftest import root
from tests.serve.edge.targets import HttpTarget

__all__ = ["root"]  # the tree of the edge's own suite

INSTALLED = Path(__file__).parents[2] / "build" / "clients"


@pytest.fixture(scope="module")
def worker(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpTarget]:
    """The Worker, listening, with the tree in its bucket."""
    if not (INSTALLED / "node_modules" / "miniflare").is_dir():
        pytest.skip("there is no miniflare in build/clients; scripts/test-clients installs it")
    folder = tmp_path_factory.mktemp("workerd")
    (script,) = write_edge(folder, render_edge("cloudflare", Settings(), root=None, origin=None))
    keys = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    (folder / "keys.json").write_text(json.dumps([key for key in keys if content_type(key)]))
    runner = str(Path(__file__).with_name("workerd.mjs"))
    command = ["node", runner, str(script), str(root), str(folder / "keys.json"), str(INSTALLED)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        target = HttpTarget(int(process.stdout.readline()))
        yield target
        target.close()
        process.communicate(timeout=20)


def test_the_worker_in_its_runtime(worker: HttpTarget, root: Path) -> None:
    """Every case of the edge's suite is answered as elsewhere; dots and doubled slashes are tidied up before it."""
    tidied = re.compile(r"/(?:\.|%2e)|//|\\|%5c", re.IGNORECASE)
    cases = [case for case in table() if can_be_sent(case) and not tidied.search(case.path)]

    assert len(cases) > 250
    assert [] == [fault for case in cases for fault in faults(case, expected(case, root), worker(case), root)]
