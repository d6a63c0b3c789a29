"""Clients that others generate from the API's description walk a served tree, and schemathesis finds no failure in it.

scripts/suite clients installs the packages from npm and runs this file; without them their tests are skipped.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.config import Settings
from exporter.serve.edge import render_edge, write_edge
from exporter.tree.headers import content_type
from tests.render.conftest import tree
from tests.serve.edge.cases import can_be_sent, expected, faults, table
from tests.serve.edge.conftest import root
from tests.serve.edge.targets import HttpTarget
from tests.served_commands import PROJECT_ROOT, serving

__all__ = ["root", "tree"]  # fixtures of other suites

INSTALLED = PROJECT_ROOT / "build" / "clients"
PYTHON_CLIENT = "lending_markets_of_soroban_client"
REQUESTS = 1_000
"""The least that schemathesis must have asked."""


def run(*command: str | Path, cwd: Path, timeout: int = 120) -> str:
    """Run a program to its end and give what it printed."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)
    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def url(tree: Path) -> Iterator[str]:
    with serving("serve", "--out", str(tree)) as address:
        yield address


def document(tree: Path, key: str) -> Any:
    return json.loads((tree / f"v1/{key}.json").read_bytes())


@pytest.fixture
def python_client(tree: Path, tmp_path: Path) -> Iterator[Any]:
    """The package that openapi-python-client generates, imported."""
    folder = tmp_path / PYTHON_CLIENT
    options = ("--path", tree / "v1/openapi.json", "--output-path", folder, "--meta", "none")
    said = run(sys.executable, "-m", "openapi_python_client", "generate", *options, cwd=tmp_path)
    # It tidies up with ruff where that is on the path, and warns where it is not; nothing else may be amiss.
    assert "missing" not in said or "ruff" in said, said
    sys.path.insert(0, str(tmp_path))
    yield importlib.import_module(PYTHON_CLIENT)
    sys.path.remove(str(tmp_path))


def operation(name: str) -> Any:
    """A module of the generated package."""
    return importlib.import_module(f"{PYTHON_CLIENT}.api.{name}")


@pytest.mark.slow
def test_the_python_client_walks(python_client: Any, tree: Path, url: str) -> None:
    """The client finds every pool once over all pages, and its objects hold what the documents say."""
    with python_client.Client(base_url=url) as client:
        list_assets = operation("assets.list_assets")
        page = list_assets.sync(client=client, limit=2)
        rows = list(page.data)
        while page.next_cursor is not None:
            page = list_assets.sync(client=client, cursor=page.next_cursor)
            rows += page.data
        first = rows[0]
        detail = operation("assets.get_asset").sync(first.market, first.pool, client=client)
        history = operation("assets.get_asset_history").sync(first.market, first.pool, client=client)
        totals = operation("markets.get_market_history").sync(first.market, client=client)
        status = operation("system.get_system_status").sync(client=client)
        refusal = operation("markets.get_market").sync_detailed("usdc", client=client)

    published = document(tree, "assets/index")["data"]
    pool = f"assets/{first.market}/{first.pool}"
    assert 20 < len(published) <= 50
    assert published == [row.to_dict() for row in rows]
    assert document(tree, pool) == detail.to_dict()
    assert document(tree, f"{pool}/history/1d") == history.to_dict()
    assert document(tree, f"markets/{first.market}/history/1d") == totals.to_dict()
    assert document(tree, "system/status") == status.to_dict()
    assert (400, "Bad Request") == (refusal.status_code, refusal.parsed.title)


@pytest.fixture
def typescript_client(tree: Path, tmp_path: Path) -> Path:
    """The client of walk.ts, compiled against the types that openapi-typescript makes."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed; the TypeScript client needs Node 20 or newer with npm")
    if not (INSTALLED / "node_modules" / ".package-lock.json").is_file():
        pytest.skip("openapi-typescript is not installed in build/clients; scripts/suite clients does that")
    (tmp_path / "node_modules").symlink_to(INSTALLED / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).with_name("walk.ts"), tmp_path)
    programs = tmp_path / "node_modules" / ".bin"
    run(programs / "openapi-typescript", tree / "v1/openapi.json", "-o", tmp_path / "api.d.ts", cwd=tmp_path)
    options = ("--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler")
    run(programs / "tsc", *options, "--lib", "es2022,dom", "walk.ts", cwd=tmp_path)
    return tmp_path / "walk.js"


def lint(program: str, *arguments: str | Path, cwd: Path) -> tuple[int, str]:
    """How a linter ends, and what it says. It reports to nobody and looks for no newer version of itself."""
    linter = INSTALLED / "node_modules" / ".bin" / program
    if not linter.is_file():
        pytest.skip(f"{program} is not installed in build/clients; scripts/suite clients does that")
    environment = os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    command = [str(part) for part in (linter, "lint", *arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def judged(description: Path, folder: Path) -> list[tuple[int, str]]:
    """The findings of Redocly's and Spectral's default rules in a description. Any finding is an error."""
    (folder / "spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    redocly = lint("redocly", description, "--extends", "recommended", "--format", "json", cwd=folder)
    spectral = lint("spectral", "-F", "hint", "-r", folder / "spectral.yaml", description, cwd=folder)
    return [redocly, spectral]


@pytest.mark.slow
def test_linters_find_nothing(tree: Path, tmp_path: Path) -> None:
    """The description passes the default rules of Redocly and Spectral without an error, a warning or a hint."""
    (redocly, said), spectral = judged(tree / "v1/openapi.json", tmp_path)

    assert (0, 0) == (redocly, spectral[0]), said + spectral[1]
    assert [] == json.loads(said[said.index("{") : said.rindex("}") + 1])["problems"]


@pytest.mark.slow
def test_linters_find_what_is_wrong(tree: Path, tmp_path: Path) -> None:
    """Each linter refuses a path whose parameter nobody describes."""
    description = json.loads((tree / "v1/openapi.json").read_bytes())
    path = next(name for name in description["paths"] if "{" in name)
    description["paths"][path]["get"]["parameters"] = []
    (tmp_path / "openapi.json").write_text(json.dumps(description))

    assert [True, True] == [code != 0 for code, _ in judged(tmp_path / "openapi.json", tmp_path)]


@pytest.mark.slow
def test_the_typescript_client_compiles_and_walks(typescript_client: Path, tree: Path, url: str) -> None:
    """The typed client compiles, finds every pool once over all pages, and reads the other documents."""
    found = json.loads(run("node", typescript_client, url, cwd=typescript_client.parent))
    rows = document(tree, "assets/index")["data"]
    first = rows[0]
    market = document(tree, f"markets/{first['market']}")
    detail = document(tree, f"assets/{first['market']}/{first['pool']}")
    everything = document(tree, "protocol/summary/history/1d")

    assert 20 < len(rows) <= 50
    assert [] == everything["data"], "no day has closed"
    assert {
        "rows": [[row["market"], row["pool"]] for row in rows],
        "ofMarket": [pool["pool"] for pool in market["pools"]],
        "supplied": str(sum(int(row["total_supplied"]) for row in rows)),
        "unpriced": sum(row["oracle_price_usd"] is None for row in rows),
        "rateModel": [parameter["name"] for parameter in detail["rate_model"]],
        "firstSeen": 65_000_000,
        "poolCount": market["pool_count"],
        "ledger": 65_000_002,
        "ledgers": [65_000_000, 65_000_001],  # that of the run is in no closed bucket
        "totals": everything,
        "refusal": [400, 400],
    } == found


def with_known_addresses(tree: Path) -> Any:
    """The description whose path parameters are those of documents that are there, and some that are not."""
    description = document(tree, "openapi")
    rows = document(tree, "assets/index")["data"]
    absent = f"C{'A' * 55}"
    tokens = [*{row["token_address"] for row in rows}, absent]
    values = {
        "market": [rows[0]["market"], absent],
        "pool": [rows[0]["pool"], "0", absent],
        "address": tokens,
        "token": tokens,
        "run_id": [document(tree, "system/status")["run_id"], "none"],
        "protocol": ["blend", "nobody"],
        "checkpoint": ["1"],
    }
    for item in description["paths"].values():
        for parameter in item["get"].get("parameters", []):
            if parameter["in"] == "path":
                parameter["schema"] = {"type": "string", "enum": sorted(values[parameter["name"]])}
    return description


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["as published", "with known addresses"])
def test_schemathesis_finds_no_failure(tree: Path, url: str, tmp_path: Path, known: bool) -> None:
    """More than a thousand generated requests are all answered as the description says."""
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(with_known_addresses(tree) if known else document(tree, "openapi")))
    options = ("--url", url, "--max-examples", "100", "--seed", "1", "--no-color", "--generation-database", "none")
    said = run(sys.executable, "-m", "schemathesis.cli", "run", path, *options, cwd=tmp_path, timeout=900)
    generated = re.search(r"(\d+) generated, (\d+) passed", said)

    assert generated is not None, said
    assert generated[1] == generated[2]
    assert REQUESTS <= int(generated[1])


@pytest.fixture(scope="module")
def worker(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpTarget]:
    """The rule for Cloudflare in Cloudflare's own runtime, workerd, with a bucket that miniflare keeps."""
    if not (INSTALLED / "node_modules" / "miniflare").is_dir():
        pytest.skip("there is no miniflare in build/clients; scripts/suite clients installs it")
    folder = tmp_path_factory.mktemp("workerd")
    (script,) = write_edge(folder, render_edge("cloudflare", Settings(), root=None, origin=None))
    keys = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    (folder / "keys.json").write_text(json.dumps([key for key in keys if content_type(key)]))
    runner = str(Path(__file__).with_name("workerd.mjs"))
    command = ["node", runner, str(script), str(root), str(folder / "keys.json"), str(INSTALLED)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield HttpTarget(int(process.stdout.readline()))
        process.communicate(timeout=20)


def test_the_worker_in_its_runtime(worker: HttpTarget, root: Path) -> None:
    """Every case of the edge's suite is answered as elsewhere; dots and doubled slashes are tidied up before it."""
    tidied = re.compile(r"/(?:\.|%2e)|//|\\|%5c", re.IGNORECASE)
    cases = [case for case in table() if can_be_sent(case) and not tidied.search(case.path)]

    assert len(cases) > 250
    assert [] == [fault for case in cases for fault in faults(case, expected(case, root), worker(case), root)]
