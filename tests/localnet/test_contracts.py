"""The contracts that every embedded network has: oracles, tokens and the router."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from exporter.deployments.made_addresses import LOCAL_ROUTER, made_address
from exporter.ledger.codec import entries
from exporter.ledger.codec.entries import PERSISTENT
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, address, string, u32
from exporter.ledger.router import BUNDLE_SIZE, MIN_BUNDLE
from exporter.ledger.rpc.client import RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.ledger.rpc.wire import footprint_parts
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.answers import Simulation
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.blend import V2
from exporter.localnet.chain import Chain
from exporter.localnet.contracts import (
    Token,
    TokenLayout,
    asset_entry,
    oracle_instance,
    price_key,
)
from exporter.localnet.made import MadeNetwork
from exporter.localnet.made_assets import FeedKind, made_account
from exporter.localnet.network import CODE
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.jobs import run, settings_for
from tests.localnet.rpc_client import stellar_asset

LEDGER = 1_000
NOW = 1_800_000_000
ORACLE = made_address("an oracle")
TOKEN = made_address("a token")
ISSUER = made_account("an issuer")


def chain_of(*made: tuple[bytes, bytes], live_until: int = 2_000) -> Chain:
    stored = {key: RawEntry(data, 900, live_until) for key, data in made}
    return Chain(stored, start_ledger=LEDGER, start_time=NOW)


def oracle_chain(*made: tuple[bytes, bytes], decimals: int = 7, durability: int = PERSISTENT, **life: int) -> Chain:
    return chain_of(oracle_instance(ORACLE, decimals, durability), *made, **life)


def price(chain: Chain, ledger: int = LEDGER) -> Simulation:
    return CODE.simulate(chain, ledger, ContractCall(ORACLE, "lastprice", (stellar_asset(TOKEN),)))


def result(simulation: Simulation) -> ScVal:
    assert simulation.error is None
    assert simulation.result is not None
    return decode_scval(simulation.result)


def test_a_feed_without_a_price_gives_none_and_records_where_it_looked() -> None:
    """A missing price is ScvVoid, and the absent key is in the footprint."""
    simulation = price(oracle_chain(asset_entry(ORACLE, TOKEN)))

    assert VOID == result(simulation)
    assert simulation.footprint[price_key(ORACLE, TOKEN, PERSISTENT)] is None
    assert price_key(ORACLE, TOKEN, PERSISTENT) in sum(footprint_parts(simulation.transaction_data()), ())


TOKENS = {
    "native": Token(TOKEN, "native", 7, TokenLayout.STELLAR_ASSET, ISSUER),
    "asset": Token(TOKEN, "USDC", 7, TokenLayout.STELLAR_ASSET, ISSUER, ISSUER),
    "long asset": Token(TOKEN, "USDCAllow", 7, TokenLayout.STELLAR_ASSET, ISSUER, ISSUER),
    "wasm": Token(TOKEN, "wETH", 18, TokenLayout.WASM, ISSUER),
    "own layout": Token(TOKEN, "USTRY", 6, TokenLayout.OWN, ISSUER),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_every_token_answers_for_itself(token: Token) -> None:
    """``symbol``, ``name`` and ``decimals`` work for every layout; a Stellar asset's name has its issuer."""
    chain = chain_of(token.instance_entry())

    answers = [
        result(CODE.simulate(chain, LEDGER, ContractCall(TOKEN, function)))
        for function in ("symbol", "name", "decimals")
    ]
    assert [string(token.symbol), string(token.name), u32(token.decimals)] == answers
    expected = {"native": "native", "USDC": f"USDC:{ISSUER}", "USDCAllow": f"USDCAllow:{ISSUER}"}
    assert expected.get(token.symbol, f"{token.symbol} Token") == token.name
    for call in (ContractCall(TOKEN, "balance"), ContractCall(TOKEN, "symbol", (VOID,))):
        assert CODE.simulate(chain, LEDGER, call).error is not None


def test_the_native_asset_of_mainnet_has_the_same_instance(mainnet_snapshot_path: Any) -> None:
    """The made native token and the real one have equal instances."""
    from exporter.ledger.snapshot_file import LedgerSnapshot

    native = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"  # docs/protocols/blend.md, "Structure"
    real = dict(LedgerSnapshot.load(mainnet_snapshot_path).contract_instances())[native]
    made = entries.instance_of(entries.decode_contract_data(TOKENS["native"].instance_entry()[1]))

    assert real == made


# The router ---------------------------------------------------------------------------------------------------


ROUTER = LOCAL_ROUTER.address


def test_an_archived_entry_is_written() -> None:
    """A call that would restore an entry says that it writes, so that it stands in no bundle."""
    archived = MadeNetwork(pools=20, archived=8)
    market, reserve = next(pair for pair in archived.archived if pair[0].generation is V2)
    calls = [
        ContractCall(market.address, "get_reserve", (address(reserve.token),)),
        ContractCall(archived.oracles[0].contract, "decimals"),
    ]

    async def ask(url: str) -> list[bool]:
        async with RpcSource([url], archived.passphrase, limits=RpcLimits(requests_per_second=10_000)) as source:
            return [(await source.simulate(call)).writes for call in calls]

    with running(create_app(archived)) as url:
        assert [True, False] == asyncio.run(ask(url))


def job(folder: Path, network: MadeNetwork, **network_settings: Any) -> tuple[int, dict[str, Any], Behaviour]:
    """A whole run: its exit code, its report, and what the server was asked."""
    behaviour = Behaviour()
    with running(create_app(network, behaviour)) as url:
        flags = {f"network__{name}": value for name, value in network_settings.items()}
        return *run(settings_for(folder, url, **flags), dry_run=True), behaviour


def test_the_job(tmp_path: Path) -> None:
    """A run with the router publishes what one without it does, for a tenth of the simulations, and reports it."""
    network = MadeNetwork(pools=60)
    _, without, plain = job(tmp_path / "plain", network, router=False)
    code, facts, asked = job(tmp_path / "routed", network)

    assert (0, None) == (code, without["router"])
    for name in ("unpriced", "unread", "absent", "notices"):
        assert without[name] == facts[name]
    calls, simulations = plain.counts["simulateTransaction"], asked.counts["simulateTransaction"]
    routed = facts["router"]
    assert (ROUTER, 0, None) == (routed["contract"], routed["failed"], routed["stopped"])
    assert calls - routed["results"] + routed["bundles"] == simulations
    failing = sum(feed.kind is FeedKind.UNKNOWN for feed in network.feeds)
    parts = 2  # token metadata, and prices; what is left over of each is a small bundle or less than one
    assert simulations <= 2 * -(-calls // BUNDLE_SIZE) + failing + parts * MIN_BUNDLE
    assert simulations < calls / 3
