"""Changes of a pool's numbers: its price, rates, rewards and caps. `exporter.render.changes` has the rest."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from exporter.best import LEAST_VALUE
from exporter.protocols.compute import Tables
from exporter.tree.documents import WatchedPool
from exporter.tree.values import RewardReason

RATE_MOVE_BPS = 500
"""How far a yield moves from one run to the next before that is a change."""

SOON_SECONDS = 86_400
"""A reward that ends within this ends soon."""

FILLED_PERMILLE = 999
"""Part of a cap from which on it is filled: the last base units of one are never used."""

GATES = ("can_supply", "can_withdraw", "can_borrow", "can_repay", "can_liquidate")

UNITS = {
    "utilization": "basis_points",
    "price": "usd",
    **dict.fromkeys(("supply_rate", "borrow_rate"), "basis_points"),
    **dict.fromkeys(("supply_cap", "borrow_cap", "supply_cap_filled", "borrow_cap_filled"), "base_units"),
}
"""Of the two values of a change, by its kind; those of other kinds are words."""

_REWARDS = {
    "paid": "{} are paid a reward",
    "ends_soon": "the reward of {} ends within a day",
    "not_funded": "the reward of {} is not funded",
    "none": "the reward of {} ended",
}
_NOT_PAID = {RewardReason.NONE: "none", RewardReason.NO_EMISSIONS: "none", RewardReason.EXPIRED: "none"} | {
    RewardReason.NOT_FUNDED: "not_funded",
    RewardReason.UNREAD: None,
    RewardReason.NOT_READ: None,
}

Fact = tuple[str, str, str | None, str | None]
"""Kind, title, before and after."""


def watched_pools(tables: Tables) -> list[WatchedPool]:
    """The facts of each pool that the next run compares."""
    worth = pl.col("tvl_usd_cents") >= LEAST_VALUE
    columns = tables.pools.select(
        "market",
        "pool",
        "symbol",
        "pool_status",
        "utilization_bps",
        *GATES,
        "oracle_price_usd",
        *(pl.when(worth).then(pl.col(f"{side}_apy_bps")) for side in ("supply", "borrow")),
        *(_reward(side, tables.close_time) for side in ("supply", "borrow")),
        *(_cap(side) for side in ("supply", "borrow")),
        pl.col("total_supplied", "total_borrowed").cast(pl.String),
    )
    return [WatchedPool(*row) for row in columns.iter_rows()]


def changed_numbers(old: WatchedPool, new: WatchedPool) -> Iterator[Fact]:
    """Changes of a pool's numbers. A number that was or is not known is not a change."""
    if (old.oracle_price_usd is None) != (new.oracle_price_usd is None):
        said = "it has no price" if new.oracle_price_usd is None else "it has a price"
        yield "price", said, old.oracle_price_usd, new.oracle_price_usd
    sides = (("supply", "suppliers", "get", "supplied"), ("borrow", "borrowers", "pay", "borrowed"))
    for side, people, verb, done in sides:
        was, rate = (getattr(pool, f"{side}_apy_bps") for pool in (old, new))
        if None not in (was, rate) and abs(rate - was) > RATE_MOVE_BPS:
            said = f"{people} {verb} {_percent(rate)}, {'up' if rate > was else 'down'} from {_percent(was)}"
            yield f"{side}_rate", said, str(was), str(rate)
        paid, pays = (getattr(pool, f"{side}_reward") for pool in (old, new))
        if None not in (paid, pays) and paid != pays and (paid, pays) != ("ends_soon", "paid"):
            yield f"{side}_reward", _REWARDS[pays].format(people), paid, pays
        capped, cap = (getattr(pool, f"{side}_cap") for pool in (old, new))
        if None in (capped, cap):
            continue
        if capped != cap:
            raised = cap == "none" or (capped != "none" and int(cap) > int(capped))
            yield f"{side}_cap", f"the {side} cap was {'raised' if raised else 'lowered'}", capped, cap
        before, after = (getattr(pool, f"total_{done}") for pool in (old, new))
        if _filled(after, cap) and not _filled(before, capped):
            yield f"{side}_cap_filled", f"the {side} cap is filled", before, after


def _reward(side: str, time: int) -> pl.Expr:
    reason, end = pl.col(f"{side}_reward_reason"), pl.col(f"{side}_reward_expiration")
    lasts = pl.when(end - time <= SOON_SECONDS).then(pl.lit("ends_soon")).otherwise(pl.lit("paid"))
    return (
        pl.when(reason.is_in([str(known) for known in _NOT_PAID]))
        .then(reason.replace_strict({str(known): said for known, said in _NOT_PAID.items()}, default=None))
        .otherwise(lasts)
        .alias(f"{side}_reward")
    )


def _cap(side: str) -> pl.Expr:
    cap = pl.col(f"{side}_cap").cast(pl.String).fill_null("none")
    return pl.when(pl.col("risk_scope").is_not_null()).then(cap).alias(f"{side}_cap")


def _filled(total: str, cap: str) -> bool:
    return cap not in ("none", "0") and int(total) * 1_000 >= int(cap) * FILLED_PERMILLE


def _percent(bps: int) -> str:
    return f"{bps // 100}.{bps % 100:02} %"
