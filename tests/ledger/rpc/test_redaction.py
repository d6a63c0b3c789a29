"""Nothing secret of a URL gets through a redactor, and the HTTP libraries log no requests."""

from __future__ import annotations

import tracemalloc
from urllib.parse import quote

import pytest

from exporter.errors import without_keys
from exporter.ledger.rpc.redaction import MESSAGE_LENGTH, REPLACEMENT, Redactor

URL = "https://us%40er:pass-w0rd@rpc.example.org:8443/v1/KEYinPATH0123/soroban?apikey=KEYinQUERY%2F42&KEYalone"
SECRETS = ("us%40er", "us@er", "pass-w0rd", "KEYinPATH0123", "KEYinQUERY%2F42", "KEYinQUERY/42", "KEYalone")


@pytest.mark.parametrize(
    "text",
    [
        f"cannot POST {URL} today",
        "no route /v1/KEYinPATH0123/soroban",
        "query apikey=KEYinQUERY%2F42&KEYalone refused",
        "query KEYinQUERY/42 refused",
        "user us@er:pass-w0rd unknown",
        "Authorization: Basic dXNAZXI6cGFzcy13MHJk is wrong",
        f"moved to {quote(URL, safe='')}",
    ],
)
def test_every_part_of_a_url_is_replaced(text: str) -> None:
    """The URL, its path, query and user information are replaced, decoded or encoded, in any letter case."""
    cleaned = Redactor([URL]).clean(text)

    assert REPLACEMENT in cleaned
    assert [] == [each for each in (*SECRETS, "dXNAZXI6") if each.lower() in cleaned.lower()]


def test_a_secret_with_signs_is_replaced_when_it_is_encoded() -> None:
    """A server may echo a key of a query, of a header, or a whole path with each sign encoded, the slash included."""
    secret = "kEY/wIth+0signs"
    from_query, from_header = Redactor([f"https://a.example/?apikey={secret}"]), Redactor([], [f"Bearer {secret}"])

    for redactor in (from_query, from_header):
        assert f"no {REPLACEMENT}" == redactor.clean(f"no {quote(secret, safe='')}")
    assert f"no {REPLACEMENT}" == Redactor(["https://a.example/soroban/rpc"]).clean("no %2Fsoroban%2Frpc")


HOST_ERROR = "HostError: Error(Contract, #3)"


@pytest.mark.parametrize(
    ("urls", "text", "cleaned"),
    [
        (["https://a.example/v1/contract"], HOST_ERROR, HOST_ERROR),
        (["https://a.example/v1/3contract"], HOST_ERROR, HOST_ERROR),
        (["https://a.example/v1/Contract"], HOST_ERROR, "HostError: Error([endpoint], #3)"),
        (["https://a.example/soroban/rpc/"], "no /soroban/rpc, soroban", "no [endpoint], soroban"),
        ([], "a\x00b\x1b[31mc\r\nd\u202ee\ud800f \u2028 g", "a b [31mc d e f g"),
    ],
)
def test_other_words_stay_in_one_printable_line(urls: list[str], text: str, cleaned: str) -> None:
    """A part of a path is a secret by itself if it is long, or has a digit or a capital letter; else the whole is."""
    assert cleaned == Redactor(urls).clean(text)


def test_a_huge_message_costs_no_time() -> None:
    """Only the beginning of a hostile message of many megabytes is looked at, and less of it is quoted."""
    redactor, message = Redactor([URL]), "/v1/KEYinPATH012" * 2_000_000
    tracemalloc.start()
    try:
        cleaned = redactor.clean(message)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert MESSAGE_LENGTH >= len(cleaned)
    assert most_bytes < 1_000_000, "what is not looked at is not copied either"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("see https://rpc.example.org/v2/KEY/x, or", "see https://rpc.example.org/…, or"),
        ("'https://user:KEY@h.org:8/p' is not a network", "'https://h.org:8/…' is not a network"),
        ("cannot write https:/h.org/KEY: none", "cannot write https://h.org/…: none"),
        ("argument (https://h.org/KEY)", "argument (https://h.org/…)"),
        ("http://h.org?KEY=1#a b", "http://h.org/… b"),
        ("https://h.org/KEY/v1/system/status.json: bad", "https://h.org/…/v1/system/status.json: bad"),
        ("https://h.org/v1/markets/CA.json is missing", "https://h.org/v1/markets/CA.json is missing"),
        ("https://h.org/v1/KEY", "https://h.org/…"),
        ("https://h.org/ and wss://h.org:1: no", "https://h.org/ and wss://h.org:1: no"),
        ("s3://bucket/prefix and file:///tmp", "s3://bucket/prefix and file:///tmp"),
    ],
)
def test_messages_show_hosts_only(message: str, expected: str) -> None:
    """A message keeps only a web URL's host, and the file of a tree at its end."""
    assert expected == without_keys(message)
