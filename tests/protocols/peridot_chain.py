"""A ledger of Peridot markets for tests: the entries of the embedded network's stand-in, and over them any others.

    ledger = PeridotLedger()
    ledger.add_market("C", ["XLM", "USDC"])
    ledger.replace(stored("XLM vault", "TotalBorrowed", u128(0)))
    tables = ledger.compute([demanded("C")])

Contracts are named by labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exporter.deployments import MARKET, Deployment
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, symbol, u32, vec
from exporter.ledger.source import ContractCall
from exporter.localnet.contracts import Token, TokenLayout, balance_entry, wasm_hash
from exporter.localnet.peridot import (
    CONTROLLER_WASM,
    VAULT_WASM_HASH,
    Market,
    RateModel,
    Vault,
    controller_entries,
    model_entries,
    vault_configuration,
    vault_state,
)
from exporter.localnet.peridot import flags as strkey_flags
from exporter.protocols.base import Candidate, Origin
from tests.protocols.made_ledger import (
    NOW,
    MadeLedger,
    Written,
    account,
    contract,
    entry,
    instance,
    known,
    price_data,
)

CODE = wasm_hash(CONTROLLER_WASM)
QUOTING_CODE = bytes.fromhex("df06cfa8174d5523bb8b067a6179af7d669bcb30fa2ce34d811b5b85788f6f00")
ADMIN = account("Peridot's administrator")
RECEIPTS = 1000 * 10**6
FIXED_RATE = 50_000
MODEL = RateModel(contract("model"), base=20_000, multiplier=180_000, jump=4_000_000, kink=800_000)
PRICE_DECIMALS = 14


def vault_of(market: str, asset: str) -> Vault:
    """A vault that keeps its own cash and was brought up to date a hundred seconds ago.

    1000 tokens of cash, 500 lent, 10 of reserves and 2 of fees: suppliers own 1488, a receipt token is worth 14.88.
    """
    return Vault(
        contract(f"{asset} vault"),
        contract(market),
        contract(asset),
        7,
        MODEL,
        reserve_factor=100_000,
        admin_fee=50_000,
        last_update=NOW - 100,
        cash=1000 * 10**7,
        deposited=1488 * 10**7,
        borrowed=500 * 10**7,
        reserves=10 * 10**7,
        admin_fees=2 * 10**7,
        index=125 * 10**16,
        receipts=RECEIPTS,
        supply_cap=10**15,
    )


def candidate(label: str, pool: str | None = None) -> Candidate:
    """A published address."""
    return Candidate("peridot", contract(label), pool=None if pool is None else contract(pool))


def demanded(label: str, pool: str | None = None) -> Candidate:
    """An address that the operator named."""
    return Candidate("peridot", contract(label), Origin.CONFIGURATION, None if pool is None else contract(pool))


def flags(values: Mapping[str, bool]) -> ScVal:
    """A map from contracts, given by label, to yes or no."""
    return strkey_flags({contract(label): flag for label, flag in values.items()})


def stored(owner: str, name: str, value: ScVal) -> Written:
    """An entry under a key without values."""
    return entry(contract(owner), vec(symbol(name)), value)


def vault_instance(vault: str, receipts: int | None = RECEIPTS, code: bytes = VAULT_WASM_HASH) -> Written:
    """The instance of a vault, which has the supply of its receipt token."""
    storage = [] if receipts is None else [(vec(symbol("TotalSupply")), i128(receipts))]
    return instance(contract(vault), storage, code)


def asset(label: str) -> Token:
    """A Stellar asset of the label as its code."""
    return Token(contract(label), label, 7, TokenLayout.STELLAR_ASSET, ADMIN, ADMIN)


def balance(label: str, holder: str, amount: int) -> Written:
    """What a contract has of a Stellar asset."""
    return balance_entry(asset(label), contract(holder), amount)


def deployment(market: str, vaults: Sequence[str]) -> Deployment:
    """A deployment that lists a market and vaults of it."""
    return Deployment("peridot", "test", (known(market, MARKET), *(known(vault, "vault") for vault in vaults)))


class PeridotLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "peridot"

    def add_market(self, market: str, assets: Sequence[str] = ("XLM",)) -> None:
        """A controller with a vault for each asset, a rate model, and an oracle that prices each at 2 dollars now."""
        vaults = [vault_of(market, each) for each in assets]
        made = Market(contract(market), contract(f"{market} oracle"), ADMIN, vaults)
        self.replace(*controller_entries(made), *model_entries(MODEL, ADMIN))
        self.set_decimals(f"{market} oracle", u32(PRICE_DECIMALS))
        for label, vault in zip(assets, vaults, strict=True):
            self.replace(*vault_configuration(vault, ADMIN), *vault_state(vault))
            self.replace(asset(label).instance_entry(), balance(label, f"{label} vault", vault.cash))
            self.remove(entry(made.address, vec(symbol("MarketCF"), address(vault.address)), VOID))
            self.set_price(f"{market} oracle", label, 2 * 10**PRICE_DECIMALS)

    def boost(self, asset: str, available: ScVal | str) -> None:
        """Let a vault of the code that asks for quotes boost cash, with what it then says that it has available."""
        self.replace(vault_instance(f"{asset} vault", code=QUOTING_CODE))
        self.replace(stored(f"{asset} vault", "BoostedVault", address(contract("DeFindex"))))
        self.set_function(f"{asset} vault", "get_available_liquidity", available)

    def set_symbol_price(self, market: str, asset: str, name: str, price: int, timestamp: int = NOW) -> None:
        """Let the controller know a token's symbol, and the oracle that symbol's price."""
        key = vec(symbol("OracleAssetSymbol"), address(contract(asset)))
        self.replace(entry(contract(market), key, symbol(name)))
        call = ContractCall(contract(f"{market} oracle"), "lastprice", (vec(symbol("Other"), symbol(name)),))
        self.results[call] = price_data(price, timestamp)
