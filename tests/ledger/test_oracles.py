"""Quotes of SEP-40 oracles, each on its own."""

from __future__ import annotations

import asyncio

import pytest

from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, i128, string, struct_map, u32, u64
from exporter.ledger.oracles import PriceKey, Quote, by_address, by_symbol, read_asset_quotes, read_quotes
from exporter.ledger.source import ContractCall
from exporter.ledger.storage_rules.host import price_data
from exporter.ledger.view import LedgerView, read_at_one_ledger
from tests.protocols.made_ledger import NOW, MadeLedger, account, contract, lastprice


def quotes_of(ledger: MadeLedger, *oracles: str) -> list[Quote]:
    """The quotes of oracles, by address, for token T."""
    prices = [PriceKey(oracle, contract("T")) for oracle in oracles]

    async def program(view: LedgerView) -> list[Quote]:
        quotes = await read_quotes(view, prices)
        return [quotes[price] for price in prices]

    return asyncio.run(read_at_one_ledger(ledger, program)).result


def oracle(decimals: ScVal | bytes | str, price: ScVal | bytes | str) -> MadeLedger:
    """A ledger with one oracle O that says this of token T."""
    results = {ContractCall(contract("O"), "decimals"): decimals, lastprice("O", "T"): price}
    return MadeLedger(results=results)


@pytest.mark.parametrize("decimals", [0, 7, 14, 38])
@pytest.mark.parametrize("price", [-(2**127), -1, 0, 1, 2**127 - 1])
def test_what_the_oracle_said(decimals: int, price: int) -> None:
    """A quote holds the oracle's own numbers, be they good or bad: judging them is the protocol's."""
    [quote] = quotes_of(oracle(u32(decimals), price_data(price, NOW)), contract("O"))

    assert Quote(contract("O"), contract("T"), decimals, price, NOW) == quote


@pytest.mark.parametrize(
    ("decimals", "price", "reason"),
    [
        (u32(7), VOID, "the oracle has no price for this token"),
        (u32(7), "HostError: Error(Contract, #2)", "lastprice() failed: HostError: Error(Contract, #2)"),
        ("trap", price_data(1, NOW), "decimals() failed: trap"),
        (u32(39), price_data(1, NOW), "the oracle has 39 decimals, more than 38"),
        (i128(7), price_data(1, NOW), "decimals(): expected u32, found i128"),
        (u32(7), i128(1), "lastprice(): expected map, found i128"),
        (
            u32(7),
            struct_map({"price": u64(1), "timestamp": u64(NOW)}),
            "lastprice(): field price: expected i128, found u64",
        ),
        (u32(7), struct_map({"timestamp": u64(NOW)}), "lastprice(): field price is missing"),
        (
            u32(7),
            struct_map({"price": i128(1), "timestamp": string("now")}),
            "lastprice(): field timestamp: expected u64, found string",
        ),
        (u32(7), b"\xff\xff\xff\xff", "lastprice() failed: the result cannot be decoded: unknown kind of value"),
        (b"\0\0\0\x03\0", price_data(1, NOW), "decimals() failed: the result cannot be decoded"),
    ],
)
def test_an_answer_that_is_no_price_gives_the_reason(
    decimals: ScVal | bytes | str, price: ScVal | bytes | str, reason: str
) -> None:
    """An answer that is not a price gives none, with the reason."""
    [quote] = quotes_of(oracle(decimals, price), contract("O"))

    assert (None, None, None) == (quote.decimals, quote.price, quote.timestamp)
    assert quote.failure is not None
    assert quote.failure.startswith(reason)


def test_oracle_that_is_an_account() -> None:
    """An oracle address that is not a contract is never called, which an RPC would refuse; its tokens have no price."""
    ledger = oracle(u32(7), price_data(3, NOW))
    refused, quote = quotes_of(ledger, account("O"), contract("O"))

    assert "the market's oracle is not a contract" == refused.failure
    assert 3 == quote.price
    assert {contract("O")} == {call.contract for call in ledger.calls}


def test_assets_are_asked_for_as_they_are_known() -> None:
    """A token that an oracle knows as something else is asked for as that, decimals once; the quote is the token's."""
    oracle_address, xlm, usdc = contract("oracle"), contract("XLM"), contract("USDC")
    assets = {
        PriceKey(oracle_address, xlm): by_symbol("XLM"),
        PriceKey(oracle_address, usdc): by_address(contract("other USDC")),
    }
    results: dict[ContractCall, ScVal | bytes | str] = {ContractCall(oracle_address, "decimals"): u32(14)}
    for place, asset in enumerate(assets.values()):
        results[ContractCall(oracle_address, "lastprice", (asset,))] = price_data(7 + place, NOW)
    ledger = MadeLedger(results=results)

    assert {
        (oracle_address, xlm): Quote(oracle_address, xlm, 14, 7, NOW),
        (oracle_address, usdc): Quote(oracle_address, usdc, 14, 8, NOW),
    } == asyncio.run(read_at_one_ledger(ledger, lambda view: read_asset_quotes(view, assets))).result
    assert 3 == len(ledger.calls)
