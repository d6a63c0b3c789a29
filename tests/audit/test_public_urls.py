"""Checking a tree over HTTP: the preview server passes, servers that break a rule do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from exporter.audit.check_summary import CheckSummary
from exporter.audit.public_urls import public_urls
from exporter.audit.published_tree import check_files, check_source
from exporter.errors import ConfigError, SourceError
from exporter.localnet.server import running
from exporter.publishing.faults import TreeFaultsError
from exporter.serve.preview import create_app
from exporter.stores import tree_sources
from exporter.stores.tree_sources import HttpSource
from exporter.tree.documents import PAGE_TOKEN_LENGTH
from exporter.tree.families import FAMILIES, parse_key
from exporter.tree.headers import content_type
from exporter.tree.routes import Served, route
from tests.audit.trees import small_tree, write

Rule = Callable[[str, httpx.Response], httpx.Response]
"""Spoils the answer of a good server to a path and query."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(small_tree(), tmp_path_factory.mktemp("tree"))


class Broken(httpx.AsyncBaseTransport):
    def __init__(self, root: Path, rules: Sequence[Rule]) -> None:
        self._good, self._rules = httpx.ASGITransport(create_app(root)), rules

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        good = await self._good.handle_async_request(request)
        answer = other(good, body=await good.aread())
        for rule in self._rules:
            answer = rule(request.url.raw_path.decode(), answer)
        stream = httpx.ByteStream(answer.content)  # not read yet, as from a socket
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)


def other(answer: httpx.Response, status: int = 0, body: bytes | None = None, **headers: str | None) -> httpx.Response:
    """An answer with another status, body or headers; a header of None is not sent."""
    changed = dict(answer.headers) | {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in changed.items() if value is not None and name != "content-length"}
    return httpx.Response(status or answer.status_code, headers=kept, content=answer.content if body is None else body)


def spoil(when: Callable[[str, httpx.Response], bool], **changes: Any) -> Rule:
    return lambda url, answer: other(answer, **changes) if when(url, answer) else answer


def check_broken(root: Path, rules: Sequence[Rule], sample: int) -> CheckSummary:
    async def check() -> CheckSummary:
        async with httpx.AsyncClient(transport=Broken(root, rules)) as client:
            return await check_source(HttpSource("http://tree/", client), sample)

    return asyncio.run(check())


def test_preview_server_passes(root: Path) -> None:
    """Files, public URLs, errors, headers and ranges of the preview server are as they should be."""
    with running(create_app(root)) as url:
        looked, sample = check_files(url), check_files(f"{url}/", 3)

    folder = check_files(str(root))
    assert looked.requests > 60
    assert (looked.pools, looked.links, looked.files) == (folder.pools, folder.links, folder.files)
    assert 0 < sample.requests < looked.requests


@pytest.mark.parametrize(
    "rules",
    [
        [
            (
                spoil(lambda url, _: url.endswith("?limit=2"), body=b"{}"),
                "/v1/assets?limit=2: is answered with other bytes than those of v1/assets/index.json",
            ),
            (
                spoil(lambda _, answer: answer.status_code == 404, content_type="text/html"),
                "/v1/nothing: has the content type 'text/html', not 'application/problem+json'",
            ),
            (
                spoil(lambda _, answer: answer.status_code == 400, status=200),
                "/v1/assets?limit=-1: is answered with HTTP status 200, not 400",
            ),
            (
                spoil(lambda _, answer: answer.status_code == 206, body=b"RAP1"),
                "answers the range of its first 4 bytes with 4 as",
            ),
        ],
        [
            (
                spoil(lambda _, answer: answer.status_code == 404, body=b"<html>"),
                "/v1/nothing: is not answered with a problem document",
            ),
            (
                spoil(lambda url, _: url.startswith("/v1/assets?"), status=404),
                "/v1/assets?limit=1: is answered with HTTP status 404, not with v1/assets/limit/1.json",
            ),
            (
                spoil(lambda _, answer: answer.status_code == 206, status=416),
                "offers ranges, but answers one with HTTP status 416",
            ),
        ],
        [
            (
                spoil(lambda url, _: "." not in url.partition("?")[0], content_type="application/octet-stream"),
                "/v1/assets: has the content type 'application/octet-stream', not",
            ),
            (
                spoil(lambda _, answer: answer.status_code != 200, access_control_allow_origin=None),
                "/v1/nothing: is answered without access-control-allow-origin",
            ),
            (
                spoil(lambda url, answer: url == "/v1/latest.parquet" and answer.status_code == 200, body=b"PAR1"),
                "v1/latest.parquet: does not have the bytes that the run's manifest gives for it",
            ),
        ],
    ],
)
def test_each_rule_that_a_server_breaks_is_named(root: Path, rules: list[tuple[Rule, str]]) -> None:
    """Each rule that a server breaks is named with the URL."""

    with pytest.raises(TreeFaultsError) as caught:
        check_broken(root, [rule for rule, _ in rules], 3)
    found = list(map(str, caught.value.faults))

    assert [] == [said for _, said in rules if not any(said in fault for fault in found)], found


def test_server_that_recovers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures that pass cost nothing but a little time."""
    monkeypatch.setattr(tree_sources, "RETRY_SECONDS", 0.01)
    asked = count()

    assert check_broken(root, [spoil(lambda *_: next(asked) % 10 == 9, status=429)], 1).requests


@pytest.mark.parametrize("uri", ["http://", "https://user:secret@host/tree", "http://host/?x=1", "ftp://host/"])
def test_an_invalid_uri_is_refused_without_its_secret(uri: str) -> None:
    """A URI of another form is refused, and no secret in it repeated."""
    with pytest.raises(ConfigError) as caught:
        check_files(uri)
    assert "secret" not in str(caught.value)


def test_run_published_meanwhile(root: Path) -> None:
    """If a run is published during a check, the check begins again. It gives up after a few times."""
    read = count(1)

    def rule(url: str, answer: httpx.Response) -> httpx.Response:
        if url != "/v1/system/status.json":
            return answer
        notices = b'"notices":["%d",' % next(read)
        return other(answer, body=answer.content.replace(b'"notices":[', notices).replace(b",]", b"]"))

    with pytest.raises(SourceError, match="3 times a new run was published during the check"):
        check_broken(root, [rule], 1)
    assert 7 == next(read)


def test_every_file_has_its_public_form_and_limits() -> None:
    """Every file of the tree has its public form, and each first page the limits that it answers."""
    market, base = "C" + "A" * 55, "v1/assets/market/C" + "A" * 55
    cases: list[tuple[str, set[str], list[str]]] = [
        # The index serves the limits that are left out; the largest that is there, all above it.
        (f"{base}/index.json", {f"{base}/limit/{size}.json" for size in (1, 5)}, ["", "&limit=2", "&limit=4"]),
        (f"{base}/limit/2.json", set(), ["&limit=2", "&limit=4"]),
        (f"{base}/limit/5.json", set(), ["&limit=5", "&limit=2147483647"]),
    ]
    for key, listed, expected in cases:
        urls = [f"v1/assets?market={market}{limit}" for limit in expected]
        assert [*urls, key] == list(public_urls(key, [1, 2, 5], listed))
    history = f"v1/assets/{market}/P/history"
    for key, url in (
        ("v1/pages/abc.json", "v1/assets?cursor=abc"),
        (f"{history}/1d.json", history),
        (f"{history}/5m.json", f"{history}?bucket=5m"),
        ("v1/markets.json", "v1/markets"),
    ):
        assert [url, key] == list(public_urls(key, [1], ()))
    assert ["v1/buckets/abc.json"] == list(public_urls("v1/buckets/abc.json", [1], ()))


def test_every_kind_of_key_answers_its_urls() -> None:
    """Each JSON file of any kind has public URLs, and the rule of the API answers each of them with that file."""
    contract = "C" + "A" * 55
    places = dict.fromkeys(("market", "token", "address", "pool"), contract) | {
        "protocol": "blend",
        "cursor": "abc",
        "recent": "A" * PAGE_TOKEN_LENGTH,
        "limit": "5",
        "bucket": "5m",
        "run_id": "1-abcdefabcdef",
        "status": "404",
        "list": "pools",
        "yields": "pools",
        "sha256": "a" * 64,
        "day": "2026-01-01",
        "month": "2026-01",
        "ledger": "1",
        "last": "2",
        "checkpoint": "63",
        "digest": "a" * 12,
        "symbol": "usdc",
        "token_symbol": "USDC",
        "tag": "assets",
        "about": "about",
        "number": "2",
        "file": "a.json",
    }
    keys = [family.key(**places) for family in FAMILIES if family.public]
    assert [] == [key for key in keys if parse_key(key) is None]
    wrong = []
    for key in keys:
        if content_type(key) == "application/json":
            for url in public_urls(key, [1, 5], ()):
                path, _, query = url.partition("?")
                answer = route(f"/{path}", query, [1, 5])
                if not (isinstance(answer, Served) and key in answer.keys):
                    wrong.append((key, url, answer))
    assert [] == wrong
