"""All documents of a published tree beside each other: they say the same, and lead to what is there."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

from exporter.serve.preview import create_app
from exporter.tree.documents import PoolSnapshot
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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tree of all protocols."""
    folder = tmp_path_factory.mktemp("tree")
    publish_tree(folder)
    return folder


def read(tree: Path, key: str) -> Any:
    return json.loads((tree / key).read_bytes())


def rows_of(tree: Path) -> Iterator[dict[str, Any]]:
    """All rows behind the first page."""
    page = read(tree, "v1/assets/limit/5.json")
    while True:
        yield from page["data"]
        if page["next_cursor"] is None:
            return
        page = read(tree, f"v1/pages/{page['next_cursor']}.json")


def test_every_pool_has_its_documents(tree: Path) -> None:
    """Each pool has a detail that begins with its row, six histories that end with the run, and its token names it."""
    rows = list(rows_of(tree))
    ledger = read(tree, "v1/system/status.json")["observed_ledger"]
    for row in rows:
        place = f"v1/assets/{row['market']}/{row['pool']}"
        detail = read(tree, f"{place}.json")
        assert row == {name: detail[name] for name in PoolSnapshot.__struct_fields__}
        for bucket in ("5m", "15m", "1h", "6h", "1d", "1w"):
            newest = read(tree, f"{place}/history/{bucket}.json")
            assert (bucket, ledger, ledger) == (
                newest["bucket"],
                newest["observed_ledger"],
                newest["data"][-1]["last_ledger"],
            )
        token = read(tree, f"v1/tokens/{row['token_address']}.json")
        assert {"market": row["market"], "pool": row["pool"]} in token["pools"]
        assert (row["symbol"], ledger - 2) == (token["symbol"], token["first_seen_ledger"])
    assert len(rows) == len(list((tree / "v1/assets").glob("C*/*.json"))) > 20


def test_rate_models_are_those_of_the_protocols(tree: Path) -> None:
    """Each protocol and generation shows the parameters of its own rate model."""
    shown: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for key in documents_of(tree):
        if key.startswith("v1/assets/C") and "/history/" not in key:
            detail = read(tree, key)
            names = tuple(parameter["name"] for parameter in detail["rate_model"])
            shown.setdefault((detail["protocol"], detail["version"]), set()).add(names)

    assert {("blend", "v1"): {tuple(BLEND_V1)}, ("blend", "v2"): {tuple(BLEND_V2)}} == {
        kind: names for kind, names in shown.items() if kind[0] == "blend"
    }
    assert all(set(names) >= ALULA for names in shown["alula", "v1"])


def test_counts_agree(tree: Path) -> None:
    """Status, summary, list and documents of the markets count the same and value the same."""
    status, summary = read(tree, "v1/system/status.json"), read(tree, "v1/protocol/summary.json")
    markets = read(tree, "v1/markets.json")["data"]
    documents = [read(tree, f"v1/markets/{market['market']}.json") for market in markets]
    values = [int(document["tvl_usd_cents"]) for document in documents if document["tvl_usd_cents"] is not None]

    assert len(markets) == status["market_count"] == summary["market_count"]
    assert sum(market["pool_count"] for market in markets) == status["pool_count"] == summary["pool_count"]
    assert str(sum(values)) == summary["tvl_usd_cents"]
    assert Counter(market["protocol"] for market in markets) == {
        part["protocol"]: part["market_count"] for part in summary["protocols"]
    }
    assert {"alula", "blend"} == {part["protocol"] for part in summary["protocols"]}
    assert len(list((tree / "v1/tokens").iterdir())) == status["token_count"]
    assert (len(status["unread"]), len(status["unpriced"])) == (status["unread_count"], status["unpriced_count"])
    assert 2 == status["unread_count"]
    assert [document["tvl_usd_cents"] for document in documents] == [market["tvl_usd_cents"] for market in markets]


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


def test_histories_are_paged_over_http(tree: Path) -> None:
    """The default is a bucket of a day; a cursor leads through older pages to the first observation."""
    app = create_app(tree)
    row = next(rows_of(tree))
    url = f"/v1/assets/{row['market']}/{row['pool']}/history"
    page = fetch(app, f"{url}?bucket=5m").json()
    ledgers = [bucket["first_ledger"] for bucket in page["data"]]
    while page["next_cursor"] is not None:
        page = fetch(app, f"{url}?cursor={page['next_cursor']}&bucket=whatever").json()
        ledgers = [bucket["first_ledger"] for bucket in page["data"]] + ledgers

    assert [65_000_000, 65_000_001, 65_000_002] == ledgers
    assert fetch(app, url).json() == fetch(app, f"{url}?bucket=1d").json() == fetch(app, f"{url}?bucket=").json()
    assert 400 == fetch(app, f"{url}?bucket=2h").status_code
    assert (
        "public, max-age=31536000, immutable"
        == fetch(app, f"{url}?cursor={fetch(app, f'{url}?bucket=5m').json()['next_cursor']}").headers["cache-control"]
    )


def test_what_is_kept_for_the_next_run_is_not_served(tree: Path) -> None:
    """The state beside the tree is no part of the API."""
    assert (tree / "state/history-buckets.bin").is_file()
    assert 404 == fetch(create_app(tree), "/state/history-buckets.bin").status_code
