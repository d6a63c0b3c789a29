"""RPC URLs are checked and named without showing what is secret in them; rates and bounds."""

from __future__ import annotations

import pytest

from exporter.errors import ConfigError
from exporter.ledger.rpc.endpoints import RpcLimits, parse_endpoints


def labels(*urls: str) -> list[str]:
    return [endpoint.label for endpoint in parse_endpoints(urls)]


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("https://rpc.example.org", "rpc.example.org"),
        ("https://user:secret@RPC.example.org/secret?key=secret", "rpc.example.org"),
        ("https://rpc.example.org:443/", "rpc.example.org"),
        ("https://rpc.example.org:8443/secret", "rpc.example.org:8443"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://[::1]:8000/", "[::1]:8000"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_an_endpoint_is_named_by_host_and_port(url: str, label: str) -> None:
    """The label is the host, with the port where it is not the usual one, and nothing else."""
    assert [label] == labels(url)


def test_endpoints_of_one_host_are_numbered() -> None:
    """Endpoints that share host and port is distinguished by a number; the others are not numbered."""
    urls = ("https://a.example/1", "https://b.example", "https://a.example/2", "https://a.example:81/")

    assert ["a.example#1", "b.example", "a.example#2", "a.example:81"] == labels(*urls)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "must be a URL with a host"),
        ("https://rpc.example.org/ secret", "must be a URL with a host"),
        ("https:///secret", "must be a URL with a host"),
        ("https://rpc.example.org:secret/", "must be a URL with a host"),
        ("https://rpc.example.org/\x7fsecret", "must be a URL with a host"),
        ("ftp://rpc.example.org/secret", "must be a URL with a host"),
        ("https://rpc.example.org/#secret", "has a fragment"),
        ("https://rpc.example.org/" + "secret" * 500, "must be a URL with a host"),
        ("http://user:secret@rpc.example.org/secret", r"\(rpc.example.org\) uses http://, which anybody"),
        ("http://127.0.0.1.example.org/secret", "uses http://, which anybody"),
    ],
)
def test_a_bad_url_is_named_by_position(url: str, problem: str) -> None:
    """A URL that cannot be used is refused by its position in rpc_urls, and not quoted, not even in a cause."""
    with pytest.raises(ConfigError, match=rf"^rpc_urls\[1\] .*{problem}") as caught:
        parse_endpoints(["https://rpc.example.org", url])

    assert "secret" not in str(caught.value)
    assert None is caught.value.__cause__
    assert None is caught.value.__context__


@pytest.mark.parametrize("urls", [[], "https://rpc.example.org", ["https://rpc.example.org"] * 17])
def test_the_list_of_urls_is_bounded(urls: list[str]) -> None:
    """There must be a list of 1 to 16 URLs; one string is not taken for a list of characters."""
    with pytest.raises(ConfigError, match="rpc_urls must be a list of 1 to 16 URLs"):
        parse_endpoints(urls)


def test_requests_are_spaced_evenly() -> None:
    """Each request takes the next slot of the rate; unused slots do not add up to a burst."""
    (endpoint,) = parse_endpoints(["https://a.example"])
    waits = [endpoint.reserve(now, 4.0) for now in (10, 10, 10, 50, 50.05)]

    assert [0, 0.25, 0.5, 0] == waits[:4]
    assert pytest.approx(0.2) == waits[4]


def test_a_rate_too_slow_for_the_deadline_is_refused() -> None:
    """A rate at which a call could not even begin within its deadline is a fault of the configuration."""
    with pytest.raises(ConfigError, match=r"requests_per_second = 0\.02 is too slow for max_in_flight = 4"):
        RpcLimits(requests_per_second=0.02, max_in_flight=4, total_deadline_s=100)
