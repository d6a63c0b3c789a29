"""A published tree over HTTP: histories and Parquet files, and the rate models of all protocols."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from exporter.check.checker import TreeChecker
from exporter.check.public_urls import links_of
from exporter.serve.preview import create_app
from exporter.tree.files import RenderedFile
from tests.render.rendering import fetch
from tests.render.whole_tree import documents_of, publish_tree

BLEND_V1 = [
    "util", "r_base", "r_one", "r_two", "r_three", "reactivity", "max_util", "c_factor", "l_factor", "bstop_rate",
]  # fmt: skip
BLEND_V2 = [*BLEND_V1[:-1], "enabled", "supply_cap", "bstop_rate"]
ALULA = {
    "base_apr_bps", "kink1_apr_bps", "kink1_ur_bps", "kink2_apr_bps", "kink2_ur_bps", "max_apr_bps",
    "target_utilization_ratio_bps", "ir_reactivity_constant", "take_rate_bps",
}  # fmt: skip


def test_rate_models_are_those_of_the_protocols(tree: Path) -> None:
    """Each protocol and generation shows the parameters of its own rate model."""
    shown: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for key, data in documents_of(tree).items():
        if key.startswith("v1/assets/C") and "/history/" not in key:
            detail = json.loads(data)
            names = tuple(parameter["name"] for parameter in detail["rate_model"])
            shown.setdefault((detail["protocol"], detail["version"]), set()).add(names)

    assert {("blend", "v1"): {tuple(BLEND_V1)}, ("blend", "v2"): {tuple(BLEND_V2)}} == {
        kind: names for kind, names in shown.items() if kind[0] == "blend"
    }
    assert all(set(names) >= ALULA for names in shown["alula", "v1"])


@pytest.mark.parametrize("manifest", ["/v1/history", "/v1/history.json"])
def test_the_manifest_leads_to_its_files(tree: Path, manifest: str) -> None:
    """The URL of each Parquet file, resolved against either URL of the manifest, is the file with the digest."""
    app = create_app(tree)
    files = fetch(app, manifest).json()["files"]
    for file in files:
        answer = fetch(app, urlsplit(urljoin(f"http://preview{manifest}", file["url"])).path)
        assert 200 == answer.status_code
        assert file["sha256"] == hashlib.sha256(answer.content).hexdigest()
    assert 3 == len(files)


def test_histories_over_http(tree: Path) -> None:
    """The default is a bucket of a day; what is there has closed, so that the run itself is not."""
    app = create_app(tree)
    row = json.loads((tree / "v1/assets/index.json").read_bytes())["data"][0]
    for path in (f"assets/{row['market']}/{row['pool']}", f"markets/{row['market']}", "protocol/summary"):
        url = f"/v1/{path}/history"
        ledgers = [bucket["first_ledger"] for bucket in fetch(app, f"{url}?bucket=5m").json()["data"]]

        assert [65_000_000, 65_000_001] == ledgers
        assert fetch(app, url).json() == fetch(app, f"{url}?bucket=1d").json() == fetch(app, f"{url}?bucket=").json()
        assert 400 == fetch(app, f"{url}?bucket=2h").status_code


def test_what_is_kept_for_the_next_run_is_not_served(tree: Path) -> None:
    """The state beside the tree is no part of the API."""
    assert (tree / "state/history-buckets.bin").is_file()
    assert 404 == fetch(create_app(tree), "/state/history-buckets.bin").status_code


def test_renderers_say_where_their_pages_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The links that a run tells of a page are those that are found in its HTML, for every pool of all protocols."""
    pages: list[RenderedFile] = []
    look = TreeChecker.add_rendered

    def kept(checker: TreeChecker, file: RenderedFile) -> None:
        if file.links is not None:
            pages.append(file)
        look(checker, file)

    monkeypatch.setattr(TreeChecker, "add_rendered", kept)
    publish_tree(tmp_path, runs=2)

    assert {page.key for page in pages} >= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("pools/*/*.html")
    }
    for page in pages:
        assert set(links_of(page.key, page.data)) == set(page.links or ()), page.key
        assert len(page.links or ()) > 20
