"""Computes the yield of rewards from exact fractions of amounts and prices, which are rounded down once.

The yield of a reward is (what is paid a year, in US dollars) / (everything that the side has supplied or borrowed, in
US dollars). It is not compounded, because rewards are claimed by hand, and it is not part of another rate. Blend's
backstops are valued here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from exporter.errors import Barrier
from exporter.exact import INT128_MAX, JSON_INTEGER_MAX
from exporter.ledger.oracles import PriceKey
from exporter.protocols.base import ProtocolReading, RewardPrice, TokenOfMarket
from exporter.protocols.numbers import BackstopFrameRow, PoolFrameRow
from exporter.tables import BACKSTOPS_SCHEMA, MAX_DECIMAL, YEAR, frame_of_rows
from exporter.tree.values import RewardReason


class UsdPrice(NamedTuple):
    """A price of one whole token: it is ``price`` / 10^``decimals`` US dollars."""

    price: int
    decimals: int


UsdPrices = Mapping[PriceKey, UsdPrice]


class RewardToken(Struct, frozen=True):
    """The token in which a pool's rewards are paid. ``price`` is None if it is not known."""

    decimals: int | None
    price: UsdPrice | None


class SideReward(NamedTuple):
    """The reward of one side of a pool.

    ``per_year`` is in base units of the reward token, ``apr_bps`` is the yield, and ``reason`` is ``valid`` or says why
    one of them is 0 or None.
    """

    per_year: int | None
    apr_bps: int | None
    reason: str


def set_rewards(row: PoolFrameRow, reading: ProtocolReading, prices: UsdPrices) -> None:
    """Set a pool's yearly rewards, their yields, and the price of the reward token.

    The protocol has already set the amounts a second.
    """
    address = row["reward_token"] or ""
    token = reading.tokens.get(address)
    decimals = None if token is None else token.decimals
    reward_price = None if decimals is None else reading.reward_prices.get(TokenOfMarket(row["market"], address))
    price = None if reward_price is None else _in_usd(reward_price, row["oracle"], prices)
    row["reward_symbol"] = None if token is None else token.symbol
    row["reward_token_decimals"] = decimals
    row["reward_price"] = row["reward_price_decimals"] = row["reward_price_source"] = None
    if reward_price is not None and price is not None:
        row["reward_price"], row["reward_price_decimals"] = price
        source = reward_price.source
        row["reward_price_source"] = f"{source} * {row['oracle']}" if source else row["oracle"]
    paid_in = RewardToken(decimals, price)
    supply = _reward(
        row,
        paid_in,
        row["supply_reward_per_second"],
        row["supply_reward_reason"],
        row["total_supplied"],
        RewardReason.NOTHING_SUPPLIED,
    )
    row["supply_reward_per_year"], row["supply_reward_apr_bps"], row["supply_reward_reason"] = supply
    borrow = _reward(
        row,
        paid_in,
        row["borrow_reward_per_second"],
        row["borrow_reward_reason"],
        row["total_borrowed"],
        RewardReason.NOTHING_BORROWED,
    )
    row["borrow_reward_per_year"], row["borrow_reward_apr_bps"], row["borrow_reward_reason"] = borrow


def _reward(
    row: PoolFrameRow,
    paid_in: RewardToken,
    per_second: int | None,
    protocol_reason: str | None,
    total: int,
    reason_if_empty: RewardReason,
) -> SideReward:
    """The reward of one side. ``per_second`` is paid for a ``total`` in base units of the pool's token.

    ``reason_if_empty`` is the reason if the total is 0.
    """
    reason = protocol_reason or RewardReason.NOT_READ
    if per_second is None:
        return SideReward(None, None, reason)
    extra = 10 ** (row["reward_decimals"] or 0)
    per_year = min(per_second * YEAR // extra, MAX_DECIMAL)
    token_price, token_price_decimals = row["oracle_price"], row["oracle_decimals"]
    if per_second == 0:
        return SideReward(per_year, 0, reason)
    if reason == RewardReason.NOT_FUNDED:
        return SideReward(per_year, None, reason)
    if total == 0:
        return SideReward(per_year, None, reason_if_empty)
    if paid_in.price is None or paid_in.decimals is None:
        return SideReward(per_year, None, RewardReason.NO_REWARD_PRICE)
    if token_price is None or token_price_decimals is None:
        return SideReward(per_year, None, RewardReason.NO_TOKEN_PRICE)
    reward_price = paid_in.price
    # (per_second * YEAR * reward price) / (total * token price), each with its decimals; 4 more make basis points.
    numerator = per_second * YEAR * reward_price.price * 10 ** (row["decimals"] + token_price_decimals + 4)
    denominator = extra * 10 ** (paid_in.decimals + reward_price.decimals) * total * token_price
    return SideReward(per_year, min(numerator // denominator, JSON_INTEGER_MAX), reason)


def _in_usd(reward: RewardPrice, oracle: str | None, prices: UsdPrices) -> UsdPrice | None:
    """The price of a reward token in US dollars, from the oracle's price of the token that it is priced in.

    None if that price is missing, or if the product is not above zero or has more than 38 digits.
    """
    priced_in = prices.get(PriceKey(oracle or "", reward.priced_in))
    if priced_in is None or not 0 < reward.rate * priced_in.price <= MAX_DECIMAL:
        return None
    return UsdPrice(reward.rate * priced_in.price, reward.decimals + priced_in.decimals)


def backstop_frame(reading: ProtocolReading, prices: UsdPrices, close_time: int) -> pl.DataFrame:
    """The frame of a reading's backstops, with their values. A number that does not fit into 128 bits is null."""
    oracles = {market.address: market.oracle for market in reading.markets}
    rows: list[BackstopFrameRow] = []
    for market, row_at in reading.backstops.items():
        with Barrier() as barrier:
            row = row_at(close_time)
        if barrier.failure:
            reading.notices.append(f"the numbers of the backstop of market {market} have no result: {barrier.failure}")
            continue
        reward_price = reading.reward_prices.get(TokenOfMarket(row.market, row.emission_token or ""))
        oracle = oracles.get(row.market) or ""
        usdc = None if reward_price is None else prices.get(PriceKey(oracle, reward_price.priced_in))
        if row.lp_tokens is not None and row.lp_price_usdc is not None and usdc is not None:
            value = row.lp_tokens * row.lp_price_usdc * usdc.price * 100 // 10 ** (7 + 7 + usdc.decimals)
            row = replace(row, value_usd_cents=value)
        rows.append(row)
    fitting = [{name: _fitting(getattr(row, name)) for name in BACKSTOPS_SCHEMA} for row in rows]
    return frame_of_rows(fitting, BACKSTOPS_SCHEMA)


def _fitting(value: str | int | None) -> str | int | None:
    return None if isinstance(value, int) and value > INT128_MAX else value
