"""A client that openapi-typescript makes compiles, refuses mistakes, and walks a served tree.

scripts/test-clients installs the packages from npm and runs this file; without them it is skipped.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.embedded import PROJECT_ROOT

INSTALLED = PROJECT_ROOT / "build" / "clients"
SOURCE = Path(__file__).with_name("walk.ts")


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program to its end and give what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def program(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed; the TypeScript client needs Node 20 or newer with npm")
    if not (INSTALLED / "node_modules" / ".package-lock.json").is_file():
        pytest.skip("openapi-typescript is not installed in build/clients; scripts/test-clients does that")
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(INSTALLED / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(SOURCE, folder)
    programs = folder / "node_modules" / ".bin"
    run(programs / "openapi-typescript", tree / "v1/openapi.json", "-o", folder / "api.d.ts", cwd=folder)
    options = ("--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler")
    run(programs / "tsc", *options, "--lib", "es2022,dom", "walk.ts", cwd=folder)
    return folder / "walk.js"


@pytest.mark.slow
def test_the_client_compiles_and_walks(program: Path, tree: Path, url: str) -> None:
    """The typed client compiles, finds every pool once over all pages, and reads the other documents."""
    found = json.loads(run("node", program, url, cwd=program.parent))
    rows = json.loads((tree / "v1/assets/index.json").read_bytes())["data"]
    first = rows[0]
    market = json.loads((tree / f"v1/markets/{first['market']}.json").read_bytes())
    detail = json.loads((tree / f"v1/assets/{first['market']}/{first['pool']}.json").read_bytes())
    everything = json.loads((tree / "v1/protocol/summary/history/1d.json").read_bytes())

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
