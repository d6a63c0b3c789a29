"""The list of identified tokens."""

from __future__ import annotations

import pytest
from stellar_sdk import Asset

from exporter.deployments.identified_tokens import IdentifiedToken, identified_tokens, identities, read_list
from exporter.deployments.networks import NETWORKS
from exporter.errors import ConfigError
from exporter.tree.pool_parts import TokenIdentity
from tools.recording.tokens import token_address

ADDRESS = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"
ISSUER = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
GOOD = f"""
[[mainnet]]
address = "{ADDRESS}"
code = "USDC"
issuer = "{ISSUER}"
who = "Circle"
home_domain = "circle.com"
stable = true
source = "a source"
date = 2026-11-28
"""

CLASSIC = [
    pytest.param(network, token, id=f"{network} {token.code}")
    for network in NETWORKS
    for token in identified_tokens(network).values()
    if token.code is not None
]


@pytest.mark.parametrize(("network", "token"), CLASSIC)
def test_addresses_follow_from_code_and_issuer(network: str, token: IdentifiedToken) -> None:
    """Each classic asset's address is the one that stellar-sdk derives: no digit was lost, no issuer mistaken."""
    asset = Asset.native() if token.issuer is None else Asset(str(token.code), token.issuer)

    assert asset.contract_id(NETWORKS[network].passphrase) == token.address


def test_a_derived_address_may_be_nobody_elses() -> None:
    """USDC of another issuer has another contract, so a copy of the name is on no list."""
    copied = Asset("USDC", "GBBD47IF6LWK7P7MDEVSCWR7DPUWV3NY3DTQEVFL4NAT4AQH3ZLLFLA5")

    assert TokenIdentity("Circle", "circle.com", stable=True) == identities("mainnet")[ADDRESS]
    assert copied.contract_id(NETWORKS["mainnet"].passphrase) not in identities("mainnet")


def test_a_network_without_a_list_identifies_nothing() -> None:
    """A network that is not known here has no tokens that anybody stands behind."""
    assert {} == identities("custom")


def test_tokens_of_the_recording_say_that_they_are_of_it() -> None:
    """Nobody can take a token of the demo for a real one: each identity there says so."""
    identified = identified_tokens("local")

    assert 4 == len(identified)
    assert [] == [token.who for token in identified.values() if "record" not in token.who]
    assert token_address("USST") not in identified
    assert {"USDC", "EURC", "USDT0", "XLM"} == {
        symbol for symbol in ("USDC", "EURC", "USDT0", "XLM", "wBTC", "wETH") if token_address(symbol) in identified
    }


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        (ADDRESS, ADDRESS[:-1] + "A", "is no contract"),
        (ISSUER, ADDRESS, "is no account"),
        (f'issuer = "{ISSUER}"\n', "", "both code and issuer"),
        ('code = "USDC"\n', "", "both code and issuer"),
        ('"USDC"', '"US-DC"', "is no asset code"),
        ('"circle.com"', '"https://circle.com"', "is no domain"),
        ('who = "Circle"\n', "", "`who`"),
        ('who = "Circle"', 'who = ""', "$.who"),
        ("stable = true", 'stable = "yes"', "$.stable"),
        ("stable", "pegged", "`pegged`"),
        ("date = 2026-11-28", 'date = "soon"', "$.date"),
    ],
)
def test_a_wrong_token_is_named(before: str, after: str, named: str) -> None:
    """Whatever is wrong with a token is a ConfigError that names its place in the list, and what is wrong."""
    with pytest.raises(ConfigError, match="token 1 of mainnet") as error:
        read_list(GOOD.replace(before, after))

    assert named in str(error.value)


def test_a_wrong_list_is_named() -> None:
    """The error names a list that is no TOML, a network that is no list, or an address that is there twice."""
    for text, named in (("[[", "not TOML"), ("mainnet = 1", r"begin each with \[\[mainnet\]\]"), (GOOD * 2, "already")):
        with pytest.raises(ConfigError, match=named):
            read_list(text)
