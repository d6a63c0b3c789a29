"""A ledger of K2 markets for tests: the entries of the embedded network's stand-in, changed as a test needs them.

    ledger = K2Ledger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.replace(debt_token("A", "XLM", 0))
    tables = ledger.compute([demanded("A")])

Contracts are named by labels; a reserve's tokens are ``"A aUSDC"`` and ``"A dUSDC"``, its rate contract ``"A rates"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from exporter.deployments import MARKET, Deployment
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, symbol, u64, vec
from exporter.ledger.source import ContractCall
from exporter.localnet import k2
from exporter.localnet.contracts import Token, TokenLayout, balance_entry
from exporter.protocols.base import Origin
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Raw,
    Written,
    account,
    candidate_of,
    changed_entry,
    contract,
    entry,
    known,
    struct_of,
)

RAY = 10**27
CODE = k2.ROUTER_WASM_HASH
_STATE = vec(symbol("State"))
FRESH, PLAIN = "get_asset_prices_vec_fresh", "get_asset_prices_vec"
PRICE_DECIMALS = 14

# The example of K2's documentation, which the stand-in's model has too
MODEL: dict[str, int] = {
    "base_variable_borrow_rate": 0,
    "optimal_utilization_rate": 8 * RAY // 10,
    "variable_rate_slope1": 4 * RAY // 100,
    "variable_rate_slope2": 6 * RAY // 10,
}

# At 5 percent for suppliers and 10 percent for borrowers, 100 seconds ago
STATE: dict[str, int] = {
    "liquidity_index": RAY,
    "variable_borrow_index": RAY,
    "current_liquidity_rate": 5 * RAY // 100,
    "current_variable_borrow_rate": RAY // 10,
}

SUPPLY, DEBT = 1_000 * 10**7, 500 * 10**7
CASH = SUPPLY - DEBT


def u128(value: int) -> ScVal:
    """An unsigned 128-bit value."""
    return (scval.U128, value)


candidate = partial(candidate_of, "k2")
demanded = partial(candidate_of, "k2", origin=Origin.CONFIGURATION)


def _reserve(market: str, asset: str) -> k2.Reserve:
    """A reserve in the state of `STATE`, 100 seconds ago."""
    return k2.Reserve(
        asset=contract(asset),
        symbol="",
        decimals=7,
        a_token=contract(f"{market} a{asset}"),
        debt_token=contract(f"{market} d{asset}"),
        last_update=NOW - 100,
        supply_scaled=SUPPLY,
        debt_scaled=DEBT,
        liquidity_rate=STATE["current_liquidity_rate"],
        borrow_rate=STATE["current_variable_borrow_rate"],
    )


def _market(market: str, assets: Sequence[str] = ()) -> k2.Market:
    return k2.Market(
        contract(market),
        contract(f"{market} oracle"),
        contract(f"{market} rates"),
        account("admin"),
        contract("configurator"),
        contract("treasury"),
        reserves=[_reserve(market, asset) for asset in assets],
    )


def router_instance(market: str, *, storage: Mapping[str, Raw] | None = None) -> Written:
    """The instance of a router; ``storage`` replaces or removes some of its keys."""
    return changed_entry(k2.router_instance(_market(market)), storage or {})


def reserve_list(market: str, assets: Sequence[str]) -> Written:
    """``RLIST`` of assets given by label."""
    return k2.reserve_list(_market(market, assets))


def bitmap(
    decimals: int = 7, reserve_factor: int = 2_000, flags: int = 0b1000101, caps: tuple[int, int] = (0, 0)
) -> ScVal:
    """A bitmap: ``flags`` from bit 50 (active, frozen, borrowing, paused, -, -, flash); borrow and supply caps."""
    low = 7_500 | 8_000 << 14 | 500 << 28 | decimals << 42 | flags << 50 | reserve_factor << 57 | 25 << 71
    return struct_of({"data_low": u128(low), "data_high": u128(caps[0] | caps[1] << 64)})


def reserve(market: str, asset: str, /, **changes: Any) -> Written:
    """An ``RDATA`` entry; a change is a number, a value of any kind, or None to leave the field out."""
    for name, value in changes.items():
        if isinstance(value, int):
            changes[name] = u64(value) if name == "last_update_timestamp" else u128(value)
    return changed_entry(
        k2.reserve_entry(_market(market), _reserve(market, asset)), {"configuration": bitmap()} | changes
    )


def a_token(market: str, asset: str, scaled: int = SUPPLY, /, rewards: str | None = None, **changes: Raw) -> Written:
    """The instance of a reserve's aToken, which may name a contract that pays rewards."""
    made = _market(market)
    made.incentives = None if rewards is None else contract(rewards)
    written = k2.a_token_instance(made, _reserve(market, asset))
    return changed_entry(written, {"total_supply_scaled": i128(scaled)} | changes, _STATE)


def reward(market: str, asset: str, paid: str, per_second: int, *, is_active: bool = True) -> list[Written]:
    """What suppliers of a reserve are paid, without an end: the list of tokens, and the one in it."""
    made, item = _market(market), _reserve(market, asset)
    made.incentives, item.rewards = contract("rewards"), {0: (contract(paid), per_second, 0)}
    listed, configured = k2.reward_entries(made, item)
    return [listed, changed_entry(configured, {"is_active": (scval.BOOL, is_active)})]


def debt_token(market: str, asset: str, scaled: int = DEBT, /, **changes: Raw) -> Written:
    """The instance of a reserve's debt token."""
    written = k2.debt_token_instance(_market(market), _reserve(market, asset))
    return changed_entry(written, {"total_debt_scaled": i128(scaled)} | changes, _STATE)


def token(asset: str) -> Token:
    """A Stellar asset of the label as its code."""
    return Token(contract(asset), asset, 7, TokenLayout.STELLAR_ASSET, account("admin"), account("admin"))


def cash(market: str, asset: str, amount: int = CASH) -> Written:
    """What a reserve's aToken has of the token."""
    return balance_entry(token(asset), contract(f"{market} a{asset}"), amount)


def debt_ceiling(market: str, asset: str, tokens: int) -> Written:
    """``RDEBTCEIL`` of a reserve, in whole tokens."""
    return entry(contract(market), vec(symbol("RDEBTCEIL"), address(contract(asset))), u128(tokens))


def rate_contract(market: str, defaults: Mapping[str, int] | None = None) -> Written:
    """The instance of a rate contract with its defaults by their keys, and no others."""
    keys: dict[str, Raw] = dict.fromkeys(("BVR", "OU", "VS1", "VS2"))
    return changed_entry(
        k2.rates_instance(_market(market)), keys | {key: u128(value) for key, value in (defaults or {}).items()}
    )


def rate_model(market: str, asset: str, /, **changes: Any) -> Written:
    """``APARAMS`` of a reserve; changes as for ``reserve``."""
    values = {name: u128(value) if isinstance(value, int) else value for name, value in changes.items()}
    return changed_entry(k2.rates_entry(_market(market), _reserve(market, asset)), values)


def price_data(price: int, timestamp: int = NOW) -> ScVal:
    """What K2's oracle gives for an asset."""
    return struct_of({"price": u128(price), "timestamp": u64(timestamp)})


def prices_call(oracle: str, assets: Iterable[str], function: str = FRESH) -> ContractCall:
    """The call that asks for the prices of assets."""
    wanted = vec(*(vec(symbol("Stellar"), address(contract(asset))) for asset in assets))
    return ContractCall(contract(oracle), function, (wanted,))


def deployment(market: str, assets: Sequence[str], wasm_hash: bytes | None = CODE) -> Deployment:
    """A deployment of a market that lists the contracts of some of its reserves."""
    named = [known(f"{market} rates", "interest_rate")]
    for asset in assets:
        named += [known(f"{market} a{asset}", "a_token"), known(f"{market} d{asset}", "debt_token")]
    return Deployment("k2", "test", (known(market, MARKET, "Main", wasm_hash), *named))


class K2Ledger(MadeLedger):
    """A ledger of its markets."""

    protocol = "k2"

    def add_market(self, market: str, assets: Sequence[str] = ("USDC",)) -> None:
        """A market with reserves, tokens, and an oracle that prices each of them at 2 dollars now."""
        self.replace(router_instance(market), reserve_list(market, assets), rate_contract(market))
        for asset in assets:
            self.replace(
                reserve(market, asset),
                a_token(market, asset),
                debt_token(market, asset),
                rate_model(market, asset),
                token(asset).instance_entry(),
                cash(market, asset),
            )
        self.set_prices(f"{market} oracle", dict.fromkeys(assets, 2 * 10**PRICE_DECIMALS))

    def set_prices(self, oracle: str, prices: Mapping[str, int], function: str = FRESH) -> None:
        """What the oracle gives for these assets in this order, all as of now."""
        self.results[prices_call(oracle, prices, function)] = vec(*(price_data(price) for price in prices.values()))
