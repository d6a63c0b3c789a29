"""The preview server: what is its own. The rules of the API over HTTP are those of every platform (`edge`)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from exporter import FORMAT
from exporter.errors import ConfigError
from exporter.serve.preview import (
    bind,
    byte_range,
    create_app,
    etag_matches,
    page_sizes,
    read_file,
    run_server,
)
from tests.render.rendering import contract, fetch, markets_frame, pool, pools_frame, write_tree
from tests.tree.test_routes import TOKEN

TOKENS = [contract(number) for number in range(100, 160)]
BIG, SMALL, UNREADABLE, STRANGER = (contract(number) for number in (1, 2, 3, 4))
COMMON, RARE = TOKENS[0], TOKENS[59]
PARQUET = "history/pools/date=2026-11-21/55261759.parquet"


def write_served_tree(folder: Path) -> None:
    """Write a published tree of three markets: 60 pools in one, one in another, and a third that could not be read."""
    pools = pools_frame(
        [*(pool(BIG, token) for token in TOKENS), pool(SMALL, COMMON, oracle_price_usd=None, tvl_usd_cents=None)]
    )
    write_tree(folder, pools, markets_frame(pools, {UNREADABLE: 2}))
    for key, data in {
        PARQUET: bytes(range(256)) * 8,
        "index.html": b"<!doctype html>",
        "style.css": b"a{}",
        "v1/history.json": b"{}",
        "v1/pools/index.json": b'{"data":[]}',
        "v1/pools/open/index.json": b'{"data":["open"]}',
        "v1/pools/protocol/blend/index.json": b'{"data":["blend"]}',
        "v1/pools/protocol/blend/open/index.json": b'{"data":["blend","open"]}',
        f"v1/pool-pages/{TOKEN}.json": b'{"data":["later"]}',
        "exporter.toml": b"secret",
        ".exporter.lock": b"secret",
        "v1/.tmp-1.json": b"secret",
    }.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    (folder.parent / "secret.json").write_bytes(b"secret")
    (folder / "v1" / "out.json").symlink_to(folder.parent / "secret.json")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tree, with files around and in it that nobody may see."""
    folder = tmp_path_factory.mktemp("served") / "public"
    write_served_tree(folder)
    return folder


# Paths that this tree answers: listings with rows and without, refused ones and missing ones.
URLS = [
    *("/v1/assets?", "/v1/assets?limit=0", "/v1/assets?limit=61", "/v1/assets?limit=2147483647"),
    "/v1/assets?limit=%31%30",
    *(f"/v1/assets?market={BIG}", f"/v1/assets?market={BIG}&limit=100", f"/v1/assets?market={SMALL}&limit=0"),
    *(f"/v1/assets?market={UNREADABLE}", f"/v1/assets?market={UNREADABLE}&limit=0"),
    *(f"/v1/assets?token={COMMON}", f"/v1/assets?token={COMMON}&limit=1", f"/v1/assets?token={RARE}"),
    f"/v1/assets?market={BIG}&token={RARE}",
    f"/v1/assets?token={COMMON}&market={SMALL}&limit=5",
    # The one listing whose page without rows nobody needs.
    f"/v1/assets?token={COMMON}&market={SMALL}&limit=0",
    # Well-formed, but matching nothing.
    *(f"/v1/assets?market={STRANGER}", f"/v1/assets?market={STRANGER}&limit=0", f"/v1/assets?token={STRANGER}&limit=7"),
    f"/v1/assets?market={SMALL}&token={RARE}",
    # The plain files behind it.
    *("/v1/assets/limit/20.json", f"/v1/assets/market/{SMALL}/index.json", f"/v1/assets/market/{BIG}/limit/0.json"),
    "/v1/assets/empty.json",
    # Refused, or not there.
    *(f"/v1/assets?market={BIG}&token=..", f"/v1/assets?market={STRANGER}&limit=x", "/v1/assets?cursor=unknown"),
    *(
        "/v1/assets?cursor=../assets/index",
        f"/v1/markets/{STRANGER}",
        f"/v1/markets/{BIG}/",
        f"/v1/markets/{BIG}/pools",
    ),
    *("/v1/pages/unknown.json", "/v1/pages/unknown", "/v1/nothing", "/v1", "/v1/out.json", "/v1/out", "/v1.json"),
    "/%76%31/nothing",
]

MISSING_PAGES = [
    *("/nothing.html", "/nothing", "/exporter.toml", "/pools/C/usdc.html", "/static/", "/history/pools/x.parquet"),
    *("//v1/assets", "/v1x", "/v10/assets", "/v1.html", "/v1.json/x", "/v1%2Fassets", "/x%00"),
]


def test_without_a_published_run_nothing_is_served(tmp_path: Path) -> None:
    """There is no run until the status document is written, whatever files lie there already; then there is."""
    pools = pools_frame([pool(BIG, COMMON)])
    write_tree(tmp_path, pools, markets_frame(pools))
    status = tmp_path / "v1/system/status.json"
    written = status.read_bytes()
    status.unlink()
    app = create_app(tmp_path)

    for url in ("/v1/assets", "/v1/system/status", f"/v1/markets/{BIG}", "/v1/nothing"):
        response = fetch(app, url)
        assert (503, "no-store") == (response.status_code, response.headers["cache-control"])
        assert "No run is published here" in response.json()["detail"]

    status.write_bytes(written)
    assert 200 == fetch(app, "/v1/assets").status_code


def test_unexpected_errors_reveal_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure inside the server gives a problem document without its reason."""

    def fail(_: Path) -> None:
        raise OSError("disk of /secret/path on fire")

    monkeypatch.setattr("exporter.serve.preview.page_sizes", fail)

    response = fetch(create_app(root), "/v1/assets")
    assert (500, "application/problem+json") == (response.status_code, response.headers["content-type"])
    assert b"secret" not in response.content
    client = httpx.AsyncClient(transport=httpx.ASGITransport(create_app(root)), base_url="http://preview")
    with pytest.raises(OSError, match="on fire"):  # for who runs the server
        asyncio.run(client.get("/v1/assets"))
    assert "*" == response.headers["access-control-allow-origin"]


def test_connections_send_at_once() -> None:
    """Accepted connections have TCP_NODELAY, without which each answer waits for a delayed acknowledgement."""
    with bind("127.0.0.1", 0) as listener, closing(socket.create_connection(listener.getsockname(), timeout=10)):
        accepted, _ = listener.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_cannot_be_had_is_a_configuration_error(root: Path, tmp_path: Path) -> None:
    """A port in use, a host that is not ours and a folder that is not there are named."""
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}"):
            run_server(root, "127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1"):
        run_server(root, "192.0.2.1", 0)
    with pytest.raises(ConfigError, match="nothing is not a folder"):
        run_server(tmp_path / "nothing", "127.0.0.1", 0)


def test_readers_never_get_half_a_file(tmp_path: Path) -> None:
    """While a document is replaced over and over, every answer is one version whole, with its own ETag."""
    pools = pools_frame([pool(BIG, COMMON)])
    write_tree(tmp_path, pools, markets_frame(pools))
    app = create_app(tmp_path)
    document = tmp_path / "v1/assets/index.json"
    versions = [b"a" * 300_000, b"b" * 100, b"c" * 150_000]
    etags = {f'"{hashlib.sha256(data).hexdigest()[:32]}"': data for data in versions}
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            for data in versions:
                temporary = document.with_name(".tmp-x")
                temporary.write_bytes(data)
                temporary.replace(document)

    document.write_bytes(versions[0])
    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        seen, fetches = set[str](), 0
        while fetches < 100 or (len(seen) < 2 and fetches < 100_000):
            fetches += 1
            response = fetch(app, "/v1/assets")
            assert etags[response.headers["etag"]] == response.content
            seen.add(response.headers["etag"])
    finally:
        stop.set()
        publisher.join()
    assert len(seen) > 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 200_000,
        b'{"format":%d,"page_sizes":[2]}' % FORMAT,
        b'{"format":%d,"page_sizes":[0,1]}' % FORMAT,
        b'{"format":%d,"page_sizes":[1,"50"]}' % FORMAT,
    ],
)
def test_an_unusable_status_document_is_not_a_run(tmp_path: Path, data: bytes) -> None:
    """A status document that cannot be read, or whose sizes cannot serve every limit, counts as none."""
    status = tmp_path / "v1/system/status.json"
    status.parent.mkdir(parents=True)
    status.write_bytes(data)
    assert page_sizes(tmp_path) is None

    status.write_bytes(b'{"format":%d,"page_sizes":[5,1],"default_page_size":5,"new":{}}' % FORMAT)
    assert (1, 5) == page_sizes(tmp_path)


@pytest.mark.parametrize(
    "key", ["nothing.json", "v1", "a.json/b.json", "a" * 300, "/".join(["a"] * 3000), "a\0b", "pipe"]
)
def test_what_is_not_a_plain_file_is_absent(tmp_path: Path, key: str) -> None:
    """Folders, files below files, names that the file system refuses, and a pipe, which could wait for ever."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "a.json").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")

    assert read_file(tmp_path, key) is None


def test_links_may_not_leave_the_folder(tmp_path: Path) -> None:
    """A link is followed inside the folder only, which may be one itself; elsewhere or in a circle it is not there."""
    root = tmp_path / "one"
    root.mkdir()
    (tmp_path / "one-secret.json").write_bytes(b"secret")
    (root / "a.json").write_bytes(b"abc")
    for name, target in (
        ("inside", "a.json"),
        ("sibling", "../one-secret.json"),
        ("absolute", str(tmp_path / "one-secret.json")),
        ("folder", ".."),
        ("dangling", "nothing"),
        ("circle", "circle"),
    ):
        (root / name).symlink_to(target)
    (tmp_path / "public").symlink_to("one")

    assert b"abc" == read_file(tmp_path / "public", "inside")
    for key in ("sibling", "absolute", "folder/one-secret.json", "dangling", "circle"):
        assert read_file(tmp_path / "public", key) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", range(1)),
        ("bytes=0-99", range(10)),
        ("bytes=4-", range(4, 10)),
        ("bytes=-4", range(6, 10)),
        ("bytes=-99", range(10)),
        ("bytes=10-", range(10, 10)),
        ("bytes=-0", range(10, 10)),
        # These cannot be understood, or ask for more than one range, and may be ignored.
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("bytes=0-1,4-5", None),
        ("bytes=\u0660-", None),
        ("bytes=" + "9" * 5000 + "-", None),
    ],
)
def test_a_range_header_gives_the_positions_it_asks_for(header: str | None, expected: range | None) -> None:
    """A range header gives the positions it asks for, nothing when it is ignored, or none of the file."""
    assert expected == byte_range(header, 10)


def test_etags_match_weakly() -> None:
    """If-None-Match names an ETag alone, in a list, weakly, or all of them by a star."""
    named = (None, "", '"x"', "abc", '"abc"', 'W/"abc"', '"x",W/"abc" ', "*")

    assert [False] * 4 + [True] * 4 == [etag_matches(header, '"abc"') for header in named]
