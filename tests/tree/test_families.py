"""The table of the tree's families: it has every file of a tree exactly once, and all else agrees with it."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from exporter.config import Settings
from exporter.serve.edge import render_edge
from exporter.stores.s3_client import PRIVATE, object_headers
from exporter.tree.documents import AssetsPage, PoolsPage
from exporter.tree.families import (
    FAMILIES,
    TOKENS_OF_SYMBOL,
    family_of,
    key_of,
    kind_of,
    lacks_extension,
    parse_key,
    prefixes,
)
from exporter.tree.files import FileKind
from exporter.tree.headers import content_type
from exporter.tree.read_back import parse_back
from exporter.tree.routes import Served, route
from exporter.tree.run_listing import RunListing
from tests.audit.trees import good_tree
from tests.render.rendering import contract

M, T = contract(1), contract(2)
DIGEST = "0123456789ab"

NOT_IN_A_SMALL_TREE = {
    "v1/skipped/2.json": "v1/skipped/{number}.json",
    "v1/risk/63.json": "v1/risk/{checkpoint}.json",
    **{
        key: key for key in ("history/liquidations.parquet", "history/risk.parquet", "v1/census.json", "v1/proofs.json")
    },
    **{key: key for key in ("v1/verifier/stellar_proof.py", "v1/verifier/trust.json", "v1/system/superseded.json")},
    **{key: key for key in (".exporter.lease", ".exporter.lock")},
    "markets-2.html": "{list}-{number}.html",
    f"markets/{M}-12.html": "markets/{market}-{number}.html",
    f"tokens/{T}-3.html": "tokens/{address}-{number}.html",
    "tokens/USDC.html": "tokens/{token_symbol}.html",
    "sitemap.xml": "sitemap.xml",
    "history/hourly-2026-09.parquet": "history/hourly-{month}.parquet",
    f"history/pools/month=2026-09/5-9-{DIGEST}.parquet": "history/pools/month={month}/{ledger}-{last}-{digest}.parquet",
    "v1/runs/5-0123456789ab.json": "v1/runs/{run_id}.json",
    "v1/runs/5-0123456789ab.parquet": "v1/runs/{run_id}.parquet",
    f"v1/assets/market/{M}/token/{T}/limit/1.json": "v1/assets/market/{market}/token/{token}/limit/{limit}.json",
    f"v1/buckets/{22 * 'a'}.json": "v1/buckets/{cursor}.json",
    f"v1/buckets/totals/{22 * 'a'}.json": "v1/buckets/totals/{cursor}.json",
    f"v1/pool-pages/{22 * 'a'}.json": "v1/pool-pages/{cursor}.json",
    f"v1/proofs/{64 * 'a'}.json": "v1/proofs/{sha256}.json",
    "state/backfill-lake.journal": "state/{file}",
    f"v1/buckets/5m-{22 * 'a'}.json": "v1/buckets/5m-{recent}.json",
    f"history/pools/date=2026-09-01/5-9-{DIGEST}.parquet": "history/pools/date={day}/{ledger}-{last}-{digest}.parquet",
}


@pytest.fixture
def keys() -> list[str]:
    """Every file of a tree after ten runs, with some compacted days and some complete pages."""
    return sorted(good_tree())


def test_every_file_is_of_exactly_one_family(keys: list[str]) -> None:
    """Every file of a tree belongs to exactly one family, and every family has a file."""
    found = {key: [family.template for family in FAMILIES if family.pattern.fullmatch(key)] for key in keys}
    others = {
        key: [family.template for family in FAMILIES if family.pattern.fullmatch(key)] for key in NOT_IN_A_SMALL_TREE
    }

    assert {} == {key: templates for key, templates in found.items() if len(templates) != 1}
    assert {key: [template] for key, template in NOT_IN_A_SMALL_TREE.items()} == others
    seen = {template for templates in (*found.values(), *others.values()) for template in templates}
    assert [] == [family.template for family in FAMILIES if family.template not in seen]
    assert len(keys) > 400


LISTED_BY_LARGER_RUNS = {
    *("v1/skipped/{number}.json", "{list}-{number}.html", "markets/{market}-{number}.html", "sitemap.xml"),
    *("tokens/{address}-{number}.html", "tokens/{token_symbol}.html", "v1/pool-pages/{cursor}.json"),
    "v1/assets/market/{market}/token/{token}/limit/{limit}.json",
    *("v1/buckets/{cursor}.json", "v1/buckets/totals/{cursor}.json", "v1/buckets/5m-{recent}.json"),
    "history/pools/date={day}/{ledger}-{last}-{digest}.parquet",
    "history/pools/month={month}/{ledger}-{last}-{digest}.parquet",
}
"""Families that the last run of a small tree does not list, but others do, or the manifest of their history."""


def test_a_list_has_each_public_file_or_the_page_says_why(project_root: Path) -> None:
    """A run or the history's manifest lists every published file, except those in the table of docs/api.md."""
    tree = good_tree()
    run = json.loads(tree[json.loads(tree["v1/system/status.json"])["manifest_key"]])
    listed = {template_of(file.key) for file in RunListing(tree[run["files_key"]])}
    text = (project_root / "docs" / "api.md").read_text("utf-8")
    table = text.partition("Not listed | Named by | Why\n---|---|---\n")[2].partition("\n\n")[0]
    told = {name for line in table.splitlines() for name in re.findall("`([^`]+)`", line.partition(" | ")[0])}

    assert told == {family.template for family in FAMILIES if family.public} - listed - LISTED_BY_LARGER_RUNS
    history = json.loads(tree["v1/history.json"])
    assert {"history/daily.parquet", "history/hourly.parquet"} <= {each["key"] for each in history["rollups"]}


def template_of(key: str) -> str:
    """The template of a key's family."""
    family = family_of(key)
    assert family is not None
    return family.template


@pytest.mark.parametrize(
    "key",
    [
        *("v1/nothing.json", "pools.htm", "a/index.html", f"v1/markets/{M[:-1]}.json", "index.html/", "", "v1/assets"),
        *(f"v1/assets/{M}/{T}/history.json", f"v1/assets/{M}/-x.json", "v1/tokens/x.json", "v1/assets/limit/01.json"),
        "v1/assets/index.json\n",
    ],
)
def test_other_keys_are_of_none(key: str) -> None:
    """A file that no version of the exporter writes has no family; nor has a copy without an extension."""
    assert None is family_of(key)


def test_documents_know_their_keys(keys: list[str]) -> None:
    """The key of every document of a tree but pages follows from the document."""
    for key in keys:
        family = family_of(key)
        assert family is not None
        if (
            family.model not in (None, AssetsPage, PoolsPage)
            and family is not TOKENS_OF_SYMBOL
            and family.kind is not FileKind.PAGE
        ):
            assert key == key_of(parse_back(key, good_tree()[key]))


def test_kinds_types_and_lifetimes_follow_from_the_table(keys: list[str]) -> None:
    """Kinds, content types and lifetimes are those that follow from the table."""
    for key in (*keys, *NOT_IN_A_SMALL_TREE):
        family = family_of(key)
        assert family is not None
        assert (family.kind or FileKind.DOCUMENT) is kind_of(key), key
        assert not family.public or content_type(key) is not None, key
        assert not lacks_extension(key), key
        assert (not family.public) == (object_headers(key, b"")["CacheControl"] == PRIVATE), key


def test_urls_lead_to_their_files(keys: list[str]) -> None:
    """The rule sends the public URL of each file to it."""
    for key in keys:
        family = family_of(key)
        assert family is not None
        if family.url is None:
            continue
        found = parse_key(key)
        assert found is not None
        url = family.url.format(**{"market": M, "pool": T} | dict(found[1]))
        path, _, query = url.partition("?")
        answer = route(path, query, (1, 2, 5))
        assert isinstance(answer, Served)
        assert key in answer.keys, url


def allowed(policy: dict[str, Any], key: str) -> bool:
    """Whether a distribution may read a key, as S3 judges it: a Deny goes before all."""
    name = f"arn:aws:s3:::markets/{key}"

    def applies(effect: str) -> bool:
        return any(
            fnmatchcase(name, resource)
            for statement in policy["Statement"]
            if statement["Effect"] == effect and statement["Principal"] != "*"
            for resource in (
                [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]
            )
        )

    return applies("Allow") and not applies("Deny")


def resolved(value: Any, names: dict[str, str]) -> Any:
    """A part of a CloudFormation template with its parameters filled in."""
    if isinstance(value, list):
        return [resolved(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"Fn::Sub"}:
        return {key: resolved(item, names) for key, item in value.items()}
    return re.sub(r"\$\{([^}]+)\}", lambda found: names.get(found[1], found[1]), value["Fn::Sub"])


@pytest.mark.parametrize("prefix", ["live", "a/b"])
def test_the_policy_lets_readers_have_the_tree_and_no_more(keys: list[str], prefix: str) -> None:
    """All that is public may be read; the publisher's records and what lies next to the tree may not."""
    template = json.loads(render_edge("cloudfront", Settings(), root=None, origin=None)["template.json"])
    written = template["Resources"]["BucketPolicy"]["Properties"]["PolicyDocument"]
    policy = resolved(written, {"BucketName": "markets", "Prefix": prefix})
    start = f"{prefix}/"
    for key in (*keys, *NOT_IN_A_SMALL_TREE):
        family = family_of(key)
        assert family is not None
        assert family.public == allowed(policy, start + key), key
    assert not allowed(policy, "other/secret.json")


def test_what_never_changes_is_recognized_by_its_beginning() -> None:
    """The immutable kinds have beginnings of their own, which no document's key has."""
    beginnings = (*prefixes(FileKind.PAGE), *prefixes(FileKind.HISTORY))

    assert [] == [
        family.template
        for family in FAMILIES
        if family.template.startswith(beginnings) and family.kind not in (FileKind.PAGE, FileKind.HISTORY)
    ]


def test_the_only_key_of_a_family() -> None:
    """A family without a placeholder has one key; of another one nobody gets its form as if it were a key."""
    for family in FAMILIES:
        if "{" not in family.template:
            assert family.only_key == family.key()
        else:
            with pytest.raises(ValueError, match="is the form of many keys"):
                _ = family.only_key
