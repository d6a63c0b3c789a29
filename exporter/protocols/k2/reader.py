"""Reads every K2 market.

Keys are requested in waves: routers with their lists, then the reserves that these name, then the reserves' tokens and
rate contracts, then rewards and prices. A market or reserve that cannot be read is recorded as unread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from exporter.deployments import Deployment
from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import Fields, addresses, expect
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, symbol, u32, vec
from exporter.ledger.observation import CallResult, Entries, Entry
from exporter.ledger.oracles import PriceKey, Quote, by_address, tokens_by_oracle
from exporter.ledger.source import ContractCall
from exporter.ledger.tokens import read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.balances import Balance, Holding, balance_key, read_balances
from exporter.protocols.base import (
    Candidate,
    Market,
    Origin,
    PoolReading,
    PriceLimits,
    ProtocolReading,
    RewardPrice,
    TokenOfMarket,
)
from exporter.protocols.collector import Collector, UnreadError, instance_keys, required
from exporter.protocols.k2 import layout
from exporter.protocols.k2.math import RAY
from exporter.tables import PoolKey
from exporter.tree.values import UnreadReason

NAME = "k2"
MARKET_NAME = "K2 Lend"
"""The name of a market that the package's lists do not name, because a router itself has no name."""

ADMINS = {"PADMIN": "pool admin", "EADMIN": "emergency admin", "ADMIN": "admin of upgrades"}
"""The roles of those who decide over a router, by the names in its instance (docs/protocols/k2.md, "Keys")."""

SHARE_TOKEN_ROLES = ("a_token", "debt_token")
"""The roles that share tokens have in the lists."""

PROPOSED = {"PPADMIN": "pool admin", "PEADMIN": "emergency admin", "PUPGADM": "admin of upgrades"}
"""The roles that are offered to somebody who has not accepted yet, by the names in a router's instance."""


FRESH = "get_asset_prices_vec_fresh"
PLAIN = "get_asset_prices_vec"

_NO_SUCH_FUNCTION = "Error(WasmVm, MissingValue)"


class _EmissionKey(NamedTuple):
    """A share token, and a token that its holders are paid."""

    share_token: str
    paid: str


class _Reader(Collector):
    def __init__(self, candidates: Sequence[Candidate], deployments: Sequence[Deployment]) -> None:
        super().__init__(NAME, candidates)
        self.listed = {contract.address: contract for item in deployments for contract in item.contracts}
        """The contracts of the lists, by address."""
        self.deployments = deployments
        self.routers: dict[str, layout.RouterInstance] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        self.reserves: dict[PoolKey, layout.ReserveEntry] = {}
        self.balances: Mapping[Holding, Balance] = {}
        self.emissions: dict[str, layout.Emissions] = {}
        self.reward_keys: dict[str, list[bytes]] = {}
        """The ledger keys of the emissions to the holders of each share token."""

    def take_router(self, market: str, entries: Entries) -> None:
        """Decode a router's instance and its list of reserves. Raises `UnreadError` or `DecodeError`."""
        instance_entry, list_entry, count = (entries[key] for key in layout.router_keys(market))
        router_of_token = None if instance_entry is None else layout.router_named_by(instance_entry)
        if router_of_token is not None:
            self.notice(f"{market} is a token of a reserve of router {router_of_token}, which is read in its place")
            return
        if not self.market_is_there(market, instance_entry):
            return
        missing = "the router's list of reserves (RLIST) is missing: it never had one, or the ledger has lost it"
        listed = required(list_entry, "the router's list of reserves", missing)
        router = layout.decode_router(required(instance_entry, "the router's instance"))
        members = layout.decode_reserve_list(listed, count)
        self.check_code(market, router.wasm_hash, self.deployments, layout.VERSION)
        self.take_admins(market, instance_entry, ADMINS, PROPOSED)
        self.members[market] = members
        self.routers[market] = router

    def take_reserves(self, market: str, entries: Entries) -> None:
        """Decode the router's own entry of each reserve, which names the contracts that have the rest of its state."""
        stored = {asset: entries[layout.reserve_key(market, asset)] for asset in self.members[market]}
        lacking = [asset for asset, entry in stored.items() if entry is None]
        if not self.list_is_its_own(market, self.members[market], lacking):
            del self.routers[market]
            return
        for asset, entry in stored.items():
            with self.record_unread(market, asset):
                self.reserves[PoolKey(market, asset)] = layout.decode_reserve(
                    required(entry, "the reserve's RDATA entry")
                )

    def take_market(self, market: str, entries: Entries) -> None:
        """Record a market, and each of its reserves as a pool."""
        router, members = self.routers[market], self.members[market]
        listed = self.listed.get(market)
        configured = [(asset, self.configuration_of(market, asset, entries)) for asset in members]
        read_market = Market(
            address=market,
            protocol=NAME,
            version=layout.VERSION,
            name=self.shown_name(market, (listed and listed.name) or MARKET_NAME),
            status="paused" if router.paused else "active",
            oracle=router.oracle,
            config_hash=layout.config_hash(router, configured),
            wasm_hash=router.wasm_hash,
            members=members,
        )
        self.reading.markets.append(read_market)
        for asset in members:
            if PoolKey(market, asset) in self.reserves:
                with self.record_unread(market, asset):
                    reserve = self.reserve_of(market, asset, entries)
                    decimals = reserve.configuration.decimals
                    self.compare_decimals(market, decimals, self.reading.tokens.get(asset))
                    pool = PoolReading(read_market, asset, asset, decimals, router.oracle, reserve)
                    self.append_pool(pool, self.keys_of(market, asset))

    def configuration_of(self, market: str, asset: str, entries: Entries) -> ScVal:
        """A reserve's contracts, bitmap and rate model, for the hash of the configuration.

        It is a vector without content if one of them cannot be read.
        """
        reserve = self.reserves.get(PoolKey(market, asset))
        with Barrier():  # reading the reserve reports this, and here it must not cost the other reserves
            if reserve is not None:
                models = (entries[key] for key in layout.rate_model_keys(reserve.rate_contract, asset))
                model = layout.decode_rate_model(*models)
                return vec(
                    *reserve.stored_configuration,
                    *((scval.U128, getattr(model, name)) for name in layout.MODEL_FIELDS),
                )
        return (scval.VEC, None)

    def reserve_of(self, market: str, asset: str, entries: Entries) -> layout.Reserve:
        """A reserve with everything that its numbers follow from. Raises `UnreadError` or `DecodeError`."""
        reserve = self.reserves[PoolKey(market, asset)]
        scaled: dict[str, int] = {}
        for side, token in reserve.share_tokens.items():
            what = f"{layout.SHARE_TOKENS[side][0]} {token}"
            instance = required(entries[instance_key(token)], f"the reserve's {what}")
            of_router, of_asset, scaled[side] = layout.decode_share_token(instance, side)
            if (of_router, of_asset) != (market, asset):
                detail = f"the {what} says that it is of asset {of_asset} of router {of_router}"
                raise UnreadError(UnreadReason.INCONSISTENT, detail)
            self.take_code(market, what, instance)
        own, shared = (entries[key] for key in layout.rate_model_keys(reserve.rate_contract, asset))
        if own is None:
            required(shared, f"the reserve's rate contract {reserve.rate_contract}")
        model = layout.decode_rate_model(own, shared)
        stored = entries[layout.debt_ceiling_key(market, asset)]  # in whole tokens
        ceiling = 0 if stored is None else min(expect(stored.value, scval.U128, "RDEBTCEIL"), layout.MAX_AMOUNT)
        self.reading.parameters[PoolKey(market, asset)] = layout.shown_parameters(reserve.configuration, model, ceiling)
        router, (a_token, debt_token) = self.routers[market], reserve.share_tokens.values()
        balance = self.balances[Holding(asset, a_token)]
        data = reserve.data
        free = scaled["supply"] * data.liquidity_index - scaled["borrow"] * data.variable_borrow_index
        if free >= RAY and not balance.stored:  # at least one base unit is not lent, so there must be a balance
            balance = Balance(None, f"it has no balance of {asset}, although not all of the supply is lent")
        if balance.amount is None:
            self.notice(
                f"market {market}: what can be withdrawn and borrowed of {asset} cannot be determined, because of its "
                f"aToken: {balance.failure}"
            )
        max_age = router.asset_price_ages.get(asset, router.price_age)
        self.reading.price_limits[PoolKey(market, asset)] = PriceLimits(max_age)
        return layout.Reserve(
            data=data,
            configuration=reserve.configuration,
            model=model,
            a_token=a_token,
            debt_token=debt_token,
            total_supply_scaled=scaled["supply"],
            total_debt_scaled=scaled["borrow"],
            router_paused=router.paused,
            users_are_listed=None if router.reserves_with_list is None else asset in router.reserves_with_list,
            liquidators_are_listed=router.liquidators_are_listed,
            debt_ceiling=ceiling,
            cash=balance.amount,
            supply_emissions=self.emissions[a_token],
            borrow_emissions=self.emissions[debt_token],
        )

    def keys_of(self, market: str, asset: str) -> list[bytes]:
        """The ledger keys of a reserve's entries at the router, its tokens, its rate contract and the oracle."""
        reserve = self.reserves[PoolKey(market, asset)]
        tokens = reserve.share_tokens
        return [
            *layout.router_keys(market)[1:],
            layout.reserve_key(market, asset),
            layout.debt_ceiling_key(market, asset),
            *map(instance_key, tokens.values()),
            balance_key(asset, tokens["supply"]),
            *layout.rate_model_keys(reserve.rate_contract, asset),
            *layout.price_configuration_keys(self.routers[market].oracle, [asset]),
            *(key for token in tokens.values() for key in self.reward_keys.get(token, ())),
        ]

    async def take_rewards(self, view: LedgerView, entries: Entries) -> None:
        """Read the emissions to the holders of share tokens, from the contracts that the tokens name."""
        sides = {token: side for each in self.reserves.values() for side, token in each.share_tokens.items()}
        contracts = {token: _reward_contract_of(entries[instance_key(token)]) for token in sides}
        lists = {token: variant_key(paying, "RTL", address(token)) for token, paying in contracts.items() if paying}
        stored = dict(await view.read(lists.values()))
        self.emissions = dict.fromkeys(sides, ())
        rates: dict[_EmissionKey, bytes] = {}
        for token, key in lists.items():
            entry, side = stored[key], u32(list(layout.SHARE_TOKENS).index(sides[token]))
            with Barrier(partial(self.lose_emissions, token)):
                for paid in () if entry is None else addresses(entry.value, "RTL", layout.MAX_REWARD_TOKENS):
                    names = address(token), address(paid), side
                    rates[_EmissionKey(token, paid)] = variant_key(str(contracts[token]), "ARC", *names)
        stored |= await view.read(rates.values())
        self.reward_keys = {token: [key] for token, key in lists.items()}
        for (token, _), key in rates.items():
            self.reward_keys[token].append(key)
        for (token, paid), key in rates.items():
            entry, emissions = stored[key], self.emissions[token]
            with Barrier(partial(self.lose_emissions, token)):
                fields = None if entry is None else Fields.of(entry.value, "ARC")
                if emissions is not None and fields is not None and fields.boolean("is_active"):
                    rate = fields.number("emission_per_second", *layout.UNSIGNED)
                    self.emissions[token] = (*emissions, layout.Emission(paid, rate, fields.u64("distribution_end")))

    def lose_emissions(self, token: str, failure: str) -> None:
        """Record that the emissions to a share token's holders are not known."""
        del failure
        self.emissions[token] = None

    async def take_tokens(self, view: LedgerView) -> None:
        """Read the reserves' tokens and the reward tokens. A reward token has a price if it is a reserve's token."""
        paid = {emission.token for emissions in self.emissions.values() for emission in emissions or ()}
        assets = (asset for members in self.members.values() for asset in members)
        self.reading.tokens = await read_tokens(view, [*assets, *sorted(paid)])
        self.reading.reward_prices = {
            TokenOfMarket(market, token): RewardPrice(token)
            for market in self.routers
            for token in paid & {*self.members[market]}
        }

    async def take_prices(self, view: LedgerView) -> None:
        """Ask each oracle for all its prices in one call, and if that fails for each price in a call of its own.

        docs/protocols/k2.md, "Prices", says which function is called.
        """
        wanted = [PriceKey(pool.oracle, pool.token_address) for pool in self.reading.pools if pool.oracle]
        quotes = {price: Quote(*price, failure="the market's oracle is not a contract") for price in wanted}
        callable_prices = [price for price in quotes if price.oracle.startswith("C")]  # an account cannot be called
        asked = [
            _PriceCall(each.oracle, FRESH, each.tokens)
            for each in tokens_by_oracle(callable_prices, layout.MAX_RESERVES)
        ]
        while asked:  # at most three times: all tokens, then with the other function, then each token alone
            results = await view.call([each.call() for each in asked])
            again: list[_PriceCall] = []
            for each, result in zip(asked, results, strict=True):
                kind, values = result.value or (scval.VOID, None)
                prices = values if kind == scval.VEC and len(values or ()) == len(each.tokens) else None
                if each.function == FRESH and _NO_SUCH_FUNCTION in (result.error or ""):
                    again.append(each._replace(function=PLAIN))
                elif prices is None and len(each.tokens) > 1:
                    again += [each._replace(tokens=[token]) for token in each.tokens]
                else:
                    for token, value in zip(each.tokens, prices or [None], strict=True):
                        price = PriceKey(each.oracle, token)
                        quotes[price] = _quote(price, each.function, result, value)
            asked = again
        for router in self.routers.values():
            if router.price_decimals != layout.PRICE_DECIMALS:
                failure = f"the oracle's prices have {router.price_decimals} decimals, not the {layout.PRICE_DECIMALS}"
                for price in [price for price in quotes if price.oracle == router.oracle]:
                    quotes[price] = Quote(*price, failure=f"{failure} that are known", is_known=False)
        self.reading.quotes = quotes


class _PriceCall(NamedTuple):
    """A call of one of an oracle's two functions for the prices of some tokens."""

    oracle: str
    function: str
    tokens: list[str]

    def call(self) -> ContractCall:
        return ContractCall(self.oracle, self.function, (vec(*map(by_address, self.tokens)),))


def _quote(price: PriceKey, function: str, result: CallResult, value: ScVal | None) -> Quote:
    """The quote of one token. ``value`` is its part of the result; None if that has another number of prices."""
    if result.value is None:
        return Quote(*price, failure=f"{function}() failed: {result.reason}", is_known=result.refused)
    if value == VOID:
        return Quote(*price, failure="the oracle has no price for this token")
    with Barrier() as barrier:
        if value is None:
            prices = expect(result.value, scval.VEC, f"{function}()")
            raise DecodeError(f"{function}() gave {len(prices or ())} prices for one token")
        fields = Fields.of(value, f"{function}()")
        number, time = fields.number("price", *layout.UNSIGNED), fields.u64("timestamp")
        return Quote(*price, layout.PRICE_DECIMALS, number, time)
    return Quote(*price, failure=barrier.failure, is_known=False)


def _reward_contract_of(token: Entry | None) -> str | None:
    """The contract that pays holders of a share token; None if the token names none, or cannot be read."""
    with Barrier():  # `reserve_of` reports a failure
        storage = () if token is None else instance_of(token.contract_data()).storage or ()
        kind, named = dict(storage).get(vec(symbol("IncentivesContract")), (scval.VOID, None))
        return str(named) if kind == scval.ADDRESS and str(named).startswith("C") else None
    return None


def _routers_named_by(contracts: Iterable[str], entries: Entries, candidates: Collection[str]) -> list[Candidate]:
    """The routers that share tokens name and that are no candidates yet.

    Anybody can make such a token, so these routers are not listed.
    """
    named = set()
    for contract in contracts:
        entry = entries[instance_key(contract)]
        with Barrier():  # the market of a share token that cannot be decoded is unread
            router = None if entry is None else layout.router_named_by(entry)
            if router is not None and router not in candidates:
                named.add(router)
    return [Candidate(NAME, router, Origin.NAMED_BY_CONTRACT) for router in sorted(named)]


async def read_markets(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read all K2 markets. Raises only `SourceError`; what is wrong with a market or reserve is in the reading."""
    reader = _Reader(candidates, deployments)
    markets = sorted({candidate.address for candidate in candidates})
    tokens = [token for item in deployments for role in SHARE_TOKEN_ROLES for token in item.addresses(role)]
    keys = [key for market in markets for key in layout.router_keys(market)]
    entries = dict(await view.read([*keys, *map(instance_key, tokens)]))
    reader.reading.named = _routers_named_by({*markets, *tokens}, entries, candidates=set(markets))
    reader.each_market(markets, lambda market: reader.take_router(market, entries))
    await view.make_room(sum(len(reader.members[market]) for market in reader.routers))

    keys = []
    for market, router in reader.routers.items():
        members = reader.members[market]
        keys += instance_keys([router.oracle])
        keys += layout.price_configuration_keys(router.oracle, members)
        for asset in members:
            keys += [layout.reserve_key(market, asset), layout.debt_ceiling_key(market, asset), instance_key(asset)]
    entries |= await view.read(keys)
    reader.each_market(reader.routers, lambda market: reader.take_reserves(market, entries))

    keys = []
    holdings = [Holding(key.pool, reserve.share_tokens["supply"]) for key, reserve in reader.reserves.items()]
    for (_, asset), reserve in reader.reserves.items():
        keys += [*map(instance_key, reserve.share_tokens.values()), balance_key(asset, reserve.share_tokens["supply"])]
        keys += layout.rate_model_keys(reserve.rate_contract, asset)
    entries |= await view.read(keys)
    await reader.take_rewards(view, entries)
    await reader.take_tokens(view)
    reader.balances = await read_balances(view, holdings)
    reader.each_market(reader.routers, lambda market: reader.take_market(market, entries))

    await reader.take_prices(view)
    return reader.reading
