"""Prices of tokens that an oracle knows as something else than their own address."""

from __future__ import annotations

import asyncio

import pytest

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, u32
from exporter.ledger.oracles import MAX_DECIMALS, Quote, by_address, by_symbol, read_asset_quotes
from exporter.ledger.source import ContractCall
from exporter.ledger.view import read_at_one_ledger
from tests.chain_simulator import Chain
from tests.protocols.made_ledger import NOW, MadeSource, account, contract, price_data

ORACLE, XLM, USDC = contract("oracle"), contract("XLM"), contract("USDC")
ASSETS = {(ORACLE, XLM): by_symbol("XLM"), (ORACLE, USDC): by_address(contract("other USDC"))}


def quotes_of(
    results: dict[ContractCall, ScVal | bytes | str], assets: dict[tuple[str, str], ScVal]
) -> tuple[dict[tuple[str, str], Quote], list[ContractCall]]:
    """The quotes, and the calls that they took."""
    source = MadeSource(Chain(), results)
    reading = asyncio.run(read_at_one_ledger(source, lambda view: read_asset_quotes(view, assets)))
    return reading.result, source.calls


def lastprice(asset: ScVal) -> ContractCall:
    """The call that asks for an asset's price."""
    return ContractCall(ORACLE, "lastprice", (asset,))


def test_assets_are_asked_for_as_they_are_known() -> None:
    """Each token is asked for as its asset, the decimals once an oracle; the quote is the token's."""
    results: dict[ContractCall, ScVal | bytes | str] = {ContractCall(ORACLE, "decimals"): u32(14)}
    results |= {lastprice(asset): price_data(7 + place, NOW) for place, asset in enumerate(ASSETS.values())}
    quotes, calls = quotes_of(results, ASSETS)

    assert {
        (ORACLE, XLM): Quote(ORACLE, XLM, 14, 7, NOW),
        (ORACLE, USDC): Quote(ORACLE, USDC, 14, 8, NOW),
    } == quotes
    assert 3 == len(calls)


@pytest.mark.parametrize(
    ("decimals", "price", "failure"),
    [
        ("HostError: a", price_data(1, 1), "decimals() failed: HostError: a"),
        (u32(14), "HostError: b", "lastprice() failed: HostError: b"),
        (u32(14), VOID, "the oracle has no price for this token"),
        (u32(MAX_DECIMALS + 1), price_data(1, 1), "the oracle has 39 decimals, more than 38"),
        (VOID, price_data(1, 1), "decimals(): expected"),
        (u32(14), u32(1), "lastprice(): expected"),
    ],
)
def test_failures(decimals: ScVal | str, price: ScVal | str, failure: str) -> None:
    """A token without a price has a quote that says why."""
    asset = ASSETS[ORACLE, XLM]
    quotes, _ = quotes_of({ContractCall(ORACLE, "decimals"): decimals, lastprice(asset): price}, {(ORACLE, XLM): asset})

    assert (quotes[ORACLE, XLM].failure or "").startswith(failure)
    assert quotes[ORACLE, XLM].price is None


def test_an_account_is_not_called() -> None:
    """An oracle that is no contract has no price, and nothing is asked."""
    pair = (account("somebody"), XLM)
    quotes, calls = quotes_of({}, {pair: by_symbol("XLM")})

    assert ("the market's oracle is no contract", []) == (quotes[pair].failure, calls)
