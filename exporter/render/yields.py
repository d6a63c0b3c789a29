"""Renders ``/v1/yields/pools`` and ``/v1/yields/borrow``: pools in the shape of DefiLlama (docs/integrators.md).

Numbers are printed from exact integers. Both files have only pools of listed markets, because readers of this shape
rank by its numbers. Insolvent pools are left out, because the shape cannot mark them. A pool that its contract has
closed to suppliers is left out of the first file. Both have only the largest pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal

import msgspec
import polars as pl
from msgspec import UNSET, Struct, UnsetType, field

from exporter.best import is_insolvent
from exporter.exact import short_decimal_text
from exporter.protocols.protocol import Protocol
from exporter.render.lists import ListedPool, common_symbols
from exporter.tables import rows_as
from exporter.tree.documents import encode
from exporter.tree.families import YIELDS
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.values import doc

CHAIN = "Stellar"

MAX_POOLS = 2_000
"""Largest number of pools in a file, because the shape has no pages. Those with the most supplied are taken."""


class _OfferedPool(ListedPool):
    """The row of a pool that is in one of the files."""

    project: str


# These models only describe the API. Files have their fields in another order.


class _YieldsRow(Struct, frozen=True, rename="camel"):
    chain: Annotated[str, doc("Always Stellar.")]
    project: Annotated[str, doc("DefiLlama's name of the protocol, or ours.")]
    symbol: Annotated[str, doc("The token's symbol; XLM for the native asset.")]
    pool: Annotated[str, doc("Market, pool and chain in lowercase, with hyphens between.")]
    pool_meta: Annotated[str, doc("The name that the market has, and the pool's label.")]
    url: Annotated[str | None, doc("Where the protocol's own app shows the pool; null if none is known.")]
    underlying_tokens: Annotated[list[str], doc("The token's contract alone.")]
    reward_tokens: Annotated[list[str] | None, doc("The reward's token contract; null without a reward.")]


class YieldsPool(_YieldsRow, frozen=True, rename="camel"):
    """A pool that is open to suppliers."""

    tvl_usd: Annotated[float, doc("Supplied and not lent out, in US dollars.")]
    apy_base: Annotated[float, doc("Annual yield of suppliers, compounded as the protocol does it, in percent.")]
    apy_reward: Annotated[
        float | None, doc("Annual yield of the suppliers' reward, not compounded, in percent; null without one.")
    ]
    apy: Annotated[float, doc("`apyBase` and `apyReward` together, in percent.")]
    apy_mean_30d: Annotated[
        float | None, doc("Mean of `apyBase` over 30 days, in percent; null while the history is too short.")
    ] = field(name="apyMean30d")
    il_risk: Annotated[str, doc("Always no: no impermanent loss.")]
    exposure: Annotated[str, doc("Always single: one token.")]
    supply_cap_usd: Annotated[
        float | UnsetType, doc("Most that may be supplied, in US dollars; left out without a cap.")
    ] = UNSET


class YieldsBorrow(_YieldsRow, frozen=True, rename="camel"):
    """The cost of borrowing from a pool."""

    apy_base_borrow: Annotated[float, doc("Annual cost of borrowers, compounded as the protocol does it, in percent.")]
    apy_reward_borrow: Annotated[
        float | None, doc("Annual yield of the borrowers' reward, not compounded, in percent; null without one.")
    ]
    total_supply_usd: Annotated[float, doc("Supplied, in US dollars.")]
    total_borrow_usd: Annotated[float, doc("Borrowed, in US dollars.")]
    borrowable: Annotated[bool | None, doc("Whether the contract lends now; null when unknown.")]
    available_borrow_usd: Annotated[
        float | UnsetType, doc("What the pool has to lend, in US dollars; left out when unknown.")
    ] = UNSET
    ltv: Annotated[
        float | UnsetType,
        doc("Part of the value of collateral that counts when a debt is opened, 1 for all; left out when unknown."),
    ] = UNSET
    debt_ceiling_usd: Annotated[
        float | UnsetType, doc("Most that may be borrowed, in US dollars; left out without a cap.")
    ] = UNSET


Status = Annotated[Literal["success", "error"], doc("`success`, or `error` while there is no pool to give.")]
Message = Annotated[str | UnsetType, doc("What is missing; left out if `status` is `success`.")]

NO_PRICE = "no pool of a listed market has a valid price at this run's ledger, so nothing can be given in US dollars"
ALL_INSOLVENT = "every pool of a listed market that has a valid price at this run's ledger is insolvent"
ALL_CLOSED = "every solvent pool of a listed market that has a valid price at this run's ledger is closed to suppliers"


class YieldsPools(Struct, frozen=True):
    """Pools of listed markets that are open to suppliers and have a price, in DefiLlama's shape."""

    status: Status
    data: Annotated[list[YieldsPool], doc("The pools.")]
    message: Message = UNSET


class YieldsBorrows(Struct, frozen=True):
    """Pools of listed markets that have a price, for borrowers, in DefiLlama's shape."""

    status: Status
    data: Annotated[list[YieldsBorrow], doc("The pools.")]
    message: Message = UNSET


def render_yields(pools: pl.DataFrame, native: str | None, protocols: Mapping[str, Protocol]) -> Iterator[RenderedFile]:
    """Render both files.

    ``pools`` is a frame of `exporter.render.lists.with_list_columns`. ``native`` is the contract of the native asset;
    None if it is not known.
    """
    projects = {
        f"{name} {version}": project
        for name, protocol in protocols.items()
        for version, project in protocol.words.defillama_projects.items()
    }
    pools = pools.with_columns(pl.Series("symbol", common_symbols(pools, native), pl.String))
    priced = pools.filter("listed", pl.col("supplied_usd_cents").is_not_null()).with_columns(
        (pl.col("protocol") + " " + pl.col("version"))
        .replace_strict(projects, default=pl.col("protocol"), return_dtype=pl.String)
        .alias("project"),
    )
    solvent = priced.filter(~is_insolvent())
    offers: dict[str, tuple[pl.DataFrame, Callable[[_OfferedPool], Mapping[str, object]]]] = {
        "pools": (solvent.filter(pl.col("can_supply").fill_null(value=True)), _pool),
        "borrow": (solvent, _borrow),
    }
    for name, (shown, shape) in offers.items():
        rank = pl.col("supplied_usd_cents").rank("ordinal", descending=True)  # equals stay in their order
        largest = shown.filter(rank <= MAX_POOLS)
        rows = [shape(row) for row in rows_as(_OfferedPool, largest)]
        missing = ALL_CLOSED if solvent.height else ALL_INSOLVENT if priced.height else NO_PRICE
        outcome = {"status": "success"} if rows else {"status": "error", "message": missing}
        yield RenderedFile(YIELDS.key(yields=name), encode(outcome | {"data": rows}), FileKind.DOCUMENT)


def _pool(row: _OfferedPool) -> Mapping[str, object]:
    reward, mean = row["supply_reward_apr_bps"] or 0, row["mean_supply_apy_bps_30d"]
    supplied, borrowed = _usd_cents(row)
    return {
        **_head(row),
        "tvlUsd": hundredths(max(supplied - borrowed, 0)),
        "apyBase": hundredths(row["supply_apy_bps"]),
        "apyReward": hundredths(reward) if reward else None,
        "apy": hundredths(row["supply_apy_bps"] + reward),
        "rewardTokens": [row["reward_token"]] if reward else None,
        "apyMean30d": None if mean is None else hundredths(mean),
        **_dollars_if_known("supplyCapUsd", row["supply_cap_usd_cents"]),
        "ilRisk": "no",
        "exposure": "single",
    }


def _borrow(row: _OfferedPool) -> Mapping[str, object]:
    reward = row["borrow_reward_apr_bps"] or 0
    supplied, borrowed = _usd_cents(row)
    factor = row["collateral_factor_bps"]
    room = row["available_to_borrow_usd_cents" if row["can_borrow"] else "available_usd_cents"]
    return {
        **_head(row),
        "apyBaseBorrow": hundredths(row["borrow_apy_bps"]),
        "apyRewardBorrow": hundredths(reward) if reward else None,
        "rewardTokens": [row["reward_token"]] if reward else None,
        "totalSupplyUsd": hundredths(supplied),
        "totalBorrowUsd": hundredths(borrowed),
        # DefiLlama asks not to state 0 just because borrowing is closed.
        **_dollars_if_known("availableBorrowUsd", room),
        **_dollars_if_known("debtCeilingUsd", row["borrow_cap_usd_cents"]),
        **({} if factor is None else {"ltv": _json_number(min(factor, 10_000), 4)}),
        "borrowable": row["can_borrow"],
    }


def _usd_cents(row: _OfferedPool) -> tuple[int, int]:
    """What is supplied and what is borrowed, in US cents.

    Both are known, because pools without a price are left out.
    """
    return row["supplied_usd_cents"] or 0, row["borrowed_usd_cents"] or 0


def _head(row: _OfferedPool) -> dict[str, object]:
    return {
        "chain": CHAIN,
        "project": row["project"],
        "symbol": row["symbol"],
        "pool": f"{row['market']}-{row['pool']}-{CHAIN}".lower(),
        "poolMeta": " ".join(filter(None, (row["market_name"], row["pool_label"]))),
        "url": row["app_url"],
        "underlyingTokens": [row["token_address"]],
    }


def _dollars_if_known(name: str, cents: int | None) -> dict[str, object]:
    """A field with US dollars; nothing if there is no number, because DefiLlama's tests refuse a null."""
    return {} if cents is None else {name: hundredths(cents)}


def hundredths(value: int) -> msgspec.Raw:
    """A number of hundredths as a JSON number, such as cents as dollars, or basis points as percent."""
    return _json_number(value, 2)


def _json_number(value: int, decimals: int) -> msgspec.Raw:
    return msgspec.Raw(short_decimal_text(value, decimals).encode())
