"""schemathesis asks a served tree what its description allows and forbids, and finds no failure.

It is a package from PyPI; without it this file is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REQUESTS = 1_000
"""The least that must have been asked."""


def described(tree: Path, *, known: bool) -> dict[str, Any]:
    """The description; with `known`, path parameters are those of documents that are there, and some that are not."""
    document: dict[str, Any] = json.loads((tree / "v1/openapi.json").read_bytes())
    if not known:
        return document
    rows = json.loads((tree / "v1/assets/index.json").read_bytes())["data"]
    run = json.loads((tree / "v1/system/status.json").read_bytes())["run_id"]
    absent = f"C{'A' * 55}"
    row = rows[0]
    tokens = [*{other["token_address"] for other in rows}, absent]
    values = {
        "market": [row["market"], absent],
        "pool": [row["pool"], "0", absent],
        "address": tokens,
        "token": tokens,
        "run_id": [run, "none"],
        "protocol": ["blend", "nobody"],
    }
    for item in document["paths"].values():
        for parameter in item["get"].get("parameters", []):
            if parameter["in"] == "path":
                parameter["schema"] = {"type": "string", "enum": sorted(values[parameter["name"]])}
    return document


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["as published", "with known addresses"])
def test_no_failures(tree: Path, url: str, tmp_path: Path, known: bool) -> None:
    """Of a thousand generated requests and more none is answered otherwise than the description says."""
    if importlib.util.find_spec("schemathesis") is None:
        pytest.skip("schemathesis is not installed; it makes the requests")
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(described(tree, known=known)))
    options = ("--url", url, "--max-examples", "100", "--seed", "1", "--no-color", "--generation-database", "none")
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", str(path), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    generated = re.search(r"(\d+) generated, (\d+) passed", done.stdout)

    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"
    assert generated is not None, done.stdout
    assert generated[1] == generated[2]
    assert REQUESTS <= int(generated[1])
