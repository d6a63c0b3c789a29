"""Oracles and tokens of the embedded network as simulated calls see them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from exporter.deployments.local import made_address
from exporter.ledger.codec import entries, scval
from exporter.ledger.codec.entries import PERSISTENT, TEMPORARY
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import VOID, i128, string, struct_map, symbol, u32, u64
from exporter.ledger.rpc.wire import footprint_parts
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import (
    ORACLE_WASM,
    ORACLE_WASM_HASH,
    OWN_LAYOUT_WASM_HASH,
    TOKEN_WASM_HASH,
    Simulation,
    Token,
    TokenLayout,
    asset_entry,
    made_wasm,
    oracle_instance,
    price_entry,
    price_key,
    wasm_hash,
)
from exporter.localnet.made_assets import made_account
from exporter.localnet.network import CODE
from tests.localnet.rpc_client import stellar_asset

LEDGER = 1_000
NOW = 1_800_000_000
ORACLE = made_address("an oracle")
TOKEN = made_address("a token")
ISSUER = made_account("an issuer")


def chain_of(*made: tuple[bytes, bytes], live_until: int = 2_000) -> Chain:
    """A chain with these entries, last changed at ledger 900."""
    stored = {key: RawEntry(data, 900, live_until) for key, data in made}
    return Chain(stored, start_ledger=LEDGER, start_time=NOW)


def oracle_chain(*made: tuple[bytes, bytes], decimals: int = 7, durability: int = PERSISTENT, **life: int) -> Chain:
    """A chain with an oracle and these entries."""
    return chain_of(oracle_instance(ORACLE, decimals, durability), *made, **life)


def price(chain: Chain, ledger: int = LEDGER) -> Simulation:
    """What ``lastprice`` of the token gives."""
    return CODE.simulate(chain, ledger, ContractCall(ORACLE, "lastprice", (stellar_asset(TOKEN),)))


def result(simulation: Simulation) -> ScVal:
    """The value of a call that must not fail."""
    assert simulation.error is None
    assert simulation.result is not None
    return decode_scval(simulation.result)


@pytest.mark.parametrize("decimals", [7, 14])
def test_an_oracle_tells_its_decimals(decimals: int) -> None:
    """``decimals`` is a u32 from the instance."""
    simulation = CODE.simulate(oracle_chain(decimals=decimals), LEDGER, ContractCall(ORACLE, "decimals"))

    assert u32(decimals) == result(simulation)
    assert [entries.instance_key(ORACLE), entries.code_key(ORACLE_WASM_HASH)] == list(simulation.footprint)


@pytest.mark.parametrize("durability", [PERSISTENT, TEMPORARY])
@pytest.mark.parametrize(("amount", "timestamp"), [(12345678, NOW), (1, NOW - 86_400), (0, NOW), (-5, NOW), (7, 1)])
def test_a_feed_gives_what_its_entry_says(amount: int, timestamp: int, durability: int) -> None:
    """Any price of any age is given as it is, also zero, negative and old ones; the map has price, then timestamp."""
    entry = price_entry(ORACLE, TOKEN, amount, timestamp, durability)
    chain = oracle_chain(asset_entry(ORACLE, TOKEN), entry, durability=durability)

    given = result(price(chain))
    assert struct_map({"price": i128(amount), "timestamp": u64(timestamp)}) == given
    assert [symbol("price"), symbol("timestamp")] == [key for key, _ in given[1]]


def test_a_feed_without_a_price_gives_none_and_records_where_it_looked() -> None:
    """A missing price is ScvVoid, and the absent key is in the footprint."""
    simulation = price(oracle_chain(asset_entry(ORACLE, TOKEN)))

    assert VOID == result(simulation)
    assert simulation.footprint[price_key(ORACLE, TOKEN, PERSISTENT)] is None
    assert price_key(ORACLE, TOKEN, PERSISTENT) in sum(footprint_parts(simulation.transaction_data()), ())


def test_an_unknown_asset_traps() -> None:
    """An asset that the oracle does not know ends the call with the host's error and no footprint."""
    simulation = price(oracle_chain())

    assert simulation.result is None
    assert (simulation.error or "").startswith("HostError: Error(Contract, #2)")
    assert {} == simulation.footprint


def test_a_constant_is_always_of_now() -> None:
    """A base asset has the ledger's close time as its timestamp, at each ledger."""
    chain = oracle_chain(asset_entry(ORACLE, TOKEN, constant=10**7))
    chain.close([], close_time=NOW + 5)

    for ledger, time in ((LEDGER, NOW), (LEDGER + 1, NOW + 5)):
        assert struct_map({"price": i128(10**7), "timestamp": u64(time)}) == result(price(chain, ledger))


def test_a_call_runs_at_the_ledger_it_is_told() -> None:
    """A price that changes is given as of the ledger of the simulation."""
    first = price_entry(ORACLE, TOKEN, 1, NOW, PERSISTENT)
    chain = oracle_chain(asset_entry(ORACLE, TOKEN), first)
    chain.close([Change(*price_entry(ORACLE, TOKEN, 2, NOW + 5, PERSISTENT), 3_000)], close_time=NOW + 5)

    assert [1, 2] == [dict(result(price(chain, at))[1])[symbol("price")][1] for at in (LEDGER, LEDGER + 1)]


def test_an_expired_temporary_price_is_none() -> None:
    """A temporary price vanishes on the ledger after its last, without any change (docs/rpc.md, "The rule")."""
    entry = price_entry(ORACLE, TOKEN, 1, NOW, TEMPORARY)
    chain = oracle_chain(asset_entry(ORACLE, TOKEN), entry, durability=TEMPORARY, live_until=LEDGER)
    chain.close([], close_time=NOW + 5)

    assert VOID != result(price(chain))
    assert VOID == result(price(chain, LEDGER + 1))


def test_archived_entries_look_restored_and_are_to_be_written() -> None:
    """Archived persistent entries are read as if restored, and stand in the read-write footprint with their indexes."""
    entry = price_entry(ORACLE, TOKEN, 3, NOW, PERSISTENT)
    chain = oracle_chain(asset_entry(ORACLE, TOKEN), entry, live_until=LEDGER)
    chain.close([Change(*oracle_instance(ORACLE, 7), 5_000)], close_time=NOW + 5)

    simulation = price(chain, LEDGER + 1)
    assert 3 == dict(result(simulation)[1])[symbol("price")][1]
    data = simulation.transaction_data()
    assert b"\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\1" == data[:16]
    instance_and_code = [entries.instance_key(ORACLE), entries.code_key(ORACLE_WASM_HASH)]
    archived = [asset_entry(ORACLE, TOKEN)[0], entry[0]]
    assert (*instance_and_code, *archived) == sum(footprint_parts(data), ())


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        ("lastprice", (), "Error(WasmVm, UnexpectedSize)"),
        ("decimals", (VOID,), "Error(WasmVm, UnexpectedSize)"),
        ("lastprice", (VOID,), "Error(Contract, #2)"),
        ("lastprice", ((scval.VEC, None),), "Error(Contract, #2)"),
        ("lastprice", ((scval.VEC, (symbol("Other"), symbol("USD"))),), "Error(Contract, #2)"),
        ("lastprice", ((scval.VEC, (symbol("Stellar"), symbol("USD"))),), "Error(Value, UnexpectedType)"),
        ("x_last_price", (), "Error(WasmVm, MissingValue)"),
    ],
)
def test_wrong_calls_of_an_oracle_trap(function: str, arguments: tuple[Any, ...], error: str) -> None:
    """Unknown functions and wrong arguments fail as they do on the network."""
    simulation = CODE.simulate(oracle_chain(), LEDGER, ContractCall(ORACLE, function, arguments))

    assert (simulation.error or "").startswith(f"HostError: {error}")


def test_a_contract_that_is_not_there_or_has_no_code_traps() -> None:
    """Without an instance, or with a wasm hash that has no stand-in, a call fails."""
    data = entries.ContractData(
        TOKEN,
        (scval.LEDGER_KEY_CONTRACT_INSTANCE, None),
        PERSISTENT,
        (scval.CONTRACT_INSTANCE, scval.ContractInstance(scval.WASM, bytes(32), None, None)),
    )
    chain = chain_of((entries.instance_key(TOKEN), entries.encode_contract_data(data)))

    for contract in (ORACLE, TOKEN):
        simulation = CODE.simulate(chain, LEDGER, ContractCall(contract, "decimals"))
        assert (simulation.error or "").startswith("HostError: Error(Storage, MissingValue)")


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


@pytest.mark.parametrize("name", TOKENS)
def test_metadata_is_in_the_instance_where_it_belongs(name: str) -> None:
    """All but the token of its own layout have METADATA {decimal, name, symbol}."""
    _, data = TOKENS[name].instance_entry()
    instance = entries.instance_of(entries.decode_contract_data(data))
    storage = dict(instance.storage or ())

    executables = {"wasm": TOKEN_WASM_HASH, "own layout": OWN_LAYOUT_WASM_HASH}
    assert executables.get(name) == instance.wasm_hash
    assert (name == "own layout") == (symbol("METADATA") not in storage)
    if name != "own layout":
        assert ["decimal", "name", "symbol"] == [key[1] for key, _ in storage[symbol("METADATA")][1]]


def test_the_native_asset_of_mainnet_has_the_same_instance(mainnet_snapshot_path: Any) -> None:
    """The made native token and the real one have equal instances."""
    from exporter.ledger.snapshot_file import LedgerSnapshot

    native = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"  # docs/protocols/blend.md, "Structure"
    real = dict(LedgerSnapshot.load(mainnet_snapshot_path).contract_instances())[native]
    made = entries.instance_of(entries.decode_contract_data(TOKENS["native"].instance_entry()[1]))

    assert real == made


def test_made_code_has_its_own_hash() -> None:
    """A made module begins as wasm does, is keyed by its SHA-256, and differs by name."""
    assert ORACLE_WASM.startswith(b"\0asm\1\0\0\0")
    assert hashlib.sha256(ORACLE_WASM).digest() == wasm_hash(ORACLE_WASM) == ORACLE_WASM_HASH
    assert made_wasm("a") != made_wasm("b")
    assert 3 == len({ORACLE_WASM_HASH, TOKEN_WASM_HASH, OWN_LAYOUT_WASM_HASH})
