"""The Peridot markets of the made network: seeded, with an oracle of their own, and moving with the network.

Each has three vaults: one of XLM that keeps its own cash, one of USDC and one of EURC that boost theirs. The first
market is the one that `exporter.deployments.made_addresses` lists. Borrowing of EURC is paused, the vault of
XLM has caps, its suppliers and who borrows USDC are paid in a token that no oracle prices.
"""

from __future__ import annotations

from collections.abc import Iterator

from exporter.deployments.made_addresses import made_address
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain, Change
from exporter.localnet.contracts import Entry, Token, TokenLayout, balance_entry, wasm_entry
from exporter.localnet.made_assets import made_account
from exporter.localnet.made_markets import MadeMarkets
from exporter.localnet.peridot import (
    WASMS,
    Boost,
    Market,
    RateModel,
    Vault,
    boost_entries,
    controller_entries,
    model_entries,
    vault_configuration,
    vault_state,
)
from exporter.localnet.reflector_contract import REFLECTOR_WASM, by_address, by_symbol, reflector_entries

ORACLE_DECIMALS = 14
_PRICES_AFTER = 240  # seconds: the oracle writes all prices anew when they are this old; the controller takes 600
_LIFE = 1_000_000  # ledgers: to what a vault extends the life of its entries
_SYMBOLS = ("XLM", "USDC", None)  # the third token is known by its address


class PeridotMarkets(MadeMarkets):
    """The made markets; ``markets`` says what is in them.

    At each `advance`, ``changes_per_ledger`` vaults change as a user's operation changes them.
    """

    def __init__(
        self, seed: int, count: int, tokens: list[Token], start_time: int, *, changes_per_ledger: int = 1
    ) -> None:
        """Make ``count`` markets of the first three tokens, as of ``start_time`` (unix seconds)."""
        super().__init__("peridot", seed, changes_per_ledger)
        self.oracle = made_address("localnet peridot oracle")
        self.admin = made_account("localnet peridot admin")
        self.models = (
            RateModel(made_address("localnet peridot rate model 0"), 20_000, 180_000, 4_000_000, 800_000),
            RateModel(made_address("localnet peridot rate model 1"), 0, 50_000, 1_090_000, 900_000),
        )
        self._tokens = tokens[: len(_SYMBOLS)]
        self.reward_token = Token(
            made_address("localnet peridot token"), "P", 6, TokenLayout.WASM, made_account("localnet peridot admin")
        )
        self._prices = {token.contract: token.price for token in self._tokens}
        self._priced_at = start_time - self._random.randrange(60)
        self.markets = [self._market(index, start_time) for index in range(count)]

    def first_entries(self, ledger: int, time: int) -> Iterator[tuple[bytes, RawEntry]]:  # noqa: ARG002
        """All entries as of the first ledger, closed at ``time``."""
        for wasm in (*WASMS, REFLECTOR_WASM):
            yield self._old(ledger, wasm_entry(wasm))
        for entry in self._price_entries(self._priced_at):
            yield self._old(ledger, entry)
        for model in self.models:
            for entry in model_entries(model, self.admin):
                yield self._old(ledger, entry)
        yield self._old(ledger, self.reward_token.instance_entry())
        for market in self.markets:
            for entry in controller_entries(market):
                yield self._old(ledger, entry)
            for vault in market.vaults:
                for entry in (*vault_configuration(vault, self.admin), *self._state(vault)):
                    yield self._old(ledger, entry)

    def advance(self, chain: Chain, ledger: int, time: int) -> Iterator[Change]:  # noqa: ARG002
        """What changes in the ledger that closes next: prices when they are due, then a few vaults."""
        if self.due(time, _PRICES_AFTER):
            for token, price in self._prices.items():
                self._prices[token] = self.moved(price)
            for key, data in self._price_entries(time):
                yield Change(key, data, ledger + _LIFE)
        vaults = [vault for market in self.markets for vault in market.vaults]
        for vault in self.used(vaults):
            vault.operate(self._random, time)
            for key, data in self._state(vault):
                yield Change(key, data, ledger + _LIFE)

    def _market(self, index: int, time: int) -> Market:
        market = Market(made_address(f"localnet peridot controller {index}"), self.oracle, self.admin)
        for place, (token, name) in enumerate(zip(self._tokens, _SYMBOLS, strict=True)):
            vault = self._vault(index, place, token, time)
            vault.controller = market.address
            market.vaults.append(vault)
            if name is not None:
                market.symbols[token.contract] = name
        market.borrowing_paused.add(market.vaults[-1].address)
        market.reward_token = self.reward_token.contract
        market.speeds = {
            ("SupplySpeed", market.vaults[0].address): 12_000,
            ("BorrowSpeed", market.vaults[1].address): 3_000,
            ("BorrowSpeed", market.vaults[0].address): 0,
        }
        return market

    def _vault(self, index: int, place: int, token: Token, time: int) -> Vault:
        random = self._random
        boost = Boost(made_address(f"localnet peridot boosted vault {index} {place}")) if place else None
        vault = Vault(
            address=made_address(f"localnet peridot vault {index} {place}"),
            controller="",
            token=token.contract,
            decimals=token.decimals,
            model=self.models[min(place, 1)],
            reserve_factor=random.choice((100_000, 150_000)),
            admin_fee=random.choice((0, 0, 50_000)),
            last_update=time - random.randint(3_000, 9_000_000),
            boost=boost,
        )
        dollars = random.randint(1_000, 9_999) * 10 ** random.randint(0, 3)
        vault.deposit(dollars * 10 ** (14 + token.decimals) // token.price + random.randrange(10**token.decimals))
        vault.borrow(vault.available() * random.randint(1_000, 9_300) // 10_000)
        if boost:
            boost.earn(random)
        vault.accrue(time - random.randint(0, 2_999))
        vault.look(vault.last_update)
        if not boost:
            vault.gift = 5 * 10**token.decimals
            vault.supply_cap, vault.borrow_cap = 2 * vault.underlying(), vault.underlying()
        return vault

    def _state(self, vault: Vault) -> Iterator[Entry]:
        yield from vault_state(vault)
        token = next(token for token in self._tokens if token.contract == vault.token)
        yield balance_entry(token, vault.address, vault.cash + vault.gift)
        if vault.boost:
            yield from boost_entries(vault, vault.boost)

    def _price_entries(self, time: int) -> Iterator[Entry]:
        prices = {
            by_address(token.contract) if name is None else by_symbol(name): self._prices[token.contract]
            for token, name in zip(self._tokens, _SYMBOLS, strict=False)
        }
        return reflector_entries(self.oracle, ORACLE_DECIMALS, prices, time)

    def _old(self, ledger: int, entry: Entry) -> tuple[bytes, RawEntry]:
        return self.before(ledger, entry, 500_000, _LIFE)
