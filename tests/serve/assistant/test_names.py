"""What a question names: tokens, markets and pools by address or name, and what was probably meant."""

from __future__ import annotations

import polars as pl
import pytest

from exporter.errors import ConfigError
from exporter.serve.assistant.names import market_named, meant, names_token, one_pool, pools_of
from exporter.serve.assistant.tree_reader import with_common_symbols

MARKETS = [
    {"market": "C1", "name": "Fixed XLM-USDC", "protocol": "blend", "listed": True},
    {"market": "C2", "name": "TestnetV2", "protocol": "blend", "listed": True},
    {"market": "C3", "name": "Peridot", "protocol": "peridot", "listed": True},
    {"market": "C4", "name": "main", "protocol": "alula", "listed": True},
]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("500 usdc", "; did you mean 'USDC'?"),
        ("lend XLM, please", "; did you mean 'XLM'?"),
        ("EUR", "; did you mean 'EURC'?"),
        ("USCD", "; did you mean 'USDC'?"),
        ("doge", ""),
        ("", ""),
    ],
)
def test_what_was_meant(asked: str, said: str) -> None:
    """A name inside the question, one that it is a part of, or one that is spelt nearly so is suggested; no other."""
    assert said == meant(asked, ["XLM", "USDC", "EURC", "USDC"])


def test_a_suggestion_is_short_and_harmless() -> None:
    """At most three names are suggested, each cut like any text of a contract."""
    said = meant("pool", [f"pool {number} {'x' * 500}\u202e" for number in range(9)])

    assert 2 == said.count(" or ")
    assert len(said) < 500
    assert "\u202e" not in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Blend", "2 markets fit; ask for one by its address: C1 ('Fixed XLM-USDC'), C2 ('TestnetV2')"),
        ("fixed", "and status what was not read; did you mean 'Fixed XLM-USDC'?"),
        ("nothing", "no such market was read; list_markets has all, and status what was not read"),
    ],
)
def test_a_market_that_is_none(asked: str, said: str) -> None:
    """If a protocol has several listed markets, its name is not taken for one, and the error names them."""
    with pytest.raises(ConfigError) as caught:
        market_named(asked, MARKETS)
    assert said in str(caught.value)


def test_a_market_with_the_name_of_its_protocol() -> None:
    """A market may be called like its protocol, or be the only one of it; then it is meant."""
    assert MARKETS[2:] == [market_named(name, MARKETS) for name in ("PERIDOT", "Alula")]


def test_a_stranger_cannot_take_the_name_of_a_listed_market() -> None:
    """Of markets with one name the only listed one is meant. If none or several are listed, the error says which."""
    copies = [MARKETS[0] | {"market": f"S{number}", "listed": False} for number in range(20)]
    twice = [*copies, MARKETS[0], MARKETS[0] | {"market": "C5"}]

    assert MARKETS[0] == market_named("fixed xlm-usdc", [*copies, *MARKETS])
    assert copies[7] == market_named("S7", [*copies, *MARKETS])
    with pytest.raises(ConfigError, match=r"20 markets fit.*S0 \('Fixed XLM-USDC', not listed\), S1"):
        market_named("Fixed XLM-USDC", copies)
    with pytest.raises(ConfigError, match=r"22 markets fit.*: C1 \('Fixed XLM-USDC'\), C5 \(.*\), S0 "):
        market_named("Fixed XLM-USDC", twice)


def test_a_token_that_was_not_read() -> None:
    """The error of a token without pools names the symbols of listed markets; strangers' are not suggested."""
    rows = [{"token_address": f"T{at}", "symbol": f"S{at:02}", "listed": True} for at in range(40)]
    others = [
        {"token_address": f"T{at}", "symbol": name, "listed": at == 99} for at, name in ((98, "10"), (99, "native"))
    ]
    pools = with_common_symbols(pl.DataFrame([*others, *rows]), "T99")

    with pytest.raises(
        ConfigError,
        match=r"no pool of the token '10 xlm' was read; there are 'XLM', 'S00',.*'S18' and 21 more, .*mean 'XLM'\?",
    ):
        pools_of(pools, "10 xlm", None, None)


def test_names_find_a_pool_or_candidates() -> None:
    """A market's name and a token's symbol are enough if one pool fits; otherwise the error names those that do."""
    rows = (("Fixed", "p", "USDC"), ("Fixed", "q", "native"), ("Other", "r", "USDC"), ("other", "s", "usdc"))
    pools = with_common_symbols(
        pl.DataFrame(
            [
                {"market": f"M{place}", "market_name": name, "pool": pool, "token_address": f"T{place}", "symbol": own}
                for place, (name, pool, own) in enumerate(rows)
            ]
        ),
        "T1",
    )

    assert "p" == one_pool(pools, "fixed", "usdc")["pool"]
    assert "q" == one_pool(pools, "Fixed", "XLM")["pool"]
    with pytest.raises(ConfigError, match=r"2 pools fit.*market M2 \('Other'\), pool r; market M3"):
        one_pool(pools, "other", "USDC")


def test_xlm_is_the_native_asset_alone() -> None:
    """Anybody can name a token native or XLM: asked for XLM, the first is left out, and the second is a candidate."""
    tokens = [
        {"address": "T0", "symbol": "native"},
        {"address": "T1", "symbol": "native"},
        {"address": "T2", "symbol": "XLM"},
    ]

    def named(token: str, native: str | None) -> list[str]:
        return [each["address"] for each in tokens if names_token(token, each, native)]

    assert ["T0", "T2"] == named("xlm", "T0")
    assert ["T0", "T1"] == named("Native", "T0")
    assert ["T0", "T1", "T2"] == named("XLM", None)
    assert ["T1"] == named("t1", "T0")


def test_a_classic_asset_is_found_by_its_code_and_issuer() -> None:
    """Explorers write an asset as CODE:ISSUER or CODE-ISSUER; of another issuer it is another token."""
    token = {"address": "T0", "symbol": "USDC", "issuer": "GA5Z"}

    assert [True, True, False] == [names_token(text, token, None) for text in ("USDC:GA5Z", "usdc-ga5z", "USDC:GBBB")]
