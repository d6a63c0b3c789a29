"""A ledger of Peridot markets for tests: the entries of the recording, and over them any others.

    ledger = PeridotLedger()
    ledger.add_market("C", ["XLM", "USDC"])
    ledger.replace(stored("XLM vault", "TotalBorrowed", u128(0)))
    tables = ledger.compute([demanded("C")])

Contracts are named by labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.deployments import MARKET, Deployment
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, symbol, u32, u64, u128, vec
from exporter.ledger.source import ContractCall
from exporter.protocols.base import Candidate, Origin
from tests.entries import code_of, recorded, recorded_instance
from tests.protocols.made_ledger import (
    NOW,
    UNKNOWN_CODE,
    MadeLedger,
    Written,
    balance,
    contract,
    entry,
    instance,
    known,
    price_data,
    stellar_asset,
)

CONTROLLER = recorded_instance("MarketUserCounts")
CODE = code_of(CONTROLLER)
QUOTING_CODE = bytes.fromhex("df06cfa8174d5523bb8b067a6179af7d669bcb30fa2ce34d811b5b85788f6f00")
RECEIPTS = 1000 * 10**6
FIXED_RATE = 50_000
CASH = 1000 * 10**7
MODEL = {
    "BaseRatePerYear": 20_000,
    "MultiplierPerYear": 180_000,
    "JumpMultiplierPerYear": 4_000_000,
    "Kink": 800_000,
}
PRICE_DECIMALS = 14


def vault_entries(market: str, asset: str) -> Iterator[Written]:
    """A vault that keeps its own cash and was brought up to date a hundred seconds ago.

    1000 tokens of cash, 500 lent, 10 of reserves and 2 of fees: suppliers own 1488, a receipt token is worth 14.88.
    """
    label = f"{asset} vault"
    yield vault_instance(label)
    numbers = {
        "AdminFeeScaled": 50_000,
        "BorrowCap": 0,
        "BorrowIndex": 125 * 10**16,
        "BorrowYearlyRateScaled": FIXED_RATE,
        "ManagedCash": CASH,
        "ReserveFactorScaled": 100_000,
        "SupplyCap": 10**15,
        "TotalAdminFees": 2 * 10**7,
        "TotalBorrowed": 500 * 10**7,
        "TotalDeposited": 1488 * 10**7,
        "TotalReserves": 10 * 10**7,
    }
    values = {name: u128(number) for name, number in numbers.items()} | {
        "InterestModel": address(contract("model")),
        "LastUpdateTime": u64(NOW - 100),
        "Peridottroller": address(contract(market)),
        "UnderlyingToken": address(contract(asset)),
    }
    same = ("CollateralFactorScaled", "InitialExchangeRate", "RatesReady")
    for name, value in (values | {name: recorded(name) for name in same}).items():
        yield stored(label, name, value)


def candidate(label: str, pool: str | None = None) -> Candidate:
    """A published address."""
    return Candidate("peridot", contract(label), pool=None if pool is None else contract(pool))


def demanded(label: str, pool: str | None = None) -> Candidate:
    """An address that the operator named."""
    return Candidate("peridot", contract(label), Origin.CONFIGURATION, None if pool is None else contract(pool))


def flags(values: Mapping[str, bool]) -> ScVal:
    """A map from contracts, given by label, to yes or no."""
    pairs = sorted((contract(label), flag) for label, flag in values.items())
    return (scval.MAP, tuple((address(owner), (scval.BOOL, flag)) for owner, flag in pairs))


def stored(owner: str, name: str, value: ScVal) -> Written:
    """An entry under a key without values."""
    return entry(contract(owner), vec(symbol(name)), value)


def vault_instance(vault: str, receipts: int | None = RECEIPTS, code: bytes = UNKNOWN_CODE) -> Written:
    """The instance of a vault, which has the supply of its receipt token."""
    storage = [] if receipts is None else [(vec(symbol("TotalSupply")), i128(receipts))]
    return instance(contract(vault), storage, code)


def deployment(market: str, vaults: Sequence[str]) -> Deployment:
    """A deployment that lists a market and vaults of it."""
    return Deployment("peridot", "test", (known(market, MARKET), *(known(vault, "vault") for vault in vaults)))


class PeridotLedger(MadeLedger):
    """A ledger of its markets."""

    protocol = "peridot"

    def add_market(self, market: str, assets: Sequence[str] = ("XLM",)) -> None:
        """A controller with a vault for each asset, a rate model, and an oracle that prices each at 2 dollars now."""
        self.replace(instance(contract(market), CONTROLLER.storage, CODE))
        for name in ("LiquidationIncentiveScaled", "OracleMaxAgeMultiplier"):
            self.replace(stored(market, name, recorded(name)))
        for name in ("PauseBorrow", "PauseDeposit", "PauseLiquidation", "PauseRedeem"):
            self.replace(stored(market, name, flags({})))
        self.replace(stored(market, "Oracle", address(contract(f"{market} oracle"))))
        self.replace(stored(market, "SupportedMarkets", flags({f"{label} vault": True for label in assets})))
        self.replace(*(stored("model", name, u128(number)) for name, number in MODEL.items()))
        self.set_decimals(f"{market} oracle", u32(PRICE_DECIMALS))
        for label in assets:
            self.replace(*vault_entries(market, label), stellar_asset(label))
            self.replace(balance(label, f"{label} vault", CASH))
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
