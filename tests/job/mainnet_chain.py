"""A chain on which everything that the package's lists know of mainnet is there, at its address, with made entries.

The lists are those of `exporter.deployments`, the passphrase is mainnet's, the numbers are made: it shows what a run
over all known markets asks for. Slender is archived, as docs/protocols/slender.md has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from exporter.deployments import Deployment as Known
from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, data_key, encode_contract_data, instance_key
from exporter.ledger.codec.scval import ContractInstance
from exporter.ledger.codec.scval_encode import INSTANCE_KEY
from exporter.ledger.source import ContractCall, RawEntry
from exporter.localnet.alula_made import AlulaMarkets
from exporter.localnet.answers import Simulation
from exporter.localnet.blend import (
    V1,
    V2,
    Deployment,
    Market,
    backstop_entries,
    factory_entries,
    pool_instance,
    reserve_config,
    reserve_data,
    reserve_list,
    reward_zone,
)
from exporter.localnet.blend_rewards import BlendRewards
from exporter.localnet.chain import Chain, LedgerState
from exporter.localnet.contracts import (
    Contracts,
    Entry,
    Token,
    asset_entry,
    oracle_instance,
    router_entries,
)
from exporter.localnet.k2 import Reserve, price_entry
from exporter.localnet.k2_made import K2Markets
from exporter.localnet.made import make_deployments, make_market
from exporter.localnet.made_assets import make_feeds, make_oracles, make_tokens
from exporter.localnet.network import CODE, LocalNetwork
from exporter.localnet.peridot_made import PeridotMarkets
from exporter.localnet.slender_made import SlenderMarkets
from exporter.localnet.xoxno import HubMarket
from exporter.localnet.xoxno_made import XoxnoMarkets
from tests.protocols.made_ledger import contract

MAINNET = NETWORKS["mainnet"]
LEDGER, CLOSE_TIME = 65_000_000, 1_794_996_000
RESERVES = (1, 2, 3, 4, 6, 8)
"""How many reserves the Blend pools have, in turn."""

_LIFE = 2_000_000  # ledgers
_UNLISTED_RESERVE = ("k2 a-token of USDT0", "k2 debt-token of USDT0")


class _Counted(Contracts):
    """The code of the embedded network; counts what is called, by contract and function."""

    def __init__(self, called: Counter[tuple[str, str]]) -> None:
        super().__init__()
        self._called = called

    def simulate(self, chain: LedgerState, ledger: int, call: ContractCall) -> Simulation:
        self._called[call.contract, call.function] += 1
        return CODE.simulate(chain, ledger, call)


class MainnetChain(LocalNetwork):
    """All of mainnet's lists, with ``tokens``; ``pools`` is how many can be read, ``markets`` has those by protocol.

    ``called`` counts the calls that were simulated, by contract and function.
    Of Blend v2.1, whose factory no list has, there are ``found`` pools more that only its reward zone lists.
    """

    def __init__(self, *, found: int = 2, reserves: Sequence[int] = RESERVES) -> None:
        """Make it, with the same numbers at each time; the Blend pools have so many ``reserves``, in turn."""
        self._reserves = reserves
        self._random = Random("mainnet")
        self._known = {(item.protocol, item.label): item for item in MAINNET.deployments}
        self.tokens = list(self._listed_tokens())
        self._oracles = make_oracles()
        self.markets: dict[str, set[str]] = {}
        self.pools = 0
        entries: dict[bytes, RawEntry] = {}
        assert MAINNET.router is not None
        for part in (self._blend(found), self._assets(), router_entries(MAINNET.router.address), *self._others()):
            entries |= {key: RawEntry(data, LEDGER - 1_000, LEDGER + _LIFE) for key, data in part}
        slender = self._slender()
        entries |= dict(slender.first_entries(LEDGER, CLOSE_TIME))
        for item in MAINNET.deployments:
            for known in item.contracts:
                if instance_key(known.address) not in entries:
                    key, data = bare_instance(known.address, bytes.fromhex(known.wasm_hash or "11" * 32))
                    entries[key] = RawEntry(data, LEDGER - 1_000, LEDGER + _LIFE)
        chain = Chain(entries, start_ledger=LEDGER, start_time=CLOSE_TIME)
        self.called: Counter[tuple[str, str]] = Counter()
        super().__init__(chain, MAINNET.passphrase, 28, _Counted(self.called))

    def _listed_tokens(self) -> Iterator[Token]:
        """The tokens that XOXNO's list names, XLM, USDC and EURC first, each with its decimals there."""
        pools = self._known["xoxno", "main"].pools
        decimals = {pool.token: pool.decimals or 7 for pool in pools}
        made, _ = make_tokens(self._random, len(decimals), at_least=len(decimals))
        for token, (address, places) in zip(made, decimals.items(), strict=False):
            yield replace(token, contract=address, decimals=places)

    def _blend(self, found: int) -> Iterator[Entry]:
        made = make_deployments()
        for label, generation in (("v1", V1), ("v2", V2), ("v2.1", V2)):
            known = self._known["blend", label]
            around = replace(
                made[generation.label],
                factory=known.address("factory") or contract("blend v2.1 factory"),
                backstop=known.backstop or "",
                usdc=self.tokens[1].contract,
            )
            addresses = known.markets
            if label == "v2.1":
                addresses += tuple(contract(f"blend v2.1 pool {index}") for index in range(found))
            markets = [self._blend_market(around, address, index) for index, address in enumerate(addresses)]
            self.markets.setdefault("blend", set()).update(addresses)
            yield from (*backstop_entries(around, []), *factory_entries(around, markets))
            yield reward_zone(around, markets if label == "v2.1" else markets[:3])
            for market in markets:
                yield from (pool_instance(market, around), reserve_list(market))
                for reserve in market.reserves:
                    yield from (reserve_config(market, reserve), reserve_data(market, reserve))
                self.pools += len(market.reserves)
            rewards = BlendRewards(1, markets, {generation.label: around}, CLOSE_TIME)
            yield from ((key, entry.data) for key, entry in rewards.first_entries(markets, LEDGER))

    def _blend_market(self, around: Deployment, address: str, index: int) -> Market:
        turn = 2 * index + (around.generation is V1)  # the generations take turns in making
        size = self._reserves[index % len(self._reserves)]
        market = make_market(self._random, turn, size, self.tokens, self._oracles, CLOSE_TIME)
        market.address = address
        return market

    def _assets(self) -> Iterator[Entry]:
        for token in self.tokens:
            yield token.instance_entry()
        for oracle in self._oracles:
            yield oracle_instance(oracle.contract, oracle.decimals, oracle.durability)
        for feed in make_feeds(self._random, self._oracles, self.tokens, [token.price for token in self.tokens]):
            yield asset_entry(feed.oracle.contract, feed.token, None)
            yield feed.entry(CLOSE_TIME - 60)

    def _others(self) -> Iterator[Iterator[Entry]]:
        k2 = self._k2()
        for part in (self._alula(), k2, self._peridot(), self._xoxno()):
            yield ((key, entry.data) for key, entry in part.first_entries(LEDGER, CLOSE_TIME))
        unlisted = k2.markets[0].reserves[-1].asset
        yield iter([price_entry(k2.oracle, unlisted, 10**14, CLOSE_TIME - 60)])

    def _alula(self) -> AlulaMarkets:
        made = AlulaMarkets(1, 1, self.tokens, CLOSE_TIME)
        made.markets[0].address = self._only("alula")
        self.pools += len(made.markets[0].pools)
        return made

    def _k2(self) -> K2Markets:
        """Both of K2's markets, the first with a reserve that no list has, and without a price that has gone stale."""
        known = self._known["k2", "main"]
        tokens = {token.symbol: token for token in self.tokens}
        made = K2Markets(1, 2, list(tokens.values()), CLOSE_TIME)
        made.stale = ""
        market, earn = made.markets
        market.address, market.rates = self._only("k2"), str(known.address("interest_rate"))
        listed = self._known["k2", "earn"]
        (earn.address,), earn.rates = listed.markets, str(listed.address("interest_rate"))
        earn.reserves[0].a_token = str(listed.address("a_token"))
        earn.reserves[0].debt_token = str(listed.address("debt_token"))
        self.markets["k2"].add(earn.address)
        self.pools += len(earn.reserves)
        for reserve, a_token, debt_token in zip(
            market.reserves, known.addresses("a_token"), known.addresses("debt_token"), strict=True
        ):
            reserve.a_token, reserve.debt_token = a_token, debt_token
        token = next(item for item in self.tokens if all(item.contract != each.asset for each in market.reserves))
        a_token, debt_token = (contract(label) for label in _UNLISTED_RESERVE)
        unlisted = Reserve(
            token.contract, token.symbol, token.decimals, a_token, debt_token, CLOSE_TIME - 500, len(market.reserves)
        )
        unlisted.supply_scaled = unlisted.cash = 5 * 10**9
        made.tokens[token.contract] = token
        market.reserves.append(unlisted)
        self.pools += len(market.reserves)
        return made

    def _peridot(self) -> PeridotMarkets:
        main, pilot = (known for (protocol, _), known in self._known.items() if protocol == "peridot")
        made = PeridotMarkets(1, 2, self.tokens, CLOSE_TIME)
        made.models = tuple(  # type: ignore[assignment]
            replace(model, address=address)
            for model, address in zip(made.models, main.addresses("rate model"), strict=True)
        )
        made.oracle = str(main.address("oracle"))
        for market, known in zip(made.markets, (main, pilot), strict=True):
            market.oracle = made.oracle
            (market.address,) = known.markets
            self.markets.setdefault("peridot", set()).add(market.address)
            market.borrowing_paused.clear()
            boosts = iter(known.addresses("boosted vault"))
            for place, (vault, address) in enumerate(zip(market.vaults, known.addresses("vault"), strict=True)):
                vault.address, vault.controller, vault.model = address, market.address, made.models[min(place, 1)]
                if vault.boost is not None:
                    vault.boost.address = next(boosts)
            self.pools += len(market.vaults)
        return made

    def _xoxno(self) -> XoxnoMarkets:
        known = self._known["xoxno", "main"]
        made = XoxnoMarkets(1, 0, self.tokens, CLOSE_TIME)
        made.controller, made.pool = self._only("xoxno"), str(known.address("pool"))
        made.aggregator = str(known.address("price_aggregator"))
        made.stale = made.unpriced = made.deviating = ""
        for listed in known.pools:
            hub, decimals = int(listed.pool.split("-")[0]), listed.decimals or 7
            market = HubMarket(hub, listed.token, decimals, last_timestamp=(CLOSE_TIME - 86_400) * 1_000)
            market.supply(1_000 * 10**decimals)
            market.borrow(400 * 10**decimals)
            made.markets.append(market)
        self.pools += len(made.markets)
        return made

    def _slender(self) -> SlenderMarkets:
        made = SlenderMarkets(1, 1, self.tokens, CLOSE_TIME, archived=1)
        made.markets[0].address = self._only("slender")
        (listed,) = self._known["slender", "main"].contracts
        made.markets[0].wasm_hash = bytes.fromhex(listed.wasm_hash or "")
        del self.markets["slender"]  # it cannot be read
        return made

    def _only(self, protocol: str) -> str:
        """The one market that the list of a protocol has."""
        known: Known = self._known[protocol, "main"]
        (address,) = known.markets
        self.markets[protocol] = {address}
        return address


def bare_instance(address: str, code: bytes) -> Entry:
    """The instance of a contract that has some code and nothing else."""
    value = (scval.CONTRACT_INSTANCE, ContractInstance(scval.WASM, code, None, ()))
    return data_key(address, INSTANCE_KEY), encode_contract_data(ContractData(address, INSTANCE_KEY, 1, value))
