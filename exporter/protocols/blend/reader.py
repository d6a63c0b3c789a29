"""Reading every Blend pool: which keys, in which waves, and what becomes of each that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporter.deployments import Deployment
from exporter.errors import DecodeError
from exporter.ledger.entries import instance_key
from exporter.ledger.observation import Entry
from exporter.ledger.tokens import Token, read_tokens
from exporter.ledger.view import LedgerView
from exporter.protocols.base import Candidate, Market, ProtocolReading
from exporter.protocols.blend.layout import (
    SETUP,
    PoolInstance,
    config_hash,
    decode_instance,
    decode_reserve,
    decode_reserve_list,
    decode_reward_zone,
    form_of_reserve,
    market_keys,
    reserve_config_key,
    reserve_data_key,
    reward_zone_key,
    shown_parameters,
)
from exporter.protocols.collector import Collector

NAME = "blend"
Entries = Mapping[bytes, Entry | None]
_SHOWN = 10  # addresses in one notice

COLUMNS = (
    "market", "pool", "token_address", "oracle", "generation", "market_name", "market_status", "wasm_hash", "decimals",
    "enabled", "bstop_rate", "util", "r_base", "r_one", "r_two", "r_three", "reactivity", "b_rate", "b_supply",
    "d_rate", "d_supply", "ir_mod", "backstop_credit", "last_time",
)  # fmt: skip


class _Reader(Collector):
    """One reading of Blend."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__(NAME, candidates, COLUMNS)
        self.instances: dict[str, PoolInstance] = {}
        self.assets: dict[str, tuple[str, ...]] = {}

    def take_market(self, market: str, entries: Entries) -> None:
        """Decode a market's instance and list of reserves, or say why it is not read."""
        instance_entry, list_entry = (entries[key] for key in market_keys(market))
        if not self.market_is_usable(market, instance_entry, list_entry, "list of reserves"):
            return
        assert instance_entry is not None  # or it would not be usable
        try:
            instance = decode_instance(instance_entry)
            self.assets[market] = decode_reserve_list(list_entry)
        except DecodeError as error:
            self.unread(market, None, "undecodable", str(error))
            return
        if not instance.known_code:
            self.notice(
                f"market {market} runs contract code {instance.wasm_hash}, which is not a known Blend pool; its "
                f"entries have the form of {instance.generation} and were read as such"
            )
        if list_entry is None and instance.status != SETUP:
            self.notice(
                f"market {market} is {instance.status} and has no list of reserves, which only one in {SETUP} should "
                "lack; it was read as one without pools"
            )
        self.instances[market] = replace(instance, name=self.shown_name(market, instance.name))

    def take_reserves(self, market: str, entries: Entries) -> None:
        """Decode a market's reserves; one that cannot be read does not cost the others."""
        instance, assets = self.instances[market], self.assets[market]
        configs = [entries[reserve_config_key(market, asset)] for asset in assets]
        self.reading.markets.append(
            Market(
                address=market,
                protocol=NAME,
                version=instance.generation,
                name=instance.name,
                status=instance.status,
                oracle=instance.oracle,
                config_hash=config_hash(instance, assets, configs),
                wasm_hash=instance.wasm_hash,
                members=assets,
            )
        )
        for asset, config in zip(assets, configs, strict=True):
            data = entries[reserve_data_key(market, asset)]
            for entry, what in ((config, "ResConfig"), (data, "ResData")):
                if entry is None:
                    self.unread(market, asset, "absent", f"the reserve's {what} entry is missing")
                    break
                if entry.archived:
                    self.unread(
                        market, asset, "archived", f"the reserve's {what} entry is archived; it can be restored"
                    )
                    break
            else:
                self.take_reserve(market, asset, config, data)

    def take_reserve(self, market: str, asset: str, config: Entry | None, data: Entry | None) -> None:
        """Append one reserve to the columns."""
        assert config is not None  # the caller has looked
        assert data is not None
        instance = self.instances[market]
        try:
            form = form_of_reserve(config)
            reserve = decode_reserve(config, data)
        except DecodeError as error:
            self.unread(market, asset, "undecodable", str(error))
            return
        if form != instance.generation:  # their scales differ, so numbers of the one are wrong in the other
            detail = f"its ResConfig has the form of {form}, but the market is of {instance.generation}"
            self.unread(market, asset, "inconsistent", detail)
            return
        self.compare_decimals(market, reserve["decimals"], self.reading.tokens.get(asset))
        self.append(
            {
                "market": market,
                "pool": asset,
                "token_address": asset,
                "oracle": instance.oracle,
                "generation": instance.generation,
                "market_name": instance.name,
                "market_status": instance.status,
                "wasm_hash": instance.wasm_hash,
                "bstop_rate": instance.backstop_rate,
                **reserve,
            }
        )
        self.reading.parameters[market, asset] = shown_parameters(instance, config)


async def read_pools(
    view: LedgerView, candidates: Sequence[Candidate], deployments: Sequence[Deployment]
) -> ProtocolReading:
    """Read all Blend pools in four waves: zones and markets, markets the zones name, reserves and tokens, prices.

    Raises `SourceError` when the source fails; anything wrong with one market or reserve is in the reading.
    """
    reader = _Reader(candidates)
    markets = list(dict.fromkeys(candidate.address for candidate in candidates))
    backstops = [deployment.backstop for deployment in deployments if deployment.backstop is not None]
    zone_keys = [reward_zone_key(backstop) for backstop in backstops]
    entries = dict(await view.read([*zone_keys, *_keys_of_markets(markets)]))
    found: dict[str, None] = {}
    for backstop, key in zip(backstops, zone_keys, strict=True):
        try:
            zone = decode_reward_zone(entries[key])
        except DecodeError as error:
            reader.notice(f"the reward zone of backstop {backstop} cannot be decoded: {error}")
            continue
        found |= dict.fromkeys(address for address in zone if address.startswith("C"))
        strangers = [address for address in zone if not address.startswith("C")]
        if strangers:
            reader.notice(
                f"the reward zone of backstop {backstop} lists {len(strangers)} addresses that are no contract, "
                f"{strangers[0]} first"
            )
    more = sorted(found.keys() - set(markets))
    entries |= await view.read(_keys_of_markets(more))
    for market in sorted({*markets, *more}):
        reader.take_market(market, entries)
    missing = sorted(found.keys() & {item.market for item in reader.reading.absent})
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
        reader.notice(f"reward zones list {len(missing)} markets that have no contract in what was read: {shown}")

    reserves = [(market, asset) for market in reader.instances for asset in reader.assets[market]]
    tokens = list(dict.fromkeys(asset for _, asset in reserves))
    busy_first = [reserve_data_key(*reserve) for reserve in reserves]
    quiet = [reserve_config_key(*reserve) for reserve in reserves]
    reserve_entries, reader.reading.tokens = await _read_together(view, busy_first + quiet, tokens)
    for market in reader.instances:
        reader.take_reserves(market, reserve_entries)

    await reader.read_quotes(view)
    return reader.reading


def _keys_of_markets(markets: Sequence[str]) -> list[bytes]:
    return [key for market in markets for key in market_keys(market)]


async def _read_together(view: LedgerView, keys: list[bytes], tokens: list[str]) -> tuple[Entries, Mapping[str, Token]]:
    """The reserves' entries and the tokens, in as few requests as both together need."""
    await view.read([*keys, *(instance_key(token) for token in tokens)])
    return await view.read(keys), await read_tokens(view, tokens)
