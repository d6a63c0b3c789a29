"""A ledger of K2 markets for tests, written entry by entry, as `tests.blend_chain` has one of Blend's.

    ledger = K2Ledger()
    ledger.add_market("A", ["USDC", "XLM"])
    ledger.replace(debt_token("A", "XLM", 0))
    tables = ledger.compute([demanded("A")])

Contracts are named by labels; a reserve's tokens are ``"A aUSDC"`` and ``"A dUSDC"``, its rate contract ``"A rates"``.
The shapes are those of facts/other-protocols.md 3.1, written with nothing but the codec.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exporter.compute import Tables, compute
from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.ledger import scval
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, i128, string, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.k2 import K2
from tests.blend_chain import (
    NOW,
    BlendLedger,
    BlendSource,
    Raw,
    Written,
    account,
    contract,
    entry,
    instance,
    struct_of,
    token_instance,
)

RAY = 10**27
CODE = hashlib.sha256(b"the code of a K2 router").digest()
FRESH, PLAIN = "get_asset_prices_vec_fresh", "get_asset_prices_vec"
PRICE_DECIMALS = 14

# facts/other-protocols.md 3.1: the example of the docs
MODEL: dict[str, int] = {
    "base_variable_borrow_rate": 0, "optimal_utilization_rate": 8 * RAY // 10, "variable_rate_slope1": 4 * RAY // 100,
    "variable_rate_slope2": 6 * RAY // 10,
}  # fmt: skip

# At 5 percent for suppliers and 10 percent for borrowers, 100 seconds ago
STATE: dict[str, int] = {
    "liquidity_index": RAY, "variable_borrow_index": RAY, "current_liquidity_rate": 5 * RAY // 100,
    "current_variable_borrow_rate": RAY // 10,
}  # fmt: skip

SUPPLY, DEBT = 1_000 * 10**7, 500 * 10**7


def u128(value: int) -> ScVal:
    """An unsigned 128-bit value."""
    return (scval.U128, value)


def candidate(label: str) -> Candidate:
    """A published address."""
    return Candidate("k2", contract(label))


def demanded(label: str) -> Candidate:
    """An address that the operator named."""
    return Candidate("k2", contract(label), Origin.CONFIGURATION)


def router_instance(market: str, *, storage: Mapping[str, Raw] | None = None) -> Written:
    """The instance of a router; ``storage`` replaces or removes some of its keys."""
    stored: dict[str, Raw] = {
        "INIT": (scval.BOOL, True),
        "ORACLE": address(contract(f"{market} oracle")),
        "PADMIN": address(account("admin")),
        "PAUSED": (scval.BOOL, False),
        "PCONFIG": address(contract("configurator")),
        "TREASURY": address(contract("treasury")),
    }
    stored |= storage or {}
    pairs = [(symbol(key), value) for key, value in sorted(stored.items()) if value is not None]
    return instance(contract(market), pairs, CODE)


def reserve_list(market: str, assets: Sequence[str]) -> Written:
    """``RLIST`` of assets given by label."""
    return entry(contract(market), symbol("RLIST"), vec(*(address(contract(asset)) for asset in assets)))


def bitmap(
    decimals: int = 7, reserve_factor: int = 2_000, flags: int = 0b1000101, caps: tuple[int, int] = (0, 0)
) -> ScVal:
    """A bitmap: ``flags`` from bit 50 (active, frozen, borrowing, paused, -, -, flash); borrow and supply caps."""
    low = 7_500 | 8_000 << 14 | 10_500 << 28 | decimals << 42 | flags << 50 | reserve_factor << 57 | 25 << 71
    return struct_of({"data_low": u128(low), "data_high": u128(caps[0] | caps[1] << 64)})


def reserve(market: str, asset: str, /, **changes: Any) -> Written:
    """An ``RDATA`` entry; a change is a number, a value of any kind, or None to leave the field out."""
    fields: dict[str, Raw] = {name: u128(value) for name, value in STATE.items()}
    fields |= {
        "a_token_address": address(contract(f"{market} a{asset}")),
        "debt_token_address": address(contract(f"{market} d{asset}")),
        "interest_rate_strategy_address": address(contract(f"{market} rates")),
        "id": u32(0),
        "last_update_timestamp": u64(NOW - 100),
        "configuration": bitmap(),
    }
    for name, value in changes.items():
        if isinstance(value, int):
            value = u64(value) if name == "last_update_timestamp" else u128(value)
        fields[name] = value
    return entry(contract(market), vec(symbol("RDATA"), address(contract(asset))), struct_of(fields))


def _token(label: str, state: Mapping[str, Raw]) -> Written:
    fields: dict[str, Raw] = {"decimals": u32(7), "name": string("K2 token"), "symbol": string("k2")}
    return instance(contract(label), [(vec(symbol("State")), struct_of(fields | dict(state)))], CODE)


def a_token(market: str, asset: str, scaled: int = SUPPLY, /, **changes: Raw) -> Written:
    """The instance of a reserve's aToken."""
    state: dict[str, Raw] = {
        "underlying_asset": address(contract(asset)),
        "pool_address": address(contract(market)),
        "total_supply_scaled": i128(scaled),
    }
    return _token(f"{market} a{asset}", state | changes)


def debt_token(market: str, asset: str, scaled: int = DEBT, /, **changes: Raw) -> Written:
    """The instance of a reserve's debt token."""
    state: dict[str, Raw] = {
        "borrowed_asset": address(contract(asset)),
        "pool_address": address(contract(market)),
        "total_debt_scaled": i128(scaled),
    }
    return _token(f"{market} d{asset}", state | changes)


def rate_contract(market: str, defaults: Mapping[str, int] | None = None) -> Written:
    """The instance of a rate contract with its defaults by their keys."""
    pairs = [(symbol(key), u128(value)) for key, value in sorted((defaults or {}).items())]
    return instance(contract(f"{market} rates"), [(symbol("ADMIN"), address(account("admin"))), *pairs], CODE)


def rate_model(market: str, asset: str, /, **changes: Any) -> Written:
    """``APARAMS`` of a reserve; changes as for ``reserve``."""
    fields = {name: u128(value) if isinstance(value, int) else value for name, value in (MODEL | changes).items()}
    return entry(contract(f"{market} rates"), vec(symbol("APARAMS"), address(contract(asset))), struct_of(fields))


def price_data(price: int, timestamp: int = NOW) -> ScVal:
    """What K2's oracle gives for an asset."""
    return struct_of({"price": u128(price), "timestamp": u64(timestamp)})


def prices_call(oracle: str, assets: Iterable[str], function: str = FRESH) -> ContractCall:
    """The call that asks for the prices of assets."""
    wanted = vec(*(vec(symbol("Stellar"), address(contract(asset))) for asset in assets))
    return ContractCall(contract(oracle), function, (wanted,))


def deployment(market: str, assets: Sequence[str], wasm_hash: bytes | None = CODE) -> Deployment:
    """A deployment of a market that lists the contracts of some of its reserves."""
    named = [("interest_rate", f"{market} rates")]
    named += [
        (role, f"{market} {kind}{asset}") for asset in assets for role, kind in (("a_token", "a"), ("debt_token", "d"))
    ]
    date = datetime.date(2026, 11, 18)
    code = None if wasm_hash is None else wasm_hash.hex()
    market_contract = KnownContract(contract(market), MARKET, "test", date, "Main", code)
    listed = tuple(KnownContract(contract(label), role, "test", date) for role, label in named)
    return Deployment("k2", "test", (market_contract, *listed))


class K2Ledger(BlendLedger):
    """Entries and call results of one ledger. Every method that takes a contract takes its label."""

    def add_market(self, market: str, assets: Sequence[str] = ("USDC",)) -> None:  # type: ignore[override]
        """A market with reserves, tokens, and an oracle that prices each of them at 2 dollars now."""
        self.replace(router_instance(market), reserve_list(market, assets), rate_contract(market))
        for asset in assets:
            self.replace(
                reserve(market, asset), a_token(market, asset), debt_token(market, asset), rate_model(market, asset),
                token_instance(asset, asset.encode()),
            )  # fmt: skip
        self.set_prices(f"{market} oracle", dict.fromkeys(assets, 2 * 10**PRICE_DECIMALS))

    def set_prices(self, oracle: str, prices: Mapping[str, int], function: str = FRESH) -> None:
        """What the oracle gives for these assets in this order, all as of now."""
        self.results[prices_call(oracle, prices, function)] = vec(*(price_data(price) for price in prices.values()))

    def read(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = ()) -> Reading[ProtocolReading]:
        """Read through the one-ledger view; the source with its log stays in ``source``."""
        source = self.source = BlendSource(self.chain(), self.results)
        return asyncio.run(read_at_one_ledger(source, lambda view: K2().read(view, candidates, deployments)))

    def compute(
        self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = (), close_time: int = NOW
    ) -> Tables:
        """Read, and compute the tables; the reading stays in ``reading``."""
        reading = self.read(candidates, deployments)
        self.reading = reading.result
        return compute([reading.result], {"k2": K2()}, reading.certificate.ledger, close_time)
