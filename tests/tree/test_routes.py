"""The rule from URL to file, and the headers that follow from a key."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.tree.files import is_key
from exporter.tree.headers import content_type
from exporter.tree.problems import MAX_REPEATED_CHARACTERS, Problem, encode_problem, problem
from exporter.tree.routes import Served, route
from tests.render.rendering import SIZES, contract

M, T = contract(1), contract(2)
EMPTY = "v1/assets/empty.json"
INDEX = "v1/assets/index.json"
TOKEN = "47DEQpj8HBSa-_TImW-5JC"


LIMITS = {"0": 0, "00": 0, "1": 1, "5": 5, "10": 10, "49": 20, "50": 50, "0017": 10, "200": 200, "2147483647": 200}
"""The largest rendered size that is not above a limit; 0 gives 0."""

OF_ASSETS = [
    ("", ("v1/assets/index.json",)),
    *((f"limit={limit}", (f"v1/assets/limit/{size}.json", INDEX)) for limit, size in LIMITS.items()),
    (f"limit={'0' * 5000}50", ("v1/assets/limit/50.json", INDEX)),
    (f"market={M}", (f"v1/assets/market/{M}/index.json", EMPTY)),
    (f"token={T}", (f"v1/assets/token/{T}/index.json", EMPTY)),
    (f"market={M}&token={T}", (f"v1/assets/market/{M}/token/{T}/index.json", EMPTY)),
    (
        f"limit=17&token={T}&market={M}",
        (f"v1/assets/market/{M}/token/{T}/limit/10.json", f"v1/assets/market/{M}/token/{T}/index.json", EMPTY),
    ),
    (f"market={M}&limit=0", (f"v1/assets/market/{M}/limit/0.json", f"v1/assets/market/{M}/index.json", EMPTY)),
    # A market's pools of one token have no page without rows.
    (f"market={M}&token={T}&limit=0", (EMPTY,)),
    # A cursor fixes everything; what comes with it is ignored even when it is wrong.
    (f"sort=tvl&cursor={TOKEN}", (f"v1/pages/{TOKEN}.json",)),
    (f"market=bad&cursor={TOKEN}&limit=-1", (f"v1/pages/{TOKEN}.json",)),
    # An empty value counts as absent.
    ("market=&token=&cursor=&limit=", ("v1/assets/index.json",)),
    # The first occurrence counts, even an empty one.
    ("limit=20&limit=bad", ("v1/assets/limit/20.json", INDEX)),
    ("limit=&limit=20", ("v1/assets/index.json",)),
    (f"cursor=&cursor={TOKEN}", ("v1/assets/index.json",)),
    # Unknown parameters are ignored, names are case-sensitive.
    ("utm_source=x&&=y&=&Limit=5&;limit=5", ("v1/assets/index.json",)),
    # Percent-encoding and plus signs.
    ("l%69mit=%32%30", ("v1/assets/limit/20.json", INDEX)),
    (f"market=%43{M[1:]}", (f"v1/assets/market/{M}/index.json", EMPTY)),
]
OF_POOLS = [
    ("", "v1/pools/index.json"),
    ("status=open", "v1/pools/open/index.json"),
    ("protocol=blend", "v1/pools/protocol/blend/index.json"),
    ("st%61tus=%6fpen&protocol=blend&protocol=k2&utm_source=x", "v1/pools/protocol/blend/open/index.json"),
    ("protocol=%42l%45n%64", "v1/pools/protocol/blend/index.json"),
    ("protocol=nobody&status=", "v1/pools/protocol/nobody/index.json"),
    ("protocol=Blend", "v1/pools/protocol/blend/index.json"),
    ("protocol=BLEND&status=open", "v1/pools/protocol/blend/open/index.json"),
    (f"protocol={'B' * 32}", f"v1/pools/protocol/{'b' * 32}/index.json"),
    (f"cursor={TOKEN}&sort=apy&status=shut", f"v1/pool-pages/{TOKEN}.json"),
]
OF_POOLS_OF_ONE = [
    (f"market={M}", f"v1/pools/market/{M}/index.json"),
    (f"token={T}&limit=&protocol=", f"v1/pools/token/{T}/index.json"),
    (f"market={M}&market=bad&v=1", f"v1/pools/market/{M}/index.json"),
]
OF_HISTORIES = [
    ("", f"v1/assets/{M}/{T}/history/1d.json"),
    ("bucket=5m", f"v1/assets/{M}/{T}/history/5m.json"),
    ("bucket=1w&bucket=5m", f"v1/assets/{M}/{T}/history/1w.json"),
    (f"cursor={TOKEN}&bucket=bad", f"v1/buckets/{TOKEN}.json"),
    ("cursor=&bucket=1h", f"v1/assets/{M}/{T}/history/1h.json"),
]


HISTORIES = (f"/v1/markets/{M}", f"/v1/tokens/{T}", "/v1/protocols/blend", "/v1/protocol/summary")
OF_TOTALS = [
    *((path, query, f"{path[1:]}/history/1d.json") for path in HISTORIES for query in ("", "bucket=1d&x=y")),
    *((path, f"cursor={TOKEN}&bucket=2h", f"v1/buckets/totals/{TOKEN}.json") for path in HISTORIES),
]


@pytest.mark.parametrize(
    ("path", "query", "keys"),
    [
        *(("/v1/assets", query, keys) for query, keys in OF_ASSETS),
        *(("/v1/pools", query, (key,)) for query, key in OF_POOLS),
        *(("/v1/pools", query, (key, EMPTY)) for query, key in OF_POOLS_OF_ONE),
        *((f"/v1/assets/{M}/{T}/history", query, (key,)) for query, key in OF_HISTORIES),
        *((f"{path}/history", query, (key,)) for path, query, key in OF_TOTALS),
    ],
)
def test_queries_pick_a_file(path: str, query: str, keys: tuple[str, ...]) -> None:
    """Each query picks the files that the API's table names: a cursor fixes everything, and nothing is computed."""
    answer = route(path, query, SIZES)

    assert isinstance(answer, Served)
    assert keys == answer.keys
    assert 404 == answer.missing.status


POOLS_REFUSED = [
    ("cursor=a.b", 404),
    *(
        (query, 400)
        for query in (
            "status=shut",
            "protocol=a.b",
            f"protocol={'b' * 33}",
            "limit=5",
            "market=bad",
            "token=bad&protocol=blend",
        )
    ),
    *((f"market={M}&{query}", 400) for query in ("token=bad", f"token={T}", "status=open")),
    *((f"token={T}&protocol={name}", 400) for name in ("blend", "a.b")),
]


OF_TOKENS = [
    ("", "v1/tokens.json"),
    ("symbol=", "v1/tokens.json"),
    ("x=1", "v1/tokens.json"),
    *((f"symbol={symbol}", "v1/tokens/symbol/usdc.json") for symbol in ("USDC", "usdc", "uSdC", "USDC&symbol=x")),
    ("symbol=USDC.e-2_B", "v1/tokens/symbol/usdc.e-2_b.json"),
    (f"symbol={'Z' * 32}", f"v1/tokens/symbol/{'z' * 32}.json"),
    ("s%79mbol=%55SDC", "v1/tokens/symbol/usdc.json"),
]
SYMBOLS_REFUSED = ("Z" * 33, ".usdc", "US DC", "US%20DC", "%2e%2e", "US/DC", "%C3%9C", "$", "-A")


@pytest.mark.parametrize(("query", "key"), OF_TOKENS)
def test_tokens_by_symbol(query: str, key: str) -> None:
    """Symbols that differ only in case have one file."""
    answer = route("/v1/tokens", query, SIZES)

    assert isinstance(answer, Served)
    assert (key,) == answer.keys


@pytest.mark.parametrize("symbol", SYMBOLS_REFUSED)
def test_symbols_that_no_file_has_are_refused(symbol: str) -> None:
    """The refusal names the way that works: by the token's address."""
    answer = route("/v1/tokens", f"symbol={symbol}", SIZES)

    assert isinstance(answer, Problem)
    assert 400 == answer.status
    assert "/v1/tokens/{address}" in answer.detail


REFUSED_NAMES = [
    ("/v1/assets", "protocol=blend", "protocol", "market, token, limit, cursor"),
    ("/v1/assets", "symbol=USDC&limit=5", "symbol", "market, token, limit, cursor"),
    ("/v1/assets", "sort=-tvl", "sort", "market, token, limit, cursor"),
    ("/v1/assets", "p%61ge=2", "page", "market, token, limit, cursor"),
    ("/v1/assets", "cursor=&fields=symbol", "fields", "market, token, limit, cursor"),
    ("/v1/pools", "status=open&sort=apy", "sort", "protocol, status, market, token, cursor"),
    ("/v1/pools", "status=shut&p%61ge=2", "page", "protocol, status, market, token, cursor"),
    ("/v1/pools", f"token={T}&limit=5", "limit", "protocol, status, market, token, cursor"),
    ("/v1/tokens", "sort=tvl&symbol=USDC", "sort", "symbol"),
    ("/v1/tokens", f"token={T}&limit=5", "limit", "symbol"),
    ("/v1/protocols", f"m%61rket={M}", "market", "none"),
    ("/v1/changes", "cursor=x", "cursor", "none"),
    ("/v1/yields/pools", f"token={T}", "token", "none"),
    ("/v1/yields/borrow", "name=x&page=1", "page", "none"),
    ("/v1/markets", "x=1&p%65r_page=2&page=1", "page", "none"),
]


@pytest.mark.parametrize(("path", "query", "name", "accepted"), REFUSED_NAMES)
def test_names_that_read_like_parameters_are_refused(path: str, query: str, name: str, accepted: str) -> None:
    """A parameter that looks like a filter, an order or a page is refused with the accepted names, never ignored."""
    answer = route(path, query, SIZES)

    assert isinstance(answer, Problem)
    assert 400 == answer.status
    assert answer.detail.startswith(f"{name} is not a parameter of {path}: ")
    assert accepted in answer.detail


# What each refusal has to name: a URL that gives the client what was asked for.
WAYS_THAT_WORK = [
    ("/v1/assets", "symbol=USDC", "/v1/tokens?symbol="),
    ("/v1/assets", "sort=apy", "/v1/latest.csv"),
    ("/v1/assets", "market=Fixed", "/v1/markets"),
    ("/v1/assets", "token=USDC", "/v1/tokens"),
    ("/v1/pools", "symbol=USDC", "/v1/tokens?symbol="),
    ("/v1/pools", "limit=5", "/v1/latest.csv"),
    ("/v1/pools", "protocol=nope", "/v1/protocols"),
    ("/v1/pools", "protocol=a.b", "/v1/protocols"),
    ("/v1/pools", "status=closed", "left out"),
    ("/v1/pools", f"market={M}&token={T}", "/v1/assets"),
    ("/v1/tokens", "token=USDC", "/v1/tokens?symbol="),
    ("/v1/tokens", "symbol=nope", "/v1/tokens"),
    ("/v1/markets/Fixed", "", "/v1/markets"),
    ("/v1/tokens/USDC", "", "/v1/tokens"),
    (f"/v1/assets/{M}/a.b", "", "/v1/pools?market="),
    (f"/v1/assets/{M}/{T}", "", "/v1/assets"),
    (f"/v1/tokens/{T}", "", "/v1/tokens"),
    ("/v1/nothing", "", "/v1"),
]


@pytest.mark.parametrize(("path", "query", "way"), WAYS_THAT_WORK)
def test_a_refusal_names_the_way_that_works(path: str, query: str, way: str) -> None:
    """Whatever is refused or not there, its problem names a URL or a value with which the client gets on."""
    answer = route(path, query, SIZES)

    detail = answer.detail if isinstance(answer, Problem) else answer.missing.detail
    assert way in detail.replace(f"is not a parameter of {path}", "")


IGNORED_NAMES = [
    ("/v1/assets", "utm_source=x&_=1795392000&v=2"),
    ("/v1/assets", "sort=&protocol&page="),
    ("/v1/assets", "sort=&sort=tvl"),
    ("/v1/assets", "Sort=tvl&sort[]=tvl&xsort=1&sortx=1"),
    ("/v1/markets", "utm_source=x&_=5"),
    ("/v1/markets", "sort=&page"),
    ("/v1/protocol/summary", "sort=name&page=2"),
]


@pytest.mark.parametrize(("path", "query"), IGNORED_NAMES)
def test_other_names_are_ignored(path: str, query: str) -> None:
    """Cache busters, campaigns, and names without a value change nothing; nor does anything on other documents."""
    assert route(path, "", SIZES) == route(path, query, SIZES)


@given(st.integers(1, 2**31 - 1), st.sets(st.integers(2, 2**31 - 1), max_size=8))
def test_limit_rule_for_any_sizes(limit: int, more_sizes: set[int]) -> None:
    """The served page has the largest size that is not above the limit, for any sizes."""
    answer = route("/v1/assets", f"limit={limit}", sorted({1, *more_sizes}))

    assert isinstance(answer, Served)
    assert f"v1/assets/limit/{max(size for size in {1, *more_sizes} if size <= limit)}.json" == answer.keys[0]


BAD_LIMITS = [
    *("-1", "%2B5", "5.0", "5%20", "5%0A", "1_000", "2147483648", "9" * 5000),
    *("%D9%A5", "%C2%B2"),  # ARABIC-INDIC DIGIT FIVE; SUPERSCRIPT TWO, a digit to str.isdigit
]
BAD_MARKETS = (M[:-1], f"{M}A", M.lower(), f"G{M[1:]}", f"{M}%0A", "..%2F..%2Fetc", "%ff", "\xe9")
BAD_CURSORS = ("a.b", "..%2Fsystem%2Fstatus", "%00", f"{TOKEN}%0A", "A" * 129)
BAD_VALUES = [
    *((f"limit={limit}", 400, "limit") for limit in BAD_LIMITS),
    (f"market={M}&limit=x", 400, "limit"),
    *((f"market={market}", 400, "market") for market in BAD_MARKETS),
    *((f"{before}token=native", 400, "token") for before in ("", f"market={M}&")),
    *((f"cursor={cursor}", 404, "cursor") for cursor in BAD_CURSORS),
]
REFUSED = [
    *((f"{path}/history", query, 400) for path in HISTORIES for query in ("bucket=1h", "bucket=2h")),
    *((f"{path}/history", "cursor=a.b", 404) for path in HISTORIES),
    *((f"/v1/assets/{M}/{T}/history", query, 400) for query in ("bucket=2h", "bucket=1D")),
    *((f"/v1/assets/{M}/{T}/history", f"cursor={cursor}", 404) for cursor in ("a.b", "a" * 129)),
    ("/v1/tokens/usdc.json/history", "cursor=x", 400),
    *((f"/v1/{path}/history", "", 400) for path in (f"assets/{M}/-x", f"assets/usdc/{T}", "markets/usdc")),
    *((f"/v1/assets/{name}", "", 400) for name in (f"usdc/{T}", f"{M}/_", f"{M}/{'a' * 129}", f"{M}/%C3%A9")),
    *((f"/v1/tokens/{token}", "", 400) for token in ("usdc", f"{T}%20")),
    *((f"/v1/markets/{market}", "", 400) for market in (*BAD_MARKETS[:4], "x", f"{M}%20", "%C3%A9", "a:b", "C" * 5000)),
    (f"/v1/markets/{M}.html", "", 400),
    (f"/v1/markets/{M}%0A", "", 404),  # a control character makes the whole path one that names nothing
]


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        *(("/v1/assets", *row) for row in BAD_VALUES),
        *(("/v1/pools", query, status, "") for query, status in POOLS_REFUSED),
        *((*row, "") for row in REFUSED),
    ],
)
def test_what_is_ill_formed_is_refused(path: str, query: str, status: int, said: str) -> None:
    """A value or a name that is not accepted is a problem that says which; an ill-formed cursor is unknown."""
    answer = route(path, query, SIZES)

    assert isinstance(answer, Problem)
    assert status == answer.status
    assert said in answer.detail


PATHS = [
    ("/", ("index.html",)),
    ("/v1", ("v1/index.json",)),
    ("/v1/", ("v1/index.json",)),
    (f"/v1/markets/%43{M[1:]}", (f"v1/markets/{M}.json",)),
    ("/history/pools/date%3D2026-11-21/1.parquet", ("history/pools/date=2026-11-21/1.parquet",)),
    *((f"/{key}", (key,)) for key in ("v1/assets/index.json", "v1/assets/limit/20.json", "style.css")),
    *((f"/{key}", (key,)) for key in (f"v1/markets/{M}.json", f"v1/assets/{M}/{T}.json", f"v1/pages/{TOKEN}.json")),
    ("/history/pools/date=2026-11-21/1.parquet", ("history/pools/date=2026-11-21/1.parquet",)),
    *((f"/v1/{name}", (f"v1/{name}.json",)) for name in (f"markets/{M}", f"tokens/{T}", f"assets/{M}/{T}")),
    *((f"/v1/{name}", (f"v1/{name}.json",)) for name in (f"assets/{M}/a-pool_1", f"buckets/{TOKEN}", f"pages/{TOKEN}")),
    *(
        (f"/v1/{name}", (f"v1/{name}.json", f"v1/{name}/index.json"))
        for name in ("system/status", "protocol/summary", f"assets/market/{M}", f"assets/{M}/{T}/history/1h")
    ),
]


@pytest.mark.parametrize(("path", "keys"), PATHS)
def test_paths_pick_a_file(path: str, keys: tuple[str, ...]) -> None:
    """Each path picks the file that the API's table names, whatever the query says."""
    for query in ("", "utm_source=bad&v=1"):
        answer = route(path, query, SIZES)
        assert isinstance(answer, Served)
        assert keys == answer.keys


TRAVERSALS = [
    *("", "v1/assets", "*", "//", "//etc/passwd", "/v1//assets", "/v1/assets/", "/v1/markets/"),
    *("/.", "/..", "/../x.json", "/v1/./assets", "/v1/markets/%2e%2e", "/v1/markets/..%2f..%2fx"),
    *("/v1/markets/%2Fetc%2Fpasswd", "/v1/..%2fx.json", "/v1/%2e%2e/x.json", "/v1/..%5c..%5cx.json"),
    *("/v1\\..\\x.json", "/v1/a%5Cb.json", "/%00", "/v1/assets.json%00.html", "/C:/Windows/win.ini"),
    *("/c:secret.json", "/~root/x.json:stream", "/.exporter.lock", "/v1/.tmp-1.json", "/v1/assets%0A"),
    *("/v1/%E2%80%A5/x.json", "/v1/%c0%ae%c0%ae/x.json", "/v1/\xff.json", "/secrets.toml"),
    *("/v1/assets/index.json.", "/v1/assets/index.json%20", "/" + "a" * 256, "/a" * 2000),
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_paths_that_are_no_key_are_404(path: str) -> None:
    """No path that could leave the folder, or name what is hidden in it, reaches a file system."""
    answer = route(path, "", SIZES)

    assert isinstance(answer, Problem)
    assert 404 == answer.status


@given(
    st.lists(st.sampled_from([*"/.%\\:~+ @=-_\x00\n2e5cfFC0", "..", "%2e", "%2f", "v1", "json", "é"])).map("".join),
    st.text(st.sampled_from(string.printable), max_size=40),
)
def test_only_keys_of_the_tree_are_ever_picked(path: str, query: str) -> None:
    """Whatever is asked for, a file that is picked has a name that stays inside and is not hidden."""
    for answer in (route(f"/{path}", query, SIZES), route("/v1/assets", query, SIZES)):
        if isinstance(answer, Served):
            assert all(is_key(key) and content_type(key) for key in answer.keys)
        else:
            assert answer.status in (400, 404)


def test_details_show_a_bounded_part_of_a_value() -> None:
    """A problem repeats no more than the beginning of a long value."""
    answer = route("/v1/assets", "limit=" + "x" * 5000, SIZES)

    assert isinstance(answer, Problem)
    assert "x" * MAX_REPEATED_CHARACTERS + "..." in answer.detail
    assert "x" * (MAX_REPEATED_CHARACTERS + 1) not in answer.detail


def test_problem_documents_have_the_fields_of_rfc_9457() -> None:
    """A problem document holds type, title, status and detail."""
    expected = b'{"type":"about:blank","title":"Not Found","status":404,"detail":"Nothing."}'

    assert expected == encode_problem(problem(404, "Nothing."))
