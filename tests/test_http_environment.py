"""The environment's settings of proxies, certificates and AWS: which are used, and which are refused by name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from exporter.errors import ConfigError
from exporter.http_environment import proxy_of, tls_context
from exporter.ledger.rpc.client import RpcSource
from exporter.past.lake.objects import open_place
from exporter.stores import open_store
from exporter.stores.tree_sources import open_tree
from tests.ledger.rpc.fake_rpc import PASSPHRASE

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
AWS = ("AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *map(str.lower, NAMES), *AWS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")


@pytest.mark.parametrize(
    ("rules", "direct", "proxied"),
    [
        ("", [], ["https://a.example", "https://10.1.2.3", "https://[fd00::1]"]),
        ("localhost,fd00::/8", ["https://[fd00::1]:9000"], ["https://[fe00::1]", "https://a.example"]),
        ("10.0.0.0/8 192.168.1.0/24", ["https://10.255.0.1", "https://192.168.1.9"], ["https://192.168.2.9"]),
        ("a.example", ["https://a.example", "https://b.a.example"], ["https://ba.example", "https://example"]),
        (".a.example,*.c.example", ["https://b.a.example", "https://b.c.example"], ["https://xa.example"]),
        ("A.Example:8443", ["https://a.example:8443"], ["https://a.example"]),
        ("[fd00::1]:8443,fd00::2", ["https://[fd00::1]:8443", "https://[fd00::2]"], ["https://[fd00::1]"]),
        ("https://a.example", ["https://a.example"], ["https://b.example"]),
        ("*", ["https://a.example", "https://[fd00::1]"], []),
        ("fd00::/999, 300.0.0.0/8,://,:,[,%,a b/c", [], ["https://x.example", "https://[fd00::1]"]),
    ],
)
def test_no_proxy_matches_names_addresses_networks_and_ports(
    monkeypatch: pytest.MonkeyPatch, rules: str, direct: list[str], proxied: list[str]
) -> None:
    """Names with their subdomains, addresses, networks and ports work; any other text matches nothing."""
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", rules)

    assert [None] * len(direct) == list(map(proxy_of, direct))
    assert ["http://proxy.example:3128"] * len(proxied) == list(map(proxy_of, proxied))


def test_this_machine_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy for the scheme wins over the one for all; none is used for this machine, or where none is named."""
    assert None is proxy_of("https://a.example")
    monkeypatch.setenv("ALL_PROXY", "http://all.example")
    monkeypatch.setenv("http_proxy", "http://small.example")

    assert "http://all.example" == proxy_of("https://a.example")
    assert "http://small.example" == proxy_of("http://a.example")
    assert [None] * 3 == [proxy_of(f"http://{host}:8000") for host in ("localhost", "127.0.0.9", "[::1]")]


def rpc(host: str) -> None:
    async def make() -> None:
        async with RpcSource([f"https://{host}/rpc"], PASSPHRASE):
            pass

    asyncio.run(make())


def tree(host: str) -> None:
    async def make() -> None:
        async with open_tree(f"https://{host}/tree"):
            pass

    asyncio.run(make())


def archive(host: str) -> None:
    open_place(f"https://{host}/archive", "history archive", verified=True, seconds=1)


def lake_in_s3(_host: str) -> None:
    open_place("s3://bucket/prefix")


def bucket(_host: str) -> None:
    open_store("s3://bucket/prefix").get("v1/markets.json")


BROKEN = [
    *(("HTTPS_PROXY", value) for value in ("http://user:SECRET@host:99999", "http://", "ftp://SECRET", "http://a b")),
    ("https_proxy", "garbage://SECRET"),
    ("ALL_PROXY", ":::"),
    *((name, "/nonexistent/file") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")),
]


@pytest.mark.parametrize("make", [rpc, tree, archive, lake_in_s3, bucket], ids=lambda make: make.__name__)
@pytest.mark.parametrize(("name", "value"), BROKEN)
def test_what_breaks_a_client_is_named(monkeypatch: pytest.MonkeyPatch, make: object, name: str, value: str) -> None:
    """Before a request is made, a `ConfigError` names the variable, and nothing of a proxy's URL."""
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError) as caught:
        make("a.example")  # type: ignore[operator]
    assert name in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("make", [lake_in_s3, bucket], ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("AWS_ENDPOINT_URL", value) for value in ("garbage", "ftp://host", "http://", "http://host:0", "http://a b")),
        ("AWS_ENDPOINT_URL_S3", "host:9000"),
        ("AWS_REGION", "x y"),
        ("AWS_DEFAULT_REGION", "eu/../west"),
        *((name, "/nonexistent/file") for name in ("AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE")),
        ("SSLKEYLOGFILE", "/nonexistent/file"),
    ],
)
def test_settings_of_s3_are_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, make: object, name: str, value: str
) -> None:
    """A variable of AWS that no client can be made with is refused by its name before the first request."""
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError, match=name):
        make("a.example")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_PROFILE", "nobody"), ("AWS_STS_REGIONAL_ENDPOINTS", "x"), ("AWS_CONFIG_FILE", "/bin/sh")]
)
def test_what_boto_refuses_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """If boto3 makes no client, the error names the variables of AWS that are set."""
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError, match=name):
        bucket("")


def test_certificates_that_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file without certificates, and a log of keys that cannot be written, are named."""
    (tmp_path / "empty.pem").write_text("no certificate")
    for name, value in (("SSL_CERT_FILE", tmp_path / "empty.pem"), ("SSLKEYLOGFILE", tmp_path / "none" / "keys")):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(value))
            with pytest.raises(ConfigError, match=name):
                tls_context()


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to an endpoint go through the proxy that is named for it, and not for one in NO_PROXY."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "fd00::/8")

    async def pools() -> list[bool]:
        async with RpcSource(["https://a.example/rpc", "https://[fd00::1]/rpc"], PASSPHRASE) as source:
            clients = [
                source._http._transport_for_url(httpx.URL(url)) for url in ("https://a.example", "https://[fd00::1]")
            ]
            return [hasattr(client._pool, "_proxy_url") for client in clients]  # type: ignore[attr-defined]

    assert [True, False] == asyncio.run(pools())
