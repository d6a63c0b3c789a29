"""The values of a run with which the next run compares its own, and the file that keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import polars as pl
from msgspec import Struct
from msgspec.structs import asdict, replace

from exporter.best import MIN_VALUE_CENTS
from exporter.deployments.networks import native_contract
from exporter.protocols.base import NOBODY, Parameter
from exporter.protocols.compute import Tables
from exporter.render.carried_values import carried_values
from exporter.render.lists import common_symbols
from exporter.render.run_documents import pending_change
from exporter.render.site.text import fixed_point
from exporter.tables import pool_keys
from exporter.tree.documents import (
    EXPORTER_VERSION,
    WatchedMarket,
    WatchedPending,
    WatchedPool,
    WatchedUnread,
    WatchedValue,
    WatchedValues,
    encode,
)
from exporter.tree.families import WATCHED
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.values import RewardReason

SOON_SECONDS = 86_400
"""Time to the end of a reward within which it ends soon."""

GATES = ("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate")

_NOT_PAID = {RewardReason.NONE: "none", RewardReason.NO_EMISSIONS: "none", RewardReason.EXPIRED: "none"} | {
    RewardReason.NOT_FUNDED: "not_funded",
    RewardReason.UNREAD: None,
    RewardReason.NOT_READ: None,
}


def watched_values(tables: Tables, network: str, before: WatchedValues | None) -> WatchedValues:
    """The values of a run of a network, given by its passphrase, with which the next run compares its own.

    ``before`` are those of the previous run, of which this run hands on what it did not read; None if it is compared
    with none.
    """
    about = ("market", "protocol", "name", "status", "config_hash", "listed")
    held = _values_by_market(tables)
    markets = [
        WatchedMarket(**row, values=held[row["market"]]) for row in tables.markets.select(about).iter_rows(named=True)
    ]
    unread = sorted((item.market, item.protocol, item.pool or "", item.reason) for item in tables.unread)
    own = WatchedValues(
        observed_ledger=tables.ledger,
        exporter_version=EXPORTER_VERSION,
        markets=markets,
        pools=watched_pools(tables, native_contract(network)),
        unread=[WatchedUnread(market, protocol, pool or None, reason) for market, protocol, pool, reason in unread],
        pending=[WatchedPending(**asdict(pending_change(item)), market=item.market) for item in tables.pending],
    )
    if before is None:
        return own
    return replace(own, carried=carried_values(before, own, {item.market for item in tables.skipped}))


def leaves_gaps(tables: Tables) -> bool:
    """Whether a run did not read everything, so that it hands on values of earlier runs."""
    return bool(tables.unread or tables.skipped)


class WatchedFile(Struct, frozen=True):
    """Watched values, and their file, whose key has its digest."""

    values: WatchedValues
    file: RenderedFile

    @classmethod
    def of(cls, values: WatchedValues) -> WatchedFile:
        data = encode(values)
        key = WATCHED.key(sha256=hashlib.sha256(data).hexdigest())
        return cls(values, RenderedFile(key, data, FileKind.PAGE))


def watched_pools(tables: Tables, native: str | None) -> list[WatchedPool]:
    """The watched values of each pool. ``native`` is the contract of the native asset; None if it is not known."""
    worth = pl.col("tvl_usd_cents") >= MIN_VALUE_CENTS
    columns = tables.pools.select(
        "market",
        "pool",
        pl.Series("symbol", common_symbols(tables.pools, native), pl.String),
        "pool_status",
        "utilization_bps",
        *GATES,
        "archived",
        "oracle_price_usd",
        *(pl.when(worth).then(pl.col(f"{side}_apy_bps")) for side in ("supply", "borrow")),
        *(_reward(side, tables.close_time) for side in ("supply", "borrow")),
        *(_cap(side) for side in ("supply", "borrow")),
        pl.col("total_supplied", "total_borrowed").cast(pl.String),
    )
    parameters = (dict(_watched_parameters(tables.parameters.get(pool, ()))) for pool in pool_keys(tables.pools))
    return [
        replace(WatchedPool(*row), parameters=parameters_of_pool)
        for row, parameters_of_pool in zip(columns.iter_rows(), parameters, strict=True)
    ]


def _values_by_market(tables: Tables) -> Mapping[str, list[WatchedValue]]:
    """The values of each market that are compared: its code, its oracle's address, and what its protocol adds."""
    rows = tables.markets.select("market", "wasm_hash", "oracle").iter_rows()
    values = {
        market: [WatchedValue("code", "market", code or NOBODY), WatchedValue("oracle", "oracle", oracle or NOBODY)]
        for market, code, oracle in rows
    }
    for market, pools in _pools_with_frozen_keys(tables).items():
        values[market].append(WatchedValue("frozen", "pools with frozen keys", pools))
    for item in tables.controls:
        if item.market in values:
            values[item.market].append(WatchedValue(item.kind, item.subject, item.value))
    return values


def _pools_with_frozen_keys(tables: Tables) -> Mapping[str, str]:
    """The pools of each market that need a key which the network froze, as text."""
    texts: dict[str, str] = {}
    for market in tables.markets["market"]:
        pools = sorted(pool for (address, pool) in tables.frozen if address == market)
        texts[market] = ", ".join(pools) or "none"
    return texts


class _WatchedParameter(NamedTuple):
    """A parameter's name, and its value as text."""

    name: str
    value: str


def _watched_parameters(parameters: Iterable[Parameter]) -> Iterator[_WatchedParameter]:
    """The parameters that are compared one by one. Caps are left out, because they are watched values of the pool."""
    for item in parameters:
        if not item.name.endswith("_cap"):
            value = "no limit" if item.no_limit else fixed_point(item.value, item.decimals)
            yield _WatchedParameter(item.name, value)


def _reward(side: str, time: int) -> pl.Expr:
    reason, end = pl.col(f"{side}_reward_reason"), pl.col(f"{side}_reward_expiration")
    lasts = pl.when(end - time <= SOON_SECONDS).then(pl.lit("ends_soon")).otherwise(pl.lit("paid"))
    return (
        pl.when(reason.is_in([str(each) for each in _NOT_PAID]))
        .then(reason.replace_strict({str(each): state for each, state in _NOT_PAID.items()}, default=None))
        .otherwise(lasts)
        .alias(f"{side}_reward")
    )


def _cap(side: str) -> pl.Expr:
    cap = pl.col(f"{side}_cap").cast(pl.String).fill_null("none")
    return pl.when(pl.col("risk_scope").is_not_null()).then(cap).alias(f"{side}_cap")
