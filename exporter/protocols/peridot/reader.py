"""Reads every Peridot market. A market or vault that cannot be read is recorded as unread.

The first request has the controllers and the vaults that lists name. The second has the vaults that the controllers
list. The third has the rate models, balances and tokens. What does not follow from entries is asked from the vaults.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import field
from msgspec.structs import replace

from exporter.deployments import Deployment
from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, variant_key
from exporter.ledger.codec.fields import expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.oracles import PriceKey, by_address, by_symbol, read_asset_quotes
from exporter.ledger.source import ContractCall
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.balances import Balance, Holding, balance_key, read_balances
from exporter.protocols.base import Candidate, Control, Market, Parameter, PoolReading, ProtocolReading
from exporter.protocols.collector import Collector, UnreadError, instance_keys
from exporter.protocols.peridot import layout
from exporter.protocols.peridot.queued_changes import (
    ADMIN,
    OF_CONTROLLER,
    OF_VAULT,
    OF_VAULT_AT_CONTROLLER,
    UPGRADE,
    QueueableChange,
    decode_queued,
    queued_keys,
)
from exporter.tables import PoolKey
from exporter.tree.values import UnreadReason

NAME = "peridot"


class PeridotReading(ProtocolReading):
    """The reading with its controllers. A pause can end without an entry changing, so they are needed later."""

    controllers: dict[str, layout.Controller] = field(default_factory=dict)

    def at_close_time(self, close_time: int) -> None:
        """Set the statuses of markets, and what is paused in each vault, at a close time (unix seconds)."""
        self.markets = [replace(market, status=self._status_of(market, close_time)) for market in self.markets]
        markets = {market.address: market for market in self.markets}
        for index, pool in enumerate(self.pools):
            paused = self.controllers[pool.market.address].paused(pool.pool, close_time)
            stored: layout.VaultState = pool.state
            state = replace(stored, paused=paused if stored.governed else frozenset())
            self.pools[index] = replace(pool, market=markets[pool.market.address], state=state)
        for key, parameters in self.parameters.items():
            paused = self.controllers[key.market].paused(key.pool, close_time)
            by_name = {item.name: item for item in parameters}
            for what in layout.PAUSES:
                by_name[f"{what}_paused"] = Parameter(f"{what}_paused", int(what in paused), 0)
            self.parameters[key] = tuple(by_name.values())

    def _status_of(self, market: Market, close_time: int) -> str:
        controller = self.controllers[market.address]
        paused = [controller.paused(vault, close_time) for vault in market.members]
        if not any(paused):
            return "active"
        return "paused" if all({"deposits", "borrowing"} <= each for each in paused) else "partly_paused"


class _Reader(Collector):
    reading: PeridotReading

    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(NAME, candidates)
        self.reading = PeridotReading(NAME)
        self.deployments = deployments
        self.members: dict[str, list[str]] = {}
        self.vaults: dict[PoolKey, layout.Vault] = {}
        self.entries: dict[bytes, Entry | None] = {}
        self.answers: dict[ContractCall, CallResult] = {}
        self.listed = defaultdict[str, set[str]](set)
        """The vaults of each market that lists or candidates name."""
        self.configured = {
            PoolKey(item.address, item.pool) for item in candidates if item.configured and item.pool is not None
        }
        """The vaults that the operator names."""
        for deployment in deployments:
            for market in deployment.markets:
                self.listed[market].update(deployment.addresses("vault"))
        for candidate in candidates:
            self.listed[candidate.address].update([] if candidate.pool is None else [candidate.pool])

    def take_market(self, market: str) -> None:
        """Decode a controller. Raises `DecodeError`."""
        if not self.market_is_there(market, self.entries[instance_key(market)]):
            return
        controller = layout.decode_controller(market, self.entries)
        listed = self.listed[market]
        if controller.supported is None and not listed:
            raise DecodeError("controller: entry SupportedMarkets is missing, and no vault of it is known")
        self.check_code(market, controller.wasm_hash, self.deployments, layout.VERSION)
        if controller.supported is None:
            self.notice(f"market {market} has no list of its vaults; the known ones were read")
        if controller.age_multiplier != layout.USUAL_AGE_MULTIPLIER:
            self.notice(
                f"market {market} takes prices of up to {controller.age_multiplier} times its oracle's resolution; "
                f"the exporter refuses those older than {layout.USUAL_AGE_MULTIPLIER} times"
            )
        self.take_admin(market, "admin", market)
        self.take_queued(market, None, market, OF_CONTROLLER)
        self.reading.controllers[market] = controller
        self.members[market] = sorted({*listed, *(controller.supported or ())})

    def take_admin(self, market: str, role: str, contract: str) -> None:
        """Record who is the admin of a contract of a market."""
        with Barrier():
            entry = self.entries.get(variant_key(contract, ADMIN))
            if entry is not None and entry.value[0] == scval.ADDRESS:
                self.reading.controls.append(Control(market, "admin", role, entry.value[1]))

    def take_queued(
        self,
        market: str,
        pool: str | None,
        contract: str,
        changes: Iterable[QueueableChange],
        *values: ScVal,
    ) -> None:
        """Record the changes that a contract has queued."""
        for change in changes:
            value, *time = (self.entries.get(key) for key in queued_keys(contract, (change,), *values))
            if value is not None:
                self.take_pending(market, pool, change.kind, partial(decode_queued, change, value, *time))

    def take_vaults(self, market: str) -> None:
        """Decode the vaults of a market. A known vault that neither exists nor is listed is left out."""
        listed = self.reading.controllers[market].supported
        for vault in list(self.members[market]):
            supported = listed is None or vault in listed
            if self.entries[instance_key(vault)] is None:
                if supported or PoolKey(market, vault) in self.configured:
                    self.unread(
                        market, vault, UnreadReason.ABSENT, "the ledger has no contract at this vault's address"
                    )
                else:
                    self.members[market].remove(vault)
                    self.notice(f"the known vault {vault} does not exist, and market {market} does not list it")
                continue
            if not supported:
                self.notice(f"market {market} does not list the known vault {vault}, or no longer; it was read anyway")
            self.take_code(market, f"vault {vault}", self.entries[instance_key(vault)])
            self.take_admin(market, f"admin of vault {vault}", vault)
            self.take_queued(market, vault, vault, OF_VAULT)
            self.take_queued(market, vault, market, OF_VAULT_AT_CONTROLLER, address(vault))
            with self.record_unread(market, vault):
                decoded = layout.decode_vault(vault, self.entries)
                if decoded.controller not in (None, market):
                    raise UnreadError(
                        UnreadReason.INCONSISTENT, f"the vault says that its controller is {decoded.controller}"
                    )
                self.vaults[PoolKey(market, vault)] = decoded

    def append_market(self, market: str) -> Market:
        """Record a market. Its status is set later, by `PeridotReading.at_close_time`."""
        models = {item.model for key, item in self.vaults.items() if key.market == market and item.model is not None}
        controller, members = self.reading.controllers[market], tuple(self.members[market])
        read = Market(
            address=market,
            protocol=NAME,
            version=layout.VERSION,
            name="Peridot",  # the contracts themselves have no name
            status="",
            oracle=controller.oracle,
            config_hash=layout.config_hash(market, members, models, self.entries),
            wasm_hash=controller.wasm_hash,
            members=members,
        )
        self.reading.markets.append(read)
        return read

    def append_vault(self, market: Market, vault: str, balance: Balance) -> None:
        """Record a vault as a pool. Raises `UnreadError` or `DecodeError`."""
        decoded, controller = self.vaults[PoolKey(market.address, vault)], self.reading.controllers[market.address]
        governed, token = decoded.controller is not None, self.reading.tokens[decoded.token]
        if decoded.model is not None:
            upgrade = UPGRADE._replace(subject=f"rate model {decoded.model}")
            self.take_queued(market.address, vault, decoded.model, (upgrade,))
        numbers, curve = decoded.numbers, layout.decode_curve(decoded, self.entries)
        factor = self.entries[layout.collateral_factor_key(market.address, vault)]
        collateral_factor = numbers.collateral_factor
        if governed:
            collateral_factor = 0 if factor is None else layout.decode_amount(factor.value, "MarketCF")
        cash = self.cash_of(market.address, vault, decoded, balance)
        supply_speed, borrow_speed = self.speeds(market.address, vault)
        if token.decimals is None:
            raise DecodeError(f"its token gives no decimals: {token.failure}")
        receipt_supply = numbers.receipt_supply
        if receipt_supply is None:
            receipt_supply = self.answer(vault, "get_total_ptokens")
        state = layout.VaultState(
            books=layout.Books(numbers, curve, cash),
            receipt_supply=receipt_supply,
            collateral_factor=collateral_factor,
            incentive=controller.incentive,
            governed=governed,
            listed=None if controller.supported is None else vault in controller.supported,
            paused=frozenset(),  # `PeridotReading.at_close_time` sets it
            reward_token=controller.reward_token if supply_speed or borrow_speed else None,
            supply_speed=supply_speed,
            borrow_speed=borrow_speed,
        )
        pool = PoolReading(market, vault, decoded.token, token.decimals, market.oracle, state)
        self.append_pool(pool, self.keys_of(market.address, vault))
        self.reading.parameters[pool.key] = layout.shown_parameters(state, boosted=decoded.boosted)

    def keys_of(self, market: str, vault: str) -> list[bytes]:
        """The ledger keys of a vault's entries at the vault, its controller, its rate model and its token."""
        decoded = self.vaults[PoolKey(market, vault)]
        return [
            *layout.controller_keys(market),
            *layout.vault_keys(vault),
            layout.collateral_factor_key(market, vault),
            *layout.speed_keys(market, vault),
            *(() if decoded.model is None else layout.entry_keys(decoded.model, layout.CURVE_ENTRIES.values())),
            balance_key(decoded.token, vault),
            _symbol_key(market, decoded.token),
        ]

    def speeds(self, market: str, vault: str) -> tuple[int | None, int | None]:
        """The rewards of a vault's suppliers and borrowers, a second. None if one could not be read."""
        supply, borrow = map(layout.decode_speed, map(self.entries.get, layout.speed_keys(market, vault)))
        return supply, borrow

    def cash_of(self, market: str, vault: str, decoded: layout.Vault, balance: Balance) -> layout.Cash:
        """The cash of a vault. Raises `UnreadError` or `DecodeError` if its interest cannot be computed."""
        if not decoded.counts_cash:
            raise DecodeError(
                "vault: entries ManagedCash and RatesReady are missing: it has the form of before 2026, in which "
                "suppliers earn in another way"
            )
        numbers, managed = decoded.numbers, decoded.numbers.implied_cash
        borrowed, factors = numbers.total_borrowed, numbers.reserve_factor + numbers.admin_fee
        if borrowed and factors > layout.SCALE and numbers.boost_rule != layout.BoostRule.QUOTED:
            raise DecodeError("its reserve factor and admin fee are together above 1: the contract refuses to accrue")
        live_cash, failure = balance.amount, balance.failure
        if managed and not balance.stored:
            live_cash, failure = None, f"it has no balance of its token, although it counts {managed} as its own"
        if live_cash is None and borrowed:
            raise UnreadError(UnreadReason.UNDECODABLE, failure)
        if live_cash is None:
            self.notice(f"market {market}: what vault {vault} can pay out cannot be determined; {failure}")
        net_cash = managed - numbers.set_aside
        if not decoded.cash_is_stored:
            owned = self.answer(vault, "get_total_underlying")
            if owned == 0 and borrowed:
                raise DecodeError("the vault owes its suppliers nothing although it lends: what it lacks is not known")
            net_cash = owned - borrowed
        quoted = 0 if decoded.boosted is None else net_cash + numbers.set_aside - managed
        if quoted < 0:
            raise DecodeError(f"what it can pay out is less than the {managed} that it keeps itself")
        return layout.Cash(
            net_cash=net_cash,
            managed_cash=managed,
            live_cash=live_cash or 0,
            boost_quoted=quoted,
            payable=None if live_cash is None else live_cash + quoted,
        )

    def answer(self, vault: str, function: str) -> int:
        """The amount that a vault's function gave. Raises `DecodeError`."""
        result = self.answers[ContractCall(vault, function)]
        if result.value is None:
            raise DecodeError(f"{function}() failed: {result.reason}")
        return layout.decode_amount(result.value, f"{function}()")

    async def read_prices(self, view: LedgerView) -> None:
        """Ask the oracles for prices, by the symbols that the controllers have for tokens. Raises `SourceError`."""
        assets: dict[PriceKey, ScVal] = {}
        for pool in self.reading.pools:
            market, token = pool.market.address, pool.token_address
            price = PriceKey(str(pool.oracle), token)
            assets[price] = by_address(token)
            entry = self.entries[_symbol_key(market, token)]
            with Barrier() as barrier:
                if entry is not None:
                    assets[price] = by_symbol(expect(entry.value, scval.SYMBOL, "OracleAssetSymbol"))
            if barrier.failure:
                self.notice(f"market {market}, token {token}: {barrier.failure}; its price is asked for by its address")
        self.reading.quotes = await read_asset_quotes(view, assets)


def _symbol_key(market: str, token: str) -> bytes:
    """The ledger key of the symbol under which a controller asks its oracle for a token."""
    return variant_key(market, "OracleAssetSymbol", address(token))


def _keys_of(vaults: Iterable[PoolKey]) -> list[bytes]:
    return [
        key
        for market, vault in sorted(vaults)
        for key in (
            *layout.vault_keys(vault),
            layout.collateral_factor_key(market, vault),
            *layout.speed_keys(market, vault),
            variant_key(vault, ADMIN),
            *queued_keys(vault, OF_VAULT),
            *queued_keys(market, OF_VAULT_AT_CONTROLLER, address(vault)),
        )
    ]


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read all Peridot markets. Raises only `SourceError`; what is wrong with a market or vault is in the reading."""
    reader = _Reader(candidates, deployments)
    markets = sorted({candidate.address for candidate in candidates})
    await _read_states(reader, view, markets)
    balances = await _read_shared_entries(reader, view)
    await _read_totals(reader, view)
    markets_read: dict[str, Market] = {}

    def append_market(market: str) -> None:
        markets_read[market] = reader.append_market(market)

    reader.each_market(reader.members, append_market)
    for (market, vault), decoded in reader.vaults.items():
        if market in markets_read:
            with reader.record_unread(market, vault):
                reader.append_vault(markets_read[market], vault, balances[Holding(decoded.token, vault)])
    await reader.read_prices(view)
    return reader.reading


async def _read_states(reader: _Reader, view: LedgerView, markets: Sequence[str]) -> None:
    """Read the controllers with the vaults that lists name, then the vaults that the controllers name."""
    keys = _keys_of(PoolKey(market, vault) for market in markets for vault in reader.listed[market])
    for market in markets:
        keys += [*layout.controller_keys(market), variant_key(market, ADMIN)]
        keys += queued_keys(market, OF_CONTROLLER)
    reader.entries |= await view.read(keys)
    reader.each_market(markets, reader.take_market)
    await view.make_room(sum(map(len, reader.members.values())))
    members = (PoolKey(market, vault) for market, own in reader.members.items() for vault in own)
    reader.entries |= await view.read(_keys_of(members))
    reader.each_market(reader.members, reader.take_vaults)


async def _read_shared_entries(reader: _Reader, view: LedgerView) -> Mapping[Holding, Balance]:
    """Read tokens, oracles and rate models, which vaults share. Returns what each vault holds of its token."""
    controllers, pools = reader.reading.controllers, reader.vaults.items()
    holdings = [Holding(decoded.token, key.pool) for key, decoded in pools]
    rewarded = [market for market, vault in reader.vaults if any(reader.speeds(market, vault))]
    rewards = (controllers[market].reward_token for market in rewarded)
    tokens = dict.fromkeys(
        [*(holding.token for holding in holdings), *(token for token in rewards if token is not None)]
    )
    keys = instance_keys(controller.oracle for controller in controllers.values())
    for model in dict.fromkeys(decoded.model for _, decoded in pools if decoded.model is not None):
        keys += layout.entry_keys(model, layout.CURVE_ENTRIES.values())
        keys += queued_keys(model, (UPGRADE,))
    keys += [_symbol_key(market, decoded.token) for (market, _), decoded in pools]
    keys += [balance_key(*holding) for holding in holdings]
    reader.entries |= await view.read([*keys, *map(instance_key, tokens)])
    reader.reading.tokens = await read_tokens(view, tokens)
    return await read_balances(view, holdings)


async def _read_totals(reader: _Reader, view: LedgerView) -> None:
    """Ask the vaults whose entries do not say it for what they hold, and for their shares."""
    vaults = reader.vaults.items()
    calls = [ContractCall(vault, "get_total_underlying") for (_, vault), item in vaults if not item.cash_is_stored]
    calls += [
        ContractCall(vault, "get_total_ptokens") for (_, vault), item in vaults if item.numbers.receipt_supply is None
    ]
    reader.answers = dict(zip(calls, await view.call(calls), strict=True))
