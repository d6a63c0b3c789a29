"""The ledger entries of XOXNO's contracts, and their events (facts/other-protocols.md 2.4 and 2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from exporter.deployments.local import made_address
from exporter.ledger import scval
from exporter.ledger.entries import PERSISTENT, ContractData, data_key, encode_contract_data
from exporter.ledger.events import ContractEvent
from exporter.ledger.scval import WASM, ContractInstance, ScVal
from exporter.ledger.scval_encode import INSTANCE_KEY, VOID, address, i128, string, struct_map, symbol, u32, u64, vec
from exporter.localnet.contracts import made_wasm, wasm_hash
from exporter.localnet.xoxno_pool import HubMarket

CONTROLLER_WASM = made_wasm("localnet xoxno controller")
CONTROLLER_WASM_HASH = wasm_hash(CONTROLLER_WASM)
POOL_WASM = made_wasm("localnet xoxno pool")
POOL_WASM_HASH = wasm_hash(POOL_WASM)
AGGREGATOR_WASM = made_wasm("localnet xoxno price aggregator")
AGGREGATOR_WASM_HASH = wasm_hash(AGGREGATOR_WASM)

Entry = tuple[bytes, bytes]
"""LedgerKey XDR and LedgerEntryData XDR."""

STATE_FIELDS = ("borrow_index", "borrowed", "cash", "revenue", "supplied", "supply_index")


@dataclass(frozen=True, slots=True)
class Source:
    """A feed among a token's one or two sources: its limit of age in seconds, and whether it follows a market."""

    max_age: int = 3_600
    market: bool = True


class Answer(NamedTuple):
    """What a source says: USD WAD of a whole token, and the time in unix seconds."""

    price: int
    time: int


def controller_instance(controller: str, pool: str, position_nft: str, aggregator: str, hubs: int) -> Entry:
    """The instance of a controller; every key is an enum variant."""
    storage = {
        "Accumulator": address(made_address("localnet xoxno accumulator")),
        "AppVersion": u32(1),
        "LastHubId": u32(hubs),
        "LastSpokeId": u32(2 * hubs),
        "MinBorrowCollateralUsd": i128(5 * 10**18),
        "Owner": address(made_address("localnet xoxno governance")),
        "Paused": (scval.BOOL, False),
        "Pool": address(pool),
        "PositionLimits": struct_map({"max_borrow_positions": u32(5), "max_supply_positions": u32(5)}),
        "PositionNft": address(position_nft),
        "PriceAggregator": address(aggregator),
        "SwapAggregator": address(made_address("localnet xoxno swap aggregator")),
    }
    return _instance(controller, CONTROLLER_WASM_HASH, storage)


def pool_instance(pool: str, controller: str) -> Entry:
    """The instance of the pool contract, which the controller owns."""
    return _instance(pool, POOL_WASM_HASH, {"Owner": address(controller)})


def aggregator_instance(aggregator: str, tokens: Iterable[str]) -> Entry:
    """The instance of the price aggregator, with the index of what it prices."""
    keys = vec(*(price_key(token) for token in tokens))
    return _instance(aggregator, AGGREGATOR_WASM_HASH, {"OracleKeys": keys})


def hub_asset_key(market: HubMarket) -> ScVal:
    """`HubAssetKey`."""
    return struct_map({"asset": address(market.token), "hub_id": u32(market.hub)})


def parameters_entry(pool: str, market: HubMarket) -> Entry:
    """``Params`` of a hub market."""
    return _entry(pool, vec(symbol("Params"), hub_asset_key(market)), parameters_value(market))


def state_entry(pool: str, market: HubMarket) -> Entry:
    """``State`` of a hub market."""
    return _entry(pool, vec(symbol("State"), hub_asset_key(market)), state_value(market))


def parameters_value(market: HubMarket) -> ScVal:
    """The struct of a ``Params`` entry: the thirteen fields of facts/other-protocols.md 2.4."""
    fields: dict[str, ScVal] = {}
    for name, value in asdict(market.params).items():
        if isinstance(value, bool):
            fields[name] = (scval.BOOL, value)
        else:
            fields[name] = u32(value) if name in ("reserve_factor", "flashloan_fee") else i128(value)
    return struct_map(fields | {"asset_decimals": u32(market.decimals), "asset_id": address(market.token)})


def state_value(market: HubMarket) -> ScVal:
    """The struct of a ``State`` entry."""
    fields = {name: i128(getattr(market, name)) for name in STATE_FIELDS}
    return struct_map(fields | {"last_timestamp": u64(market.last_timestamp)})


def price_key(token: str) -> ScVal:
    """``PriceKey::Token``."""
    return vec(symbol("Token"), address(token))


def oracle_key(token: str) -> ScVal:
    """The key of the entry with how a token is priced."""
    return vec(symbol("Oracle"), price_key(token))


def answers_key(token: str) -> ScVal:
    """The key of a made entry; see `answers_entry`."""
    return vec(symbol("Answers"), price_key(token))


def oracle_entry(
    aggregator: str, token: str, decimals: int, sources: Sequence[Source], max_age: int, upper_ratio_bps: int = 11_000
) -> Entry:
    """``AssetOracle`` of a token: one or two feeds, and a limit of age in seconds for all of them."""
    feeds = (
        struct_map(
            {
                "decimals": u32(8),
                "max_stale_seconds": u64(source.max_age),
                "provider": vec(
                    symbol("RedStone"),
                    struct_map(
                        {
                            "contract": address(made_address("localnet xoxno feeds")),
                            "feed_id": string(token[:8]),
                            "nature": vec(symbol("Market" if source.market else "Fundamental")),
                        }
                    ),
                ),
            }
        )
        for source in sources
    )
    value = struct_map(
        {
            "asset_decimals": u32(decimals),
            "independence": vec(symbol("RequireDisjoint")),
            "max_price_stale_seconds": u64(max_age),
            "max_sanity_price_wad": i128(10**27),
            "min_sanity_price_wad": i128(1),
            "sources": vec(*(vec(symbol("Feed"), feed) for feed in feeds)),
            "tolerance": struct_map({"lower_ratio_bps": u32(9_091), "upper_ratio_bps": u32(upper_ratio_bps)}),
        }
    )
    return _entry(aggregator, oracle_key(token), value)


def answers_entry(aggregator: str, token: str, answers: Sequence[Answer | None]) -> Entry:
    """What a token's sources say, in their order; the real contract asks others for it, here one entry has it."""
    said = (
        VOID if item is None else struct_map({"price_wad": i128(item.price), "timestamp": u64(item.time)})
        for item in answers
    )
    return _entry(aggregator, answers_key(token), vec(*said))


def created_event(controller: str, pool: str, market: HubMarket, ledger: int) -> ContractEvent:
    """What the controller publishes when a hub market is created."""
    rates = (
        "base_borrow_rate", "max_borrow_rate", "mid_utilization", "optimal_utilization", "slope1", "slope2", "slope3",
    )  # fmt: skip
    fields = {name: i128(getattr(market.params, name)) for name in rates}
    fields |= {"base_asset": address(market.token), "hub_id": u32(market.hub), "market_address": address(pool)}
    return ContractEvent(controller, ledger, (symbol("market"), symbol("create")), struct_map(fields))


def parameters_event(pool: str, markets: Sequence[HubMarket], ledger: int) -> ContractEvent:
    """What the pool publishes when parameters are set."""
    items = [
        struct_map({"asset": address(item.token), "hub_id": u32(item.hub), "params": parameters_value(item)})
        for item in markets
    ]
    return ContractEvent(pool, ledger, (symbol("market"), symbol("batch_params_update")), vec(*items))


def state_event(pool: str, markets: Sequence[HubMarket], ledger: int) -> ContractEvent:
    """What the pool publishes after each change: the whole state of each hub market concerned."""
    order = ("supply_index", "borrow_index", "cash", "supplied", "borrowed", "revenue")
    items = [
        vec(
            u32(item.hub),
            address(item.token),
            u64(item.last_timestamp),
            *(i128(getattr(item, name)) for name in order),
        )
        for item in markets
    ]
    return ContractEvent(pool, ledger, (symbol("market"), symbol("batch_state_update")), vec(*items))


def _instance(contract: str, wasm: bytes, storage: dict[str, ScVal]) -> Entry:
    pairs = tuple((vec(symbol(name)), storage[name]) for name in sorted(storage))
    return _entry(contract, INSTANCE_KEY, (scval.CONTRACT_INSTANCE, ContractInstance(WASM, wasm, None, pairs)))


def _entry(contract: str, key: ScVal, value: ScVal) -> Entry:
    return data_key(contract, key, PERSISTENT), encode_contract_data(ContractData(contract, key, PERSISTENT, value))
