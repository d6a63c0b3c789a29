"""A ledger of Peridot markets for tests, written entry by entry, as `tests.blend_chain` has one of Blend's.

    ledger = PeridotLedger()
    ledger.add_market("C", ["XLM", "USDC"])
    ledger.replace(stored("XLM vault", "TotalBorrowed", u128(0)))
    tables = ledger.compute([demanded("C")])

Contracts are named by labels. The shapes are those of docs/protocols/peridot.md, written with nothing but the codec.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Mapping, Sequence

from exporter.compute import Tables, compute
from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.ledger import scval
from exporter.ledger.entries import ContractData, decode_contract_data, encode_contract_data
from exporter.ledger.scval import ContractInstance, ScVal
from exporter.ledger.scval_encode import INSTANCE_KEY, address, i128, struct_map, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall
from exporter.ledger.view import Reading, read_at_one_ledger
from exporter.protocols.base import Candidate, Origin, ProtocolReading
from exporter.protocols.peridot import Peridot
from tests.blend_chain import (
    NOW,
    BlendLedger,
    BlendSource,
    Written,
    contract,
    entry,
    instance,
    price_data,
    token_instance,
)

CODE = hashlib.sha256(b"the code of a Peridot contract").digest()
QUOTING_CODE = bytes.fromhex("df06cfa8174d5523bb8b067a6179af7d669bcb30fa2ce34d811b5b85788f6f00")

# 1000 tokens of cash, 500 lent, 10 of reserves and 2 of fees: suppliers own 1488, a receipt token is worth 14.88 units
STATE: dict[str, int] = {
    "ManagedCash": 1000 * 10**7, "TotalBorrowed": 500 * 10**7, "TotalReserves": 10 * 10**7, "TotalAdminFees": 2 * 10**7,
    "BorrowIndex": 1_250_000_000_000_000_000, "ReserveFactorScaled": 100_000, "AdminFeeScaled": 50_000,
    "SupplyCap": 10**15, "BorrowCap": 0, "CollateralFactorScaled": 700_000, "InitialExchangeRate": 10**6,
    "BorrowYearlyRateScaled": 70_000, "TotalDeposited": 1488 * 10**7,
}  # fmt: skip
RECEIPTS = 1000 * 10**6
CURVE: dict[str, int] = {
    "BaseRatePerYear": 20_000, "MultiplierPerYear": 180_000, "JumpMultiplierPerYear": 4_000_000, "Kink": 800_000,
}  # fmt: skip
PRICE_DECIMALS = 14


def candidate(label: str, pool: str | None = None) -> Candidate:
    """A published address."""
    return Candidate("peridot", contract(label), pool=None if pool is None else contract(pool))


def demanded(label: str, pool: str | None = None) -> Candidate:
    """An address that the operator named."""
    return Candidate("peridot", contract(label), Origin.CONFIGURATION, None if pool is None else contract(pool))


def u128(value: int) -> ScVal:
    """An unsigned 128-bit value."""
    return (scval.U128, value)


def flags(values: Mapping[str, bool]) -> ScVal:
    """A map from contracts, given by label, to yes or no."""
    pairs = [(contract(label), flag) for label, flag in values.items()]
    return (scval.MAP, tuple((address(strkey), (scval.BOOL, flag)) for strkey, flag in sorted(pairs)))


def stored(owner: str, name: str, value: ScVal) -> Written:
    """An entry under a key without values."""
    return entry(contract(owner), vec(symbol(name)), value)


def vault_instance(vault: str, receipts: int | None = RECEIPTS, code: bytes = CODE) -> Written:
    """The instance of a vault, which has the supply of its receipt token."""
    storage = [] if receipts is None else [(vec(symbol("TotalSupply")), i128(receipts))]
    return instance(contract(vault), storage, code)


def asset_instance(token: str) -> Written:
    """The instance of a Stellar asset's contract."""
    key, data = token_instance(token, token.encode())
    pairs = decode_contract_data(data).value[1].storage
    value = (scval.CONTRACT_INSTANCE, ContractInstance(scval.STELLAR_ASSET, None, None, pairs))
    return key, encode_contract_data(ContractData(contract(token), INSTANCE_KEY, 1, value))


def balance(token: str, holder: str, amount: int) -> Written:
    """What a contract has of a Stellar asset."""
    rights: dict[str, ScVal] = {"authorized": (scval.BOOL, True), "clawback": (scval.BOOL, False)}
    key = vec(symbol("Balance"), address(contract(holder)))
    return entry(contract(token), key, struct_map({"amount": i128(amount), **rights}))


def deployment(market: str, vaults: Sequence[str]) -> Deployment:
    """A deployment that lists a market and vaults of it."""
    roles = [(MARKET, market), *(("vault", vault) for vault in vaults)]
    made = tuple(KnownContract(contract(label), role, "test", datetime.date(2026, 11, 18)) for role, label in roles)
    return Deployment("peridot", "test", made)


class PeridotLedger(BlendLedger):
    """Entries and call results of one ledger. Every method that takes a contract takes its label."""

    def add_market(self, market: str, assets: Sequence[str] = ("XLM",)) -> None:  # type: ignore[override]
        """A controller with a vault for each asset, a rate model, and an oracle that prices each at 2 dollars now."""
        oracle = f"{market} oracle"
        self.replace(instance(contract(market), [], CODE))
        self.replace(stored(market, "SupportedMarkets", flags({f"{asset} vault": True for asset in assets})))
        self.replace(stored(market, "Oracle", address(contract(oracle))))
        self.set_decimals(oracle, u32(PRICE_DECIMALS))
        self.add_model("model")
        for asset in assets:
            self.add_vault(market, asset)
            self.set_price(oracle, asset, 2 * 10**PRICE_DECIMALS)

    def add_model(self, model: str) -> None:
        """A rate model contract."""
        self.replace(*(stored(model, name, u128(value)) for name, value in CURVE.items()))

    def add_vault(self, market: str, asset: str) -> None:
        """A vault that keeps its own cash and was brought up to date a hundred seconds ago."""
        vault = f"{asset} vault"
        self.replace(vault_instance(vault), asset_instance(asset), balance(asset, vault, STATE["ManagedCash"]))
        self.replace(*(stored(vault, name, u128(value)) for name, value in STATE.items()))
        self.replace(stored(vault, "LastUpdateTime", u64(NOW - 100)), stored(vault, "RatesReady", (scval.BOOL, True)))
        addresses = {"UnderlyingToken": asset, "Peridottroller": market, "InterestModel": "model"}
        self.replace(*(stored(vault, name, address(contract(label))) for name, label in addresses.items()))

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

    def read(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = ()) -> Reading[ProtocolReading]:
        """Read through the one-ledger view; the source with its log stays in ``source``."""
        source = self.source = BlendSource(self.chain(), self.results)
        return asyncio.run(read_at_one_ledger(source, lambda view: Peridot().read(view, candidates, deployments)))

    def compute(
        self, candidates: Sequence[Candidate], deployments: Sequence[Deployment] = (), close_time: int = NOW
    ) -> Tables:
        """Read, and compute the tables; the reading stays in ``reading``."""
        reading = self.read(candidates, deployments)
        self.reading = reading.result
        return compute([reading.result], {"peridot": Peridot()}, reading.certificate.ledger, close_time)
