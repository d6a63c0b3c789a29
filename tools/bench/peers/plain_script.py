"""Reads Blend pools with stellar-sdk, as a short script of somebody's own does: 200 ledger keys in each request.

    python plain_script.py URL MARKETS PASSPHRASE

MARKETS is a file of lines, each a generation (v1 or v2) and the address of a pool. It asks for the instances and the
lists of reserves, then for the state and the configuration of each reserve, then an oracle for each price. It prints
a line of JSON for each reserve, and last the peak of this process's memory in kB.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from stellar_sdk import Account, Address, Keypair, SorobanServer, TransactionBuilder, scval, xdr

AT_ONCE = 200
SCALES = {"v1": 10**9, "v2": 10**12}


def key_of(contract: str, key: xdr.SCVal) -> xdr.LedgerKey:
    """The ledger key of a persistent entry of a contract."""
    durability = xdr.ContractDataDurability.PERSISTENT
    data = xdr.LedgerKeyContractData(Address(contract).to_xdr_sc_address(), key, durability)
    return xdr.LedgerKey(xdr.LedgerEntryType.CONTRACT_DATA, contract_data=data)


def of_reserve(market: str, name: str, token: str) -> xdr.LedgerKey:
    """The ledger key of an entry that a pool keeps for a reserve."""
    return key_of(market, scval.to_vec([scval.to_symbol(name), scval.to_address(token)]))


def values(server: SorobanServer, keys: list[xdr.LedgerKey]) -> dict[str, xdr.SCVal]:
    """The values of entries, by their keys as the RPC writes them."""
    found = {}
    for start in range(0, len(keys), AT_ONCE):
        for entry in server.get_ledger_entries(keys[start : start + AT_ONCE]).entries or ():
            data = xdr.LedgerEntryData.from_xdr(entry.xdr).contract_data
            assert data is not None
            found[entry.key] = data.val
    return found


def oracle_of(instance: xdr.SCVal) -> str:
    """The oracle that a pool's instance names."""
    assert instance.instance is not None
    assert instance.instance.storage is not None
    storage = {scval.to_native(item.key): item.val for item in instance.instance.storage.sc_map}
    config: Any = scval.to_native(storage["Config"])
    return str(config["oracle"].address)


def call(server: SorobanServer, passphrase: str, contract: str, function: str, *arguments: xdr.SCVal) -> Any:
    """What a function of a contract returns."""
    builder = TransactionBuilder(Account(Keypair.random().public_key, 1), passphrase, 100).set_timeout(30)
    builder.append_invoke_contract_function_op(contract, function, arguments)
    answer = server.simulate_transaction(builder.build())
    assert answer.results, answer.error
    return scval.to_native(answer.results[0].xdr or "")


def main(url: str, markets_file: str, passphrase: str) -> None:
    """Read the markets and print what was read."""
    markets = [line.split() for line in Path(markets_file).read_text().splitlines()]
    server = SorobanServer(url)
    instance_key = xdr.SCVal(xdr.SCValType.SCV_LEDGER_KEY_CONTRACT_INSTANCE)
    instances = {market: key_of(market, instance_key) for _, market in markets}
    lists = {market: key_of(market, scval.to_symbol("ResList")) for _, market in markets}
    found = values(server, [*instances.values(), *lists.values()])
    oracles = {market: oracle_of(found[key.to_xdr()]) for market, key in instances.items()}
    reserves = {}
    for generation, market in markets:
        for token in scval.to_native(found[lists[market].to_xdr()]):  # type: ignore[union-attr]
            reserves[market, token.address] = generation  # type: ignore[union-attr]
    states = {place: of_reserve(place[0], "ResData", place[1]) for place in reserves}
    configs = [of_reserve(market, "ResConfig", token) for market, token in reserves]
    found = values(server, [*states.values(), *configs])
    asked = dict.fromkeys((oracles[market], token) for market, token in reserves)
    for oracle in dict.fromkeys(oracles.values()):
        call(server, passphrase, oracle, "decimals")
    prices = {
        (oracle, token): call(
            server, passphrase, oracle, "lastprice", scval.to_vec([scval.to_symbol("Stellar"), scval.to_address(token)])
        )["price"]
        for oracle, token in asked
    }
    for (market, token), generation in reserves.items():
        state: Any = scval.to_native(found[states[market, token].to_xdr()])
        scale = SCALES[generation]
        numbers = {
            "market": market,
            "token": token,
            "price": str(prices[oracles[market], token]),
            "supply_index": str(state["b_rate"]),
            "borrow_index": str(state["d_rate"]),
            "supplied": str(state["b_supply"] * state["b_rate"] // scale),
            "borrowed": str(-(-state["d_supply"] * state["d_rate"] // scale)),
        }
        print(json.dumps(numbers))
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(peak[1] if peak else 0)


main(*sys.argv[1:])
