"""``/v1/yields/pools`` and ``/v1/yields/borrow``: the pools in DefiLlama's shape, for whatever reads that.

Field names, units and rules are theirs (docs/integrators.md): US dollars and percent as JSON numbers, pools without a
price left out, the value of a pool without what is lent out of it. The numbers are printed from exact integers. A pool
that its contract has closed to suppliers is left out of the pools, and so are all but the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any

import msgspec
import polars as pl

from exporter.tree.families import YIELDS
from exporter.tree.files import FileKind, RenderedFile

CHAIN = "Stellar"

PROJECTS = {("blend", "v1"): "blend-pools", ("blend", "v2"): "blend-pools-v2", ("blend", "v2.1"): "blend-pools-v2"}
"""Their names of projects, by protocol and version; a protocol without one has its own name."""

MOST_POOLS = 2_000
"""The most pools in one file, those with the most supplied: their shape has no pages."""

_COLUMNS = (
    "market",
    "pool",
    "protocol",
    "version",
    "symbol",
    "market_name",
    "pool_label",
    "app_url",
    "token_address",
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "supply_apy_bps",
    "borrow_apy_bps",
    "supply_reward_apr_bps",
    "borrow_reward_apr_bps",
    "reward_token",
    "mean_supply_apy_bps_30d",
    "collateral_factor_bps",
    "can_borrow",
    "supply_cap_usd_cents",
    "borrow_cap_usd_cents",
    "available_usd_cents",
    "available_to_borrow_usd_cents",
)

_Row = Mapping[str, Any]


def render_yields(rows: pl.DataFrame, native: str | None) -> Iterator[RenderedFile]:
    """Both files, of the rows of ``/v1/pools``; ``native`` is the native asset's contract, None where any may be it."""
    is_native = pl.col("symbol") == "native"
    if native is not None:
        is_native &= pl.col("token_address") == native
    rows = rows.with_columns(pl.when(is_native).then(pl.lit("XLM")).otherwise("symbol").alias("symbol"))
    priced = rows.select(*_COLUMNS, "can_supply").filter(pl.col("supplied_usd_cents").is_not_null())
    offers: dict[str, tuple[pl.DataFrame, Callable[[_Row], Mapping[str, object]]]] = {
        "pools": (priced.filter(pl.col("can_supply").fill_null(value=True)), _pool),
        "borrow": (priced, _borrow),
    }
    encode = msgspec.json.Encoder().encode
    for name, (shown, shape) in offers.items():
        data = BytesIO()
        data.write(b'{"status":"success","data":[')
        worth = shown["supplied_usd_cents"].cast(pl.Int128)
        largest = shown.filter(worth.rank("ordinal", descending=True) <= MOST_POOLS)  # equal ones in their order
        for number, row in enumerate(largest.select(_COLUMNS).iter_rows(named=True)):
            data.write(b"," + encode(shape(row)) if number else encode(shape(row)))
        data.write(b"]}")
        yield RenderedFile(YIELDS.key(yields=name), data.getvalue(), FileKind.DOCUMENT)


def _pool(row: _Row) -> Mapping[str, object]:
    reward = row["supply_reward_apr_bps"] or 0
    return {
        **_head(row),
        "tvlUsd": hundredths(max(_cents(row["supplied_usd_cents"]) - _cents(row["borrowed_usd_cents"]), 0)),
        "apyBase": hundredths(row["supply_apy_bps"]),
        "apyReward": hundredths(reward) if reward else None,
        "apy": hundredths(row["supply_apy_bps"] + reward),
        "rewardTokens": [row["reward_token"]] if reward else None,
        "apyMean30d": None if row["mean_supply_apy_bps_30d"] is None else hundredths(row["mean_supply_apy_bps_30d"]),
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
        "totalSupplyUsd": hundredths(_cents(row["supplied_usd_cents"])),
        "totalBorrowUsd": hundredths(_cents(row["borrowed_usd_cents"])),
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


def _cents(text: str | None) -> int:
    return 0 if text is None else int(text)


def _known(name: str, cents: str | None) -> dict[str, object]:
    """US dollars, left out where there is no number: their tests refuse a null."""
    return {} if cents is None else {name: hundredths(int(cents))}


def hundredths(value: int) -> msgspec.Raw:
    """A number of hundredths as a JSON number: cents as dollars, basis points as percent."""
    return _decimal(value, 2)


def _decimal(value: int, places: int) -> msgspec.Raw:
    whole, part = divmod(value, 10**places)
    text = f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".")
    return msgspec.Raw(text.encode())
