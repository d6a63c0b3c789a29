"""One suite for all rules: each URL gives the same file, the same status and the same headers everywhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.serve.edge.cases import (
    ORIGIN,
    Case,
    can_be_sent,
    cloudfront_expected,
    expected,
    faults,
    nginx_expected,
    table,
)
from tests.serve.edge.targets import Ask, HttpTarget, NodeProcess
from tests.serve.test_preview import BIG, COMMON, PARQUET, STRANGER

SENT = [case for case in table() if can_be_sent(case)]


def test_the_preview_server_passes_all_cases_without_naming_itself(preview: HttpTarget, root: Path) -> None:
    """The preview server passes all cases, and does not name itself."""
    assert [] == [fault for case in SENT for fault in faults(case, expected(case, root), preview(case), root)]
    assert "server" not in preview(Case("/v1/assets")).headers


def test_nginx_passes_all_cases_but_refuses_encoded_values(nginx: HttpTarget, root: Path) -> None:
    """A real nginx with the rendered rule passes all cases, except for encoded values, which it refuses."""
    assert [] == [fault for case in SENT for fault in faults(case, nginx_expected(case, root), nginx(case), root)]


@pytest.mark.parametrize("name", ["cloudfront", "cloudfront-parsed"])
def test_the_cloudfront_function_passes_all_cases(node: NodeProcess, root: Path, name: str) -> None:
    """The CloudFront function with its policies passes all cases, with the raw query and without."""
    ask = node.target(name)

    assert [] == [fault for case in SENT for fault in faults(case, cloudfront_expected(case, root), ask(case), root)]


@pytest.mark.parametrize("name", ["worker-r2", "worker-origin"])
def test_the_worker_passes_all_cases_over_either_origin(node: NodeProcess, root: Path, name: str) -> None:
    """The Worker passes all cases, over a bucket and over another server; dots in paths are gone before it is asked."""
    ask = node.target(name)
    found = []
    for case in SENT:
        answer = ask(case)
        wanted = expected(Case(answer.asked or case.url, case.method), root)
        found += faults(case, wanted, answer, root)

    assert [] == found


@pytest.fixture(params=["preview", "nginx", "cloudfront", "worker-r2", "worker-origin"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask for each target in turn."""
    name: str = request.param
    if name in ("preview", "nginx"):
        server: HttpTarget = request.getfixturevalue(name)
        return server
    node: NodeProcess = request.getfixturevalue("node")
    return node.target(name)


@pytest.mark.parametrize("url", ["/v1/assets", f"/v1/assets?market={STRANGER}", f"/{PARQUET}"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_unchanged_files_are_not_sent_again(request: pytest.FixtureRequest, ask: Ask, url: str, method: str) -> None:
    """A request that names the ETag gets 304 with the ETag, its lifetime and CORS, and no body.

    But for the empty page behind CloudFront, which is sent for an error, and always whole.
    """
    if STRANGER in url and request.node.callspec.params["ask"] == "cloudfront":
        assert 200 == ask(Case(url, method, ORIGIN | {"if-none-match": ask(Case(url)).headers["etag"]})).status
        return
    etag = ask(Case(url)).headers["etag"]
    for named in (etag, f"W/{etag}", f'"x", {etag}'):
        answer = ask(Case(url, method, ORIGIN | {"if-none-match": named}))

        assert (304, b"", etag) == (answer.status, answer.body, answer.headers["etag"])
        assert "*" == answer.headers["access-control-allow-origin"]
        assert ask(Case(url)).headers["cache-control"] == answer.headers["cache-control"]
    assert 200 == ask(Case(url, method, {"if-none-match": '"x"'})).status


@pytest.mark.parametrize(
    ("asked", "content_range", "part"),
    [
        ("bytes=0-3", "bytes 0-3/2048", slice(0, 4)),
        ("bytes=-8", "bytes 2040-2047/2048", slice(2040, 2048)),
        ("bytes=2000-", "bytes 2000-2047/2048", slice(2000, 2048)),
        ("bytes=2000-9999", "bytes 2000-2047/2048", slice(2000, 2048)),
        ("bytes=0-1,4-5", None, slice(0, 2048)),
        ("nonsense", None, slice(0, 2048)),
    ],
)
def test_ranges_of_parquet(ask: Ask, root: Path, asked: str, content_range: str | None, part: slice) -> None:
    """A range gives its bytes, uncompressed, with what a reader in a browser must be allowed to see."""
    answer = ask(Case(f"/{PARQUET}", headers=ORIGIN | {"range": asked, "accept-encoding": "gzip, br"}))

    assert (206 if content_range else 200, content_range) == (answer.status, answer.headers.get("content-range"))
    assert (root / PARQUET).read_bytes()[part] == answer.body
    assert str(len(answer.body)) == answer.headers["content-length"]
    assert ("bytes", "application/vnd.apache.parquet") == (
        answer.headers.get("accept-ranges", "bytes"),  # nginx says it of whole files only
        answer.headers["content-type"],
    )
    assert "content-encoding" not in answer.headers
    assert "Accept-Ranges, Content-Length, Content-Range, ETag" == answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize("asked", ["bytes=2048-", "bytes=5000-6000", "bytes=-0"])
def test_ranges_beyond_the_file_are_refused(ask: Ask, asked: str) -> None:
    """A range without a byte of the file gives 416 as a problem, with the file's size, never to be stored."""
    answer = ask(Case(f"/{PARQUET}", headers=ORIGIN | {"range": asked}))

    assert (416, "bytes */2048") == (answer.status, answer.headers["content-range"])
    assert ("application/problem+json", 416) == (answer.headers["content-type"], json.loads(answer.body)["status"])
    assert "*" == answer.headers["access-control-allow-origin"]
    # nginx has said how long the file lives before it looks at the range; the second value forbids it. CloudFront sends
    # a file of the tree for the error, with that file's lifetime.
    assert answer.headers["cache-control"].endswith(("no-store", "max-age=30"))


def test_if_range_guards_against_another_file(ask: Ask) -> None:
    """A range of a file that is meanwhile another one gives the whole new file."""
    etag = ask(Case(f"/{PARQUET}")).headers["etag"]
    statuses = [
        ask(Case(f"/{PARQUET}", headers={"range": "bytes=0-3", "if-range": condition})).status
        for condition in (etag, '"other"')
    ]

    assert [206, 200] == statuses


@pytest.mark.parametrize("header", ["gzip", "gzip, deflate, br"])
def test_nginx_compresses_documents_only(nginx: HttpTarget, root: Path, header: str) -> None:
    """JSON goes out compressed to those who take it, with Vary and a weak ETag that still gives 304; Parquet never."""
    answer = nginx(Case("/v1/assets", headers={"accept-encoding": header}))

    assert ("gzip", "Accept-Encoding") == (answer.headers["content-encoding"], answer.headers["vary"])
    assert (root / "v1/assets/index.json").read_bytes() == gzip.decompress(answer.body)
    assert 304 == nginx(Case("/v1/assets", headers={"if-none-match": answer.headers["etag"]})).status
    assert "content-encoding" not in nginx(Case(f"/{PARQUET}", headers={"accept-encoding": header})).headers


def test_nginx_refuses_in_json_what_no_rule_sees(nginx: HttpTarget) -> None:
    """A refusal of nginx before it has a URI is a problem document, too, and may be read from any origin."""
    for url, status in ((f"/v1/assets?{'x' * 20_000}", 414), ("/v1/%zz", 400), ("/%00", 400)):
        answer = nginx(Case(url))

        assert (status, status) == (answer.status, json.loads(answer.body)["status"])
        assert "application/problem+json" == answer.headers["content-type"]
        assert "*" == answer.headers["access-control-allow-origin"]


PARAMETERS = ["market", "token", "cursor", "limit", "bucket", "sort", "x", ""]
ENCODED = ["Limit", "l%69mit", "%6Darket", "c%75rsor", "p%61ge"]
NAMES = st.sampled_from([*PARAMETERS, *ENCODED])
TEXTS = [BIG, COMMON, STRANGER, f"%43{BIG[1:]}", "47DEQpj8HBSa-_TImW-5JC", "", "1d", "%36h", "2h", "-1", "+5"]
VALUES = st.one_of(
    st.sampled_from(TEXTS),
    st.integers(0, 2**31 + 5).map(str),
    st.text("0123456789", max_size=12),
    st.text("01%3+AC-_.&=#é\n ", max_size=8).map(lambda text: quote(text, safe="%&=+")),
)
PAIRS = st.tuples(NAMES, st.sampled_from(["=", "", "=="]), VALUES).map("".join)
QUERIES = st.lists(PAIRS, max_size=5).map("&".join)
OF_ONE = (f"assets/{BIG}/{COMMON}", f"markets/{BIG}", f"tokens/{COMMON}", "protocols/blend", "protocol/summary")
PATHS = st.sampled_from(["/v1/assets", "/v1/markets", *(f"/v1/{one}/history" for one in OF_ONE)])
WORDS = ["v1", "assets", "markets", "tokens", "market", "token", "limit", "pages", "history", "status"]
FILES = ["v1.json", "%761", "v1%2Ejs%6Fn", "index.json", "20.json", "20", "x.html", "a+b", "a@b"]
SEGMENTS = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from([*FILES, BIG, COMMON, STRANGER, f"{BIG}.json"]),
    st.sampled_from(["", ".", ".x", "%2e%2e", "%2F", "a%5Cb", "%41", "%C3%A9"]),
)
ANY_PATH = st.lists(SEGMENTS, max_size=6).map(lambda parts: "/" + "/".join(parts))
URLS = st.one_of(st.tuples(PATHS, QUERIES).map("?".join), ANY_PATH, st.tuples(ANY_PATH, QUERIES).map("?".join))
MANY = examples(20, 2_000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@given(url=URLS)
@MANY
def test_any_url_on_nginx(nginx: HttpTarget, root: Path, url: str) -> None:
    """Whatever is asked for, nginx answers as the rule says."""
    case = Case(url, headers=ORIGIN)

    assert [] == faults(case, nginx_expected(case, root), nginx(case), root)


@given(url=URLS)
@MANY
def test_any_url_on_the_scripts(node: NodeProcess, root: Path, url: str) -> None:
    """Whatever is asked for, CloudFront and the Worker answer as the rule says."""
    case = Case(url, headers=ORIGIN)
    assert [] == faults(case, cloudfront_expected(case, root), node.target("cloudfront")(case), root)
    if url.startswith("//"):
        return  # a host to whoever parses it
    for name in ("worker-r2", "worker-origin"):
        answer = node.target(name)(case)

        assert [] == faults(case, expected(Case(answer.asked or url), root), answer, root)
