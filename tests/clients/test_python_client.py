"""A client that openapi-python-client makes imports and walks a served tree.

The generator is a package from PyPI; without it this file is skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "lending_markets_of_soroban_client"


@pytest.fixture(scope="module")
def package(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The generated package, imported."""
    if importlib.util.find_spec("openapi_python_client") is None:
        pytest.skip("openapi-python-client is not installed; it makes the Python client")
    folder = tmp_path_factory.mktemp("python") / "client"
    options = ("--path", str(tree / "v1/openapi.json"), "--output-path", str(folder), "--meta", "none")
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"
    # It tidies up with ruff where that is on the path, and warns where it is not; nothing else may be amiss.
    assert "missing" not in done.stdout or "ruff" in done.stdout, done.stdout
    folder.rename(folder.with_name(PACKAGE))
    sys.path.insert(0, str(folder.parent))
    try:
        return importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(folder.parent))


def operation(name: str) -> Any:
    """A module of the generated package."""
    return importlib.import_module(f"{PACKAGE}.api.{name}")


@pytest.mark.slow
def test_the_client_walks(package: Any, tree: Path, url: str) -> None:
    """The client finds every pool once over all pages, and its objects hold what the documents say."""
    with package.Client(base_url=url) as client:
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

    published = json.loads((tree / "v1/assets/index.json").read_bytes())["data"]
    assert 20 < len(published) <= 50
    assert published == [row.to_dict() for row in rows]
    document = json.loads((tree / f"v1/assets/{first.market}/{first.pool}.json").read_bytes())
    assert document == detail.to_dict()
    for folder, series in ((f"assets/{first.market}/{first.pool}", history), (f"markets/{first.market}", totals)):
        assert json.loads((tree / f"v1/{folder}/history/1d.json").read_bytes()) == series.to_dict()
    assert json.loads((tree / "v1/system/status.json").read_bytes()) == status.to_dict()
    assert (400, "Bad Request") == (refusal.status_code, refusal.parsed.title)
