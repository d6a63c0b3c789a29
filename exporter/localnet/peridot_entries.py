"""The ledger entries of Peridot's contracts (docs/protocols/peridot.md, "Keys"): every value under a key of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporter.ledger import scval
from exporter.ledger.entries import ContractData, data_key, encode_contract_data
from exporter.ledger.scval import WASM, ContractInstance, ScVal
from exporter.ledger.scval_encode import INSTANCE_KEY, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.localnet.contracts import made_wasm, wasm_hash
from exporter.localnet.peridot_vault import Boost, RateModel, Vault

CONTROLLER_WASM = made_wasm("localnet peridot controller")
VAULT_WASM = made_wasm("localnet peridot vault")
MODEL_WASM = made_wasm("localnet peridot rate model")
BOOST_WASM = made_wasm("localnet peridot boosted vault")
WASMS = (CONTROLLER_WASM, VAULT_WASM, MODEL_WASM, BOOST_WASM)
VAULT_WASM_HASH = wasm_hash(VAULT_WASM)
BOOST_WASM_HASH = wasm_hash(BOOST_WASM)

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""


@dataclass(slots=True)
class Market:
    """A controller with its vaults; ``symbols`` are those by which its oracle knows some tokens."""

    address: str
    oracle: str
    admin: str
    vaults: list[Vault] = field(default_factory=list)
    symbols: dict[str, str] = field(default_factory=dict)
    borrowing_paused: set[str] = field(default_factory=set)
    """For ever: a pause from before pauses had an end."""


def controller_entries(market: Market) -> Iterator[Entry]:
    """A controller's instance, its list of vaults, what it has paused, and what it knows of its oracle."""
    yield _instance(market.address, CONTROLLER_WASM, {"Initialized": (scval.BOOL, True)})
    vaults = [vault.address for vault in market.vaults]
    values = {
        "Admin": address(market.admin),
        "CloseFactorScaled": u128(500_000),
        "Oracle": address(market.oracle),
        "OracleMaxAgeMultiplier": u64(2),
        "SupportedMarkets": flags(dict.fromkeys(vaults, True)),
        "PauseDeposit": flags({}),
        "PauseRedeem": flags({}),
        "PauseLiquidation": flags({}),
        "PauseBorrow": flags({vault: True for vault in vaults if vault in market.borrowing_paused}),
    }
    for name, value in values.items():
        yield entry(market.address, vec(symbol(name)), value)
    for vault in vaults:
        yield entry(market.address, vec(symbol("MarketCF"), address(vault)), u128(700_000))
    for token, name in market.symbols.items():
        yield entry(market.address, vec(symbol("OracleAssetSymbol"), address(token)), symbol(name))


def model_entries(model: RateModel, admin: str) -> Iterator[Entry]:
    """A rate model's instance and parameters."""
    yield _instance(model.address, MODEL_WASM, {})
    values = {
        "Admin": address(admin),
        "BaseRatePerYear": u128(model.base),
        "MultiplierPerYear": u128(model.multiplier),
        "JumpMultiplierPerYear": u128(model.jump),
        "Kink": u128(model.kink),
    }
    for name, value in values.items():
        yield entry(model.address, vec(symbol(name)), value)


def vault_configuration(vault: Vault, admin: str) -> Iterator[Entry]:
    """What of a vault no user's operation changes."""
    values = {
        "Admin": address(admin),
        "AdminFeeScaled": u128(vault.admin_fee),
        "BorrowCap": u128(vault.borrow_cap),
        "BorrowYearlyRateScaled": u128(50_000),
        "CollateralFactorScaled": u128(500_000),
        "InitialExchangeRate": u128(10**6),
        "Initialized": (scval.BOOL, True),
        "InterestModel": address(vault.model.address),
        "Peridottroller": address(vault.controller),
        "RatesReady": (scval.BOOL, True),
        "ReserveFactorScaled": u128(vault.reserve_factor),
        "SupplyCap": u128(vault.supply_cap),
        "UnderlyingToken": address(vault.token),
        "YearlyRateScaled": u128(0),
    }
    if vault.boost:
        values["BoostedVault"] = address(vault.boost.address)
    for name, value in values.items():
        yield entry(vault.address, vec(symbol(name)), value)


def vault_state(vault: Vault) -> Iterator[Entry]:
    """A vault's instance, which has the supply of its receipt token, and its totals."""
    metadata = {"decimals": u32(6), "name": string("Peridot Receipt"), "symbol": string("pPRT")}
    yield _instance(vault.address, VAULT_WASM, {"Meta": struct_map(metadata), "TotalSupply": i128(vault.receipts)})
    values = {
        "BorrowIndex": u128(vault.index),
        "LastUpdateTime": u64(vault.last_update),
        "ManagedCash": u128(vault.cash),
        "TotalAdminFees": u128(vault.admin_fees),
        "TotalBorrowed": u128(vault.borrowed),
        "TotalDeposited": u128(vault.deposited),
        "TotalReserves": u128(vault.reserves),
    }
    if vault.boost:
        values["BoostedUnderlyingCached"] = u128(vault.cached)
        values["BoostedUnderlyingUpdatedAt"] = u64(vault.cached_at)
        values["BoostedAssetCount"] = u32(1)
    for name, value in values.items():
        yield entry(vault.address, vec(symbol(name)), value)


def boost_entries(vault: Vault, boost: Boost) -> Iterator[Entry]:
    """A DeFindex vault as far as it matters here: who has how many shares, and what all are worth."""
    yield _instance(boost.address, BOOST_WASM, {})
    yield entry(boost.address, vec(symbol("Balance"), address(vault.address)), i128(boost.shares))
    yield entry(boost.address, vec(symbol("Shares")), i128(boost.all_shares))
    yield entry(boost.address, vec(symbol("Assets")), i128(boost.all_assets))


def u128(value: int) -> ScVal:
    """An unsigned 128-bit value."""
    return (scval.U128, value)


def flags(values: Mapping[str, bool]) -> ScVal:
    """A map from addresses to yes or no."""
    return (scval.MAP, tuple((address(key), (scval.BOOL, values[key])) for key in sorted(values)))


def entry(contract: str, key: ScVal, value: ScVal) -> Entry:
    """A persistent entry of a contract."""
    return data_key(contract, key), encode_contract_data(ContractData(contract, key, 1, value))


def _instance(contract: str, wasm: bytes, storage: Mapping[str, ScVal]) -> Entry:
    pairs = tuple((vec(symbol(name)), storage[name]) for name in sorted(storage))
    instance = ContractInstance(WASM, wasm_hash(wasm), None, pairs)
    return entry(contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, instance))
