"""``/v1/yields/pools`` and ``/v1/yields/borrow``: the pools in DefiLlama's shape, for whatever reads that.

Field names, units and rules are theirs (docs/integrators.md): US dollars and percent as JSON numbers, pools without a
price left out, the value of a pool without what is lent out of it. The numbers are printed from exact integers. A pool
that its contract has closed to suppliers is left out of the pools, and so are all but the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import polars as pl

from exporter.tree.documents import encode
from exporter.tree.families import YIELDS
from exporter.tree.files import FileKind, RenderedFile

CHAIN = "Stellar"

PROJECTS = {("blend", "v1"): "blend-pools", ("blend", "v2"): "blend-pools-v2", ("blend", "v2.1"): "blend-pools-v2"}
"""Their names of projects, by protocol and version; a protocol without one has its own name."""

MOST_POOLS = 2_000
"""The most pools in one file, those with the most supplied: their shape has no pages."""

_Row = Mapping[str, Any]


def render_yields(pools: pl.DataFrame, native: str | None) -> Iterator[RenderedFile]:
    """Both files.

    Args:
        pools: as `exporter.render.pool_lists.listed_pools` gives them.
        native: the native asset's contract, None where any may be it.
    """
    is_native = pl.col("symbol") == "native"
    if native is not None:
        is_native &= pl.col("token_address") == native
    priced = pools.filter(pl.col("supplied_usd_cents").is_not_null()).with_columns(
        pl.when(is_native).then(pl.lit("XLM")).otherwise("symbol").alias("symbol")
    )
    offers: dict[str, tuple[pl.DataFrame, Callable[[_Row], Mapping[str, object]]]] = {
        "pools": (priced.filter(pl.col("can_supply").fill_null(value=True)), _pool),
        "borrow": (priced, _borrow),
    }
    for name, (shown, shape) in offers.items():
        rank = pl.col("supplied_usd_cents").rank("ordinal", descending=True)  # equal ones in their order
        largest = shown.filter(rank <= MOST_POOLS)
        data = encode({"status": "success", "data": [shape(row) for row in largest.iter_rows(named=True)]})
        yield RenderedFile(YIELDS.key(yields=name), data, FileKind.DOCUMENT)


def _pool(row: _Row) -> Mapping[str, object]:
    reward, mean = row["supply_reward_apr_bps"] or 0, row["mean_supply_apy_bps_30d"]
    return {
        **_head(row),
        "tvlUsd": hundredths(max(row["supplied_usd_cents"] - row["borrowed_usd_cents"], 0)),
        "apyBase": hundredths(row["supply_apy_bps"]),
        "apyReward": hundredths(reward) if reward else None,
        "apy": hundredths(row["supply_apy_bps"] + reward),
        "rewardTokens": [row["reward_token"]] if reward else None,
        "apyMean30d": None if mean is None else hundredths(mean),
        **_known("supplyCapUsd", row["supply_cap_usd_cents"]),
        "ilRisk": "no",
        "exposure": "single",
    }


def _borrow(row: _Row) -> Mapping[str, object]:
    reward = row["borrow_reward_apr_bps"] or 0
    factor = row["collateral_factor_bps"]
    room = row["available_to_borrow_usd_cents" if row["can_borrow"] else "available_usd_cents"]
    return {
        **_head(row),
        "apyBaseBorrow": hundredths(row["borrow_apy_bps"]),
        "apyRewardBorrow": hundredths(reward) if reward else None,
        "rewardTokens": [row["reward_token"]] if reward else None,
        "totalSupplyUsd": hundredths(row["supplied_usd_cents"]),
        "totalBorrowUsd": hundredths(row["borrowed_usd_cents"]),
        # They ask not to give 0 only because borrowing is closed.
        **_known("availableBorrowUsd", room),
        **_known("debtCeilingUsd", row["borrow_cap_usd_cents"]),
        **({} if factor is None else {"ltv": _decimal(min(factor, 10_000), 4)}),
        "borrowable": row["can_borrow"],
    }


def _head(row: _Row) -> dict[str, object]:
    return {
        "chain": CHAIN,
        "project": PROJECTS.get((row["protocol"], row["version"]), row["protocol"]),
        "symbol": row["symbol"],
        "pool": f"{row['market']}-{row['pool']}-{CHAIN}".lower(),
        "poolMeta": " ".join(filter(None, (row["market_name"], row["pool_label"]))),
        "url": row["app_url"],
        "underlyingTokens": [row["token_address"]],
    }


def _known(name: str, cents: int | None) -> dict[str, object]:
    """US dollars, left out where there is no number: their tests refuse a null."""
    return {} if cents is None else {name: hundredths(cents)}


def hundredths(value: int) -> msgspec.Raw:
    """A number of hundredths as a JSON number: cents as dollars, basis points as percent."""
    return _decimal(value, 2)


def _decimal(value: int, places: int) -> msgspec.Raw:
    whole, part = divmod(value, 10**places)
    text = f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".")
    return msgspec.Raw(text.encode())
