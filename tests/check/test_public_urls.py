"""Checking a tree over HTTP: the preview server passes, servers that break a rule do not."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from exporter.check.public_urls import public_urls
from exporter.check.published_tree import check_files
from exporter.check.summary import TreeFaultsError
from exporter.errors import ConfigError, SourceError
from exporter.localnet.runner import running
from exporter.serve.preview import create_app
from exporter.stores import tree_sources
from tests.check.trees import small_tree, write

Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


@dataclass
class Reply:
    """The answer of a good server, which a rule spoils."""

    path: str
    query: str
    status: int
    headers: dict[str, str]
    body: bytes


Rule = Callable[[Reply], None]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small tree in a folder."""
    return write(small_tree(), tmp_path_factory.mktemp("tree"))


def broken(app: Any, rule: Rule) -> Asgi:
    """The application with its answers passed through a rule."""

    async def run(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        status, headers, body = 0, dict[str, str](), bytearray()

        async def collect(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers.update({name.decode(): value.decode() for name, value in message["headers"]})
            else:
                body.extend(message.get("body", b""))

        await app(scope, receive, collect)
        reply = Reply(scope["path"], scope["query_string"].decode(), status, dict(headers), bytes(body))
        rule(reply)
        reply.headers["content-length"] = str(len(reply.body))
        encoded = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
        await send({"type": "http.response.body", "body": reply.body})

    return run


def faults_of(root: Path, rule: Rule) -> list[str]:
    """What is wrong with a server that breaks a rule."""
    with running(broken(create_app(root), rule)) as url, pytest.raises(TreeFaultsError) as caught:
        check_files(url, 3)
    return [str(fault) for fault in caught.value.faults]


def test_preview_server_passes(root: Path) -> None:
    """Files, public URLs, errors, headers and ranges of the preview server are as they should be."""
    with running(create_app(root)) as url:
        looked, sample = check_files(url), check_files(f"{url}/", 3)

    folder = check_files(str(root))
    assert looked.requests > 60
    assert (looked.pools, looked.links, looked.files) == (folder.pools, folder.links, folder.files)
    assert 0 < sample.requests < looked.requests


def spoil(when: Callable[[Reply], bool], **fields: Any) -> Rule:
    """A rule: where the condition holds, fields of the answer are other ones, and a header of None is not sent."""

    def rule(reply: Reply) -> None:
        if when(reply):
            for name, value in fields.items():
                if name in ("status", "body"):
                    setattr(reply, name, value)
                elif value is None:
                    reply.headers.pop(name.replace("_", "-"), None)
                else:
                    reply.headers[name.replace("_", "-")] = value

    return rule


@pytest.mark.parametrize(
    "rules",
    [
        [
            (
                spoil(lambda reply: reply.query == "limit=2", body=b"{}"),
                "/v1/assets?limit=2: is answered with other bytes than those of v1/assets/index.json",
            ),
            (
                spoil(lambda reply: reply.status == 404, content_type="text/html"),
                "/v1/nothing: has the content type 'text/html', not 'application/problem+json'",
            ),
            (
                spoil(lambda reply: reply.status == 400, status=200),
                "/v1/assets?limit=-1: is answered with HTTP status 200, not 400",
            ),
            (
                spoil(lambda reply: reply.status == 206, body=b"RAP1"),
                "answers the range of its first 4 bytes with 4 as",
            ),
        ],
        [
            (
                spoil(lambda reply: reply.status == 404, body=b"<html>"),
                "/v1/nothing: is not answered with a problem document",
            ),
            (
                spoil(lambda reply: reply.path == "/v1/assets" and bool(reply.query), status=404),
                "/v1/assets?limit=1: is answered with HTTP status 404, not with v1/assets/limit/1.json",
            ),
            (
                spoil(lambda reply: reply.status == 206, status=416),
                "offers ranges, but answers one with HTTP status 416",
            ),
        ],
        [
            (
                spoil(lambda reply: "." not in reply.path, content_type="application/octet-stream"),
                "/v1/assets: has the content type 'application/octet-stream', not",
            ),
            (
                spoil(lambda reply: reply.status != 200, access_control_allow_origin=None),
                "/v1/nothing: is answered without access-control-allow-origin",
            ),
            (
                spoil(lambda reply: reply.path == "/v1/latest.parquet" and reply.status == 200, body=b"PAR1"),
                "v1/latest.parquet: does not have the bytes that the run's manifest gives for it",
            ),
        ],
    ],
)
def test_broken_server(root: Path, rules: list[tuple[Rule, str]]) -> None:
    """Each rule that a server breaks is named with the URL."""

    def all_of_them(reply: Reply) -> None:
        for rule, _ in rules:
            rule(reply)

    found = faults_of(root, all_of_them)

    assert [] == [said for _, said in rules if not any(said in fault for fault in found)], found


def test_server_that_recovers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures that pass cost nothing but a little time."""
    monkeypatch.setattr(tree_sources, "RETRY_SECONDS", 0.01)
    count = 0

    def rule(reply: Reply) -> None:
        nonlocal count
        count += 1
        if count % 10 == 0:
            reply.status = 429

    with running(broken(create_app(root), rule)) as url:
        assert check_files(url, 1).requests


def test_unbounded_answer(root: Path) -> None:
    """A file that is far longer than listed is read no further than its length, and named."""
    rule = spoil(lambda reply: reply.path == "/index.html", body=b" " * 50_000_000)
    began = time.monotonic()

    assert any("index.html: does not have the bytes" in fault for fault in faults_of(root, rule))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("uri", ["http://", "https://user:secret@host/tree", "http://host/?x=1", "ftp://host/"])
def test_invalid_uris(uri: str) -> None:
    """A URI of another form is refused, and no secret in it repeated."""
    with pytest.raises(ConfigError) as caught:
        check_files(uri)
    assert "secret" not in str(caught.value)


def test_run_published_meanwhile(root: Path) -> None:
    """When the pointer moves during a check, the check begins again, and gives up after a few times."""
    count = 0

    def rule(reply: Reply) -> None:
        nonlocal count
        if reply.path == "/v1/system/status.json":
            count += 1
            reply.body = reply.body.replace(b'"notices":[', b'"notices":["%d",' % count).replace(b",]", b"]")

    with (
        running(broken(create_app(root), rule)) as url,
        pytest.raises(SourceError, match="3 times a new run was published during the check"),
    ):
        check_files(url, 1)
    assert 6 == count


def test_public_urls() -> None:
    """Every file of the tree has its public form, and each first page the limits that it answers."""
    market = "C" + "A" * 55

    listed = {"v1/assets/limit/1.json", "v1/assets/limit/2.json", "v1/assets/limit/5.json"}
    assert ["v1/assets", "v1/assets/index.json"] == list(public_urls("v1/assets/index.json", [1, 2, 5], listed))
    assert [  # the index serves the limits that are left out
        f"v1/assets?token={market}",
        f"v1/assets?token={market}&limit=2",
        f"v1/assets?token={market}&limit=4",
        f"v1/assets/token/{market}/index.json",
    ] == list(
        public_urls(
            f"v1/assets/token/{market}/index.json",
            [1, 2, 5],
            {f"v1/assets/token/{market}/limit/{size}.json" for size in (1, 5)},
        )
    )
    assert [
        f"v1/assets?market={market}&limit=2",
        f"v1/assets?market={market}&limit=4",
        f"v1/assets/market/{market}/limit/2.json",
    ] == list(public_urls(f"v1/assets/market/{market}/limit/2.json", [1, 2, 5], ()))
    assert "v1/assets?limit=2147483647" in list(public_urls("v1/assets/limit/5.json", [1, 2, 5], ()))
    assert "v1/assets?cursor=abc" in list(public_urls("v1/pages/abc.json", [1], ()))
    history = f"v1/assets/{market}/P/history"
    assert [history, f"{history}/1d.json"] == list(public_urls(f"{history}/1d.json", [1], ()))
    assert f"{history}?bucket=5m" in list(public_urls(f"{history}/5m.json", [1], ()))
    assert ["v1/buckets/abc.json"] == list(public_urls("v1/buckets/abc.json", [1], ()))
    assert ["v1/markets", "v1/markets.json"] == list(public_urls("v1/markets.json", [1], ()))
