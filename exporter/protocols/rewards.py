"""Rewards as a yield: exact fractions of amounts and prices, floored once.

The yield of a reward is (what is paid a year, in US dollars) / (all of the side, in US dollars). It is never
compounded, since rewards are claimed by hand, and never mixed into another rate. Blend's backstops are valued here too.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from exporter.exact import INT128_MAX, JSON_INTEGER_MAX
from exporter.protocols.base import ProtocolReading, RewardPrice
from exporter.protocols.containment import described
from exporter.protocols.prices import Row
from exporter.tables import BACKSTOPS, MAX_DECIMAL, YEAR
from exporter.tree.values import RewardReason

Worth = tuple[int, int]
"""A price in US dollars and its decimals."""

Worths = Mapping[tuple[str, str], Worth]
"""By oracle and token."""

_SIDES = {
    "supply": ("total_supplied", RewardReason.NOTHING_SUPPLIED),
    "borrow": ("total_borrowed", RewardReason.NOTHING_BORROWED),
}
_COMPUTED = (
    "reward_symbol",
    "reward_token_decimals",
    "reward_price",
    "reward_price_decimals",
    "reward_price_source",
    *(f"{side}_reward_{part}" for side in _SIDES for part in ("per_year", "apr_bps")),
)


def set_rewards(row: Row, reading: ProtocolReading, prices: Worths) -> None:
    """Add amounts a year, yields and the price of the reward token to what the protocol said of a pool's rewards."""
    row |= dict.fromkeys(_COMPUTED)
    token = reading.tokens.get(row["reward_token"])
    decimals = None if token is None else token.decimals
    worth = None if decimals is None else reading.reward_prices.get((row["market"], row["reward_token"]))
    price = None if worth is None else _worth(worth, prices.get((row["oracle"], worth.priced_in)))
    if token is not None:
        row |= {"reward_symbol": token.symbol, "reward_token_decimals": decimals}
    if worth is not None and price is not None:
        source = f"{worth.source} * {row['oracle']}" if worth.source else row["oracle"]
        row |= {"reward_price": price[0], "reward_price_decimals": price[1], "reward_price_source": source}
    for side, (total, nobody) in _SIDES.items():
        pace, reason = row[f"{side}_reward_per_second"], row[f"{side}_reward_reason"] or RewardReason.NOT_READ
        if pace is not None:
            extra = 10 ** row["reward_decimals"]
            row[f"{side}_reward_per_year"] = min(pace * YEAR // extra, MAX_DECIMAL)
            if pace == 0:
                row[f"{side}_reward_apr_bps"] = 0
            elif reason == RewardReason.NOT_FUNDED:
                pass
            elif row[total] == 0:
                reason = nobody
            elif price is None or decimals is None:
                reason = RewardReason.NO_REWARD_PRICE
            elif row["oracle_price"] is None:
                reason = RewardReason.NO_TOKEN_PRICE
            else:
                paid = pace * YEAR * price[0] * 10 ** (row["decimals"] + row["oracle_decimals"] + 4)
                behind = extra * 10 ** (decimals + price[1]) * row[total] * row["oracle_price"]
                row[f"{side}_reward_apr_bps"] = min(paid // behind, JSON_INTEGER_MAX)
        row[f"{side}_reward_reason"] = reason


def _worth(reward: RewardPrice, priced_in: Worth | None) -> Worth | None:
    """With the decimals of both; None where it is of more than 38 digits, or of nothing."""
    if priced_in is None or not 0 < reward.rate * priced_in[0] <= MAX_DECIMAL:
        return None
    return reward.rate * priced_in[0], reward.decimals + priced_in[1]


def backstop_frame(reading: ProtocolReading, prices: Worths, close_time: int) -> pl.DataFrame:
    """The backstops of a reading with their value; a number that does not fit into 128 bits is null."""
    oracles = {market.address: market.oracle or "" for market in reading.markets}
    rows: list[Row] = []
    for market, row_at in reading.backstops.items():
        try:
            row = row_at(close_time)
        except Exception as error:  # costs what hangs on this backstop, and no pool
            reading.notices.append(f"the numbers of the backstop of market {market} have no result: {described(error)}")
            continue
        tokens, each = row.get("lp_tokens"), row.get("lp_price_usdc")
        worth = reading.reward_prices.get((row["market"], row.get("emission_token", "")))
        usdc = None if worth is None else prices.get((oracles.get(row["market"], ""), worth.priced_in))
        if tokens is not None and each is not None and usdc is not None:
            row["value_usd_cents"] = tokens * each * usdc[0] * 100 // 10 ** (7 + 7 + usdc[1])
        rows.append({k: None if isinstance(v, int) and v > INT128_MAX else v for k, v in row.items()})
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in BACKSTOPS}, schema=BACKSTOPS)
