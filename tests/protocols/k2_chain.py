"""A ledger of K2 markets for tests: entries of the recording, changed as a test needs them.

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
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, u64, u128, vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import Origin
from tests.entries import code_of, recorded, recorded_instance
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Raw,
    Written,
    account,
    balance,
    candidate_of,
    changed,
    changed_entry,
    contract,
    entry,
    instance,
    known,
    stellar_asset,
    struct_of,
)

RAY = 10**27
ROUTER = recorded_instance("PCONFIG")
CODE = code_of(ROUTER)
TOKEN_CODE = code_of(recorded_instance("State"))
Pair = tuple[ScVal, ScVal]
_STATE = vec(symbol("State"))
FRESH, PLAIN = "get_asset_prices_vec_fresh", "get_asset_prices_vec"
PRICE_DECIMALS = 14

# The example of K2's documentation
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


candidate = partial(candidate_of, "k2")
demanded = partial(candidate_of, "k2", origin=Origin.CONFIGURATION)


def router_instance(market: str, *, storage: Mapping[str, Raw] | None = None) -> Written:
    """The instance of a router; ``storage`` replaces or removes some of its keys."""
    kept = ("INIT", "ORACLE", "PADMIN", "PAUSED", "PCONFIG", "TREASURY")
    known = [(key, value) for key, value in ROUTER.storage or () if key[1] in kept]
    changes: dict[str, Raw] = {"ORACLE": address(contract(f"{market} oracle")), **(storage or {})}
    return changed_entry(instance(contract(market), known, CODE), changes)


def reserve_list(market: str, assets: Sequence[str]) -> Written:
    """``RLIST`` of assets given by label."""
    return entry(contract(market), symbol("RLIST"), vec(*(address(contract(asset)) for asset in assets)))


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
    fields = {name: u128(value) for name, value in STATE.items()} | {
        "a_token_address": address(contract(f"{market} a{asset}")),
        "configuration": bitmap(),
        "debt_token_address": address(contract(f"{market} d{asset}")),
        "id": u32(0),
        "interest_rate_strategy_address": address(contract(f"{market} rates")),
        "last_update_timestamp": u64(NOW - 100),
    }
    key = vec(symbol("RDATA"), address(contract(asset)))
    return entry(contract(market), key, changed(recorded("RDATA"), fields | changes))


def _token_state(market: str, total: str, scaled: int, changes: Mapping[str, Raw]) -> list[Pair]:
    """The storage of a reserve's token: its State, with the field ``total``."""
    template = recorded_instance("State", field=total).storage or ()
    (state,) = (value for key, value in template if key == _STATE)
    fields = {"pool_address": address(contract(market)), total: i128(scaled), **changes}
    return [(_STATE, changed(state, fields))]


def a_token(market: str, asset: str, scaled: int = SUPPLY, /, rewards: str | None = None, **changes: Raw) -> Written:
    """The instance of a reserve's aToken, which may name a contract that pays rewards."""
    own: dict[str, Raw] = {"underlying_asset": address(contract(asset)), **changes}
    storage = _token_state(market, "total_supply_scaled", scaled, own)
    if rewards is not None:
        storage.insert(0, (vec(symbol("IncentivesContract")), address(contract(rewards))))
    return instance(contract(f"{market} a{asset}"), storage, TOKEN_CODE)


def reward(market: str, asset: str, paid: str, per_second: int, *, is_active: bool = True) -> list[Written]:
    """What suppliers of a reserve are paid, without an end: the list of tokens, and the one in it."""
    token, rewarding = address(contract(f"{market} a{asset}")), address(contract(paid))
    fields: dict[str, Raw] = {
        "distribution_end": u64(0),
        "emission_per_second": u128(per_second),
        "is_active": (scval.BOOL, is_active),
    }
    return [
        entry(contract("rewards"), vec(symbol("RTL"), token), vec(rewarding)),
        entry(contract("rewards"), vec(symbol("ARC"), token, rewarding, u32(0)), struct_of(fields)),
    ]


def debt_token(market: str, asset: str, scaled: int = DEBT, /, **changes: Raw) -> Written:
    """The instance of a reserve's debt token."""
    own: dict[str, Raw] = {"borrowed_asset": address(contract(asset)), **changes}
    storage = _token_state(market, "total_debt_scaled", scaled, own)
    return instance(contract(f"{market} d{asset}"), storage, TOKEN_CODE)


def cash(market: str, asset: str, amount: int = CASH) -> Written:
    """What a reserve's aToken has of the token."""
    return balance(asset, f"{market} a{asset}", amount)


def debt_ceiling(market: str, asset: str, tokens: int) -> Written:
    """``RDEBTCEIL`` of a reserve, in whole tokens."""
    return entry(contract(market), vec(symbol("RDEBTCEIL"), address(contract(asset))), u128(tokens))


def rate_contract(market: str, defaults: Mapping[str, int] | None = None) -> Written:
    """The instance of a rate contract with its defaults by their keys, and no others."""
    values = {"ADMIN": address(account("admin"))} | {key: u128(value) for key, value in (defaults or {}).items()}
    return instance(contract(f"{market} rates"), [(symbol(key), value) for key, value in sorted(values.items())], CODE)


def rate_model(market: str, asset: str, /, **changes: Any) -> Written:
    """``APARAMS`` of a reserve; changes as for ``reserve``."""
    values = {name: u128(value) if isinstance(value, int) else value for name, value in (MODEL | changes).items()}
    key = vec(symbol("APARAMS"), address(contract(asset)))
    return entry(contract(f"{market} rates"), key, changed(recorded("APARAMS"), values))


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
                stellar_asset(asset),
                cash(market, asset),
            )
        self.set_prices(f"{market} oracle", dict.fromkeys(assets, 2 * 10**PRICE_DECIMALS))

    def set_prices(self, oracle: str, prices: Mapping[str, int], function: str = FRESH) -> None:
        """What the oracle gives for these assets in this order, all as of now."""
        self.results[prices_call(oracle, prices, function)] = vec(*(price_data(price) for price in prices.values()))
