"""The models of ``/v1/yields/pools`` and ``/v1/yields/borrow``, in DefiLlama's shape, for the description of the
API.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Struct, UnsetType, field

from exporter.tree.values import doc


class _YieldsRow(Struct, frozen=True, rename="camel"):
    chain: Annotated[str, doc("Always Stellar.")]
    project: Annotated[str, doc("DefiLlama's name of the protocol, or ours.")]
    symbol: Annotated[str, doc("The token's symbol; XLM for the native asset.")]
    pool: Annotated[str, doc("Market, pool and chain in lowercase, with hyphens between.")]
    pool_meta: Annotated[str, doc("The name that the market has, and the pool's label.")]
    url: Annotated[str | None, doc("Where the protocol's own app shows the pool; null where none is known.")]
    underlying_tokens: Annotated[list[str], doc("The token's contract alone.")]
    reward_tokens: Annotated[list[str] | None, doc("The reward's token contract; null without a reward.")]


class YieldsPool(_YieldsRow, frozen=True, rename="camel"):
    """A pool that is open to suppliers."""

    tvl_usd: Annotated[float, doc("Supplied and not lent out, in US dollars.")]
    apy_base: Annotated[float, doc("Annual yield of suppliers, in percent.")]
    apy_reward: Annotated[float | None, doc("Annual yield of the suppliers' reward, in percent; null without.")]
    apy: Annotated[float, doc("Both together, in percent.")]
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

    apy_base_borrow: Annotated[float, doc("Annual cost of borrowers, in percent.")]
    apy_reward_borrow: Annotated[float | None, doc("Annual yield of the borrowers' reward, in percent; null without.")]
    total_supply_usd: Annotated[float, doc("Supplied, in US dollars.")]
    total_borrow_usd: Annotated[float, doc("Borrowed, in US dollars.")]
    borrowable: Annotated[bool | None, doc("Whether the contract lends now; null when unknown.")]
    available_borrow_usd: Annotated[
        float | UnsetType, doc("What the pool has to lend, in US dollars; left out when unknown.")
    ] = UNSET
    ltv: Annotated[
        float | UnsetType,
        doc("Part of the value of collateral that counts when a debt is opened; left out when unknown."),
    ] = UNSET
    debt_ceiling_usd: Annotated[
        float | UnsetType, doc("Most that may be borrowed, in US dollars; left out without a cap.")
    ] = UNSET


class YieldsPools(Struct, frozen=True):
    """Pools that are open to suppliers and have a price, in DefiLlama's shape."""

    status: Annotated[Literal["success"], doc("Always success.")]
    data: Annotated[list[YieldsPool], doc("The pools.")]


class YieldsBorrows(Struct, frozen=True):
    """Pools that have a price, for borrowers, in DefiLlama's shape."""

    status: Annotated[Literal["success"], doc("Always success.")]
    data: Annotated[list[YieldsBorrow], doc("The pools.")]
