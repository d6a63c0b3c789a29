"""Time buckets: turns the observations of a pool in a bucket into one row, and the rows of pools into totals.

A bucket has the observations from its start (inclusive) to its end (exclusive). `exporter.history.time_buckets` says
where buckets start. `exporter.tree.documents.HistoryBucket` says what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import polars as pl

from exporter.best import MIN_VALUE_CENTS, is_listed
from exporter.exact import decimal_text
from exporter.exact_sums import exact_sum, joined
from exporter.history.days_csv import PoolDay
from exporter.history.realized import realized_column
from exporter.history.time_buckets import MEANS, MEDIANS, Bucket
from exporter.tables import ACTIVE, MAX_DECIMAL, PoolKey, bucket_columns
from exporter.tree.documents import TotalsBucket

_MAX_DECIMALS = 100
"""Number of decimals from which no product of two numbers of 128 bits is worth a cent."""

OBSERVATIONS: dict[str, pl.DataType] = {
    "market": pl.String(),
    "pool": pl.String(),
    "token_address": pl.String(),
    "protocol": pl.String(),
    "observed_ledger": pl.Int64(),
    "ledger_close_time": pl.Int64(),  # unix seconds
    "total_supplied": pl.Int128(),  # token base units
    "total_borrowed": pl.Int128(),
    "supply_apy_bps": pl.Int64(),
    "borrow_apy_bps": pl.Int64(),
    "utilization_bps": pl.Int64(),
    "tvl_usd_cents": pl.Int128(),  # this and the next four are null without a price
    "oracle_price": pl.Int128(),
    "oracle_decimals": pl.Int64(),
    "supplied_usd_cents": pl.Int128(),
    "borrowed_usd_cents": pl.Int128(),
    "active": pl.Boolean(),  # whether the market was open for lending and borrowing
    "listed": pl.Boolean(),  # whether the market was listed; rows that do not say it count as listed
    "decimals": pl.Int64(),  # of the token
    "comparable_supply_apy_bps": pl.Int64(),  # null in rows that were written before it was recorded
    "comparable_borrow_apy_bps": pl.Int64(),
    "total_supply_apy_bps": pl.Int64(),  # basis points; null if the reward is not known
    "available_to_withdraw": pl.Int128(),  # null if it is not known
    "supply_index": pl.Int128(),
    "borrow_index": pl.Int128(),
    "borrower_interest": pl.Int128(),  # since the pool's previous observation (`exporter.history.realized`)
    "supplier_interest": pl.Int128(),
    "index_decimals": pl.Int64(),
    "supply_reward_index": pl.Int128(),  # this and the next are null if rewards are not known
    "reward_scale": pl.Int64(),  # decimals of the reward index, whose unit is reward tokens for 10^decimals shares
}
"""Columns of the observations that buckets are made of: one row for each pool and ledger (`observations_of`)."""

_DERIVED = (
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "active",
    "supply_reward_index",
    "reward_scale",
    "borrower_interest",
    "supplier_interest",
)

SOURCES = (
    *(name for name in OBSERVATIONS if name not in _DERIVED),
    "market_status",
    "supply_reward_index",
    "reward_decimals",
    "reward_token_decimals",
)
"""The columns of the pools frame, and of every history file, from which observations are made."""

BUCKETS_FRAME = bucket_columns(PoolDay, *PoolKey._fields)
"""Columns of a pool's buckets: one row for each pool and bucket, sorted by market, pool and start."""

ENDS: dict[str, pl.DataType] = {
    "last_ledger_close_time": pl.Int64(),  # unix seconds
    "last_decimals": pl.Int64(),  # of the token
}
"""Columns of a pool's bucket that no document shows: time and decimals at the bucket's last observation."""

LAST_INDEXES = ("index_decimals", "supply_index", "borrow_index")
"""Columns of a pool's bucket that are of its last observation."""

PARTS: dict[str, pl.DataType] = {
    "token_address": pl.String(),
    "protocol": pl.String(),
    "active": pl.Boolean(),  # at all observations of the bucket
}
"""Columns of a pool's bucket that `aggregate` gives in addition to `BUCKETS_FRAME`, because totals need them."""

_KEYS = ("market", "pool", "start")
_AT_ENDS = (
    "ledger_close_time",
    "index_decimals",
    "supply_index",
    "borrow_index",
    "reward_scale",
    "supply_reward_index",
)


_INTEREST = ("borrower_interest", "supplier_interest")


def aggregate(observations: pl.DataFrame, bucket: Bucket) -> pl.DataFrame:
    """The buckets of one length: one row for all observations of a pool in a bucket.

    The columns are those of `BUCKETS_FRAME`, `ENDS` and `PARTS`. Rows are sorted by market, pool and start.
    """
    rows = observations.with_columns(bucket.start(pl.col("ledger_close_time")).alias("start"))
    grouped = rows.group_by(_KEYS).agg(
        *(floored_mean(name) for name in MEANS),
        *(_floored_median(name) for name in MEDIANS),
        _floored_median("oracle_price"),
        pl.col("oracle_decimals").min().alias("least_decimals"),
        pl.col("oracle_decimals").max().alias("most_decimals"),
        pl.len().cast(pl.Int64).alias("observation_count"),
        pl.col("oracle_price").count().cast(pl.Int64).alias("priced_count"),
        pl.col("observed_ledger").min().alias("first_ledger"),
        pl.col("observed_ledger").max().alias("last_ledger"),
        pl.col("token_address", "protocol").first(),
        pl.col("active").all(),
        pl.col("listed").sort_by("observed_ledger").last(),
        pl.col("decimals").last(),
        pl.col("decimals").last().alias("last_decimals"),
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _INTEREST),
        *(pl.col(name).min().alias(f"least_{name}") for name in _INTEREST),
        *(column for name in _AT_ENDS for column in _at_ends(name)),
    )
    grouped = grouped.sort(_KEYS)
    prices = _printed_medians(grouped, rows)
    return grouped.with_columns(
        prices,
        realized_column(grouped, "supply", "realized_supply_apy_bps"),
        realized_column(grouped, "borrow", "realized_borrow_apy_bps"),
        _realized_reward(grouped),
        *_interest(grouped, prices),
        *(pl.col(f"last_{name}").alias(name) for name in LAST_INDEXES),
    ).select(*BUCKETS_FRAME, *ENDS, *PARTS)


def _at_ends(name: str) -> Iterator[pl.Expr]:
    """The values of a column at the first and at the last observation of a bucket."""
    ordered = pl.col(name).sort_by("observed_ledger")
    yield ordered.first().alias(f"first_{name}")
    yield ordered.last().alias(f"last_{name}")


def _realized_reward(grouped: pl.DataFrame) -> pl.Series:
    """What one token that was supplied at the first observation of a bucket earned in rewards until the last one.

    Null if both observations are of one time, if the decimals of the index changed, or if rewards are not known.
    """
    columns = ("ledger_close_time", "index_decimals", "reward_scale", "supply_reward_index")
    firsts = grouped.select(*(f"first_{name}" for name in columns), "first_supply_index").iter_rows()
    lasts = grouped.select(f"last_{name}" for name in columns).iter_rows()
    rewards: list[str | None] = []
    for (begin, scale, unit, paid, index), (end, last_scale, last_unit, last_paid) in zip(firsts, lasts, strict=True):
        comparable = begin != end and scale == last_scale and unit == last_unit and index
        if comparable and None not in (unit, paid, last_paid) and paid <= last_paid:
            rewards.append(decimal_text((last_paid - paid) * 10**scale // index, unit))
        else:
            rewards.append(None)
    return pl.Series("realized_supply_reward", rewards, dtype=pl.String)


def _interest(grouped: pl.DataFrame, prices: pl.Series) -> Iterator[pl.Series]:
    """Columns of the interest that borrowers paid, and of the protocol's part: in base units, and in US cents.

    US cents are at the bucket's median price. If a market's contract lowered an index in between, the interest is
    not known, because nobody pays negative interest.
    """
    borrower_rows = grouped.select("borrower_interest", "least_borrower_interest").iter_rows()
    paid = [None if borrowers is None or least < 0 else borrowers for borrowers, least in borrower_rows]
    supplier_rows = grouped.select("supplier_interest", "least_supplier_interest").iter_rows()
    to_protocol = [
        None if None in (borrowers, suppliers) or least < 0 else max(borrowers - suppliers, 0)
        for borrowers, (suppliers, least) in zip(paid, supplier_rows, strict=True)
    ]
    for name, amounts in (("interest_paid", paid), ("interest_to_protocol", to_protocol)):
        yield pl.Series(name, amounts, pl.Int128)
        worth = zip(amounts, prices, grouped["decimals"], strict=True)
        yield pl.Series(f"{name}_usd_cents", [_worth_at(*each) for each in worth], pl.Int128)


def _worth_at(amount: int | None, printed: str | None, decimals: int) -> int | None:
    """The worth in US cents of an amount at a printed price in US dollars; None without a price."""
    if amount is None or printed is None:
        return None
    dollars, _, fraction = printed.partition(".")
    return _worth(amount, int(dollars + fraction), decimals + len(fraction))


def floored_mean(name: str) -> pl.Expr:
    """The mean of the values that are not null, rounded down, without a sum that could exceed 128 bits.

    Each of the n values is x = q·n + r. So their sum divided by n is the sum of all q, plus the sum of all r divided by
    n.
    """
    values = pl.col(name).cast(pl.Int128)
    count = values.count().cast(pl.Int128)
    mean = (values // count).sum() + (values % count).sum() // count
    return pl.when(count > 0).then(mean).alias(name)


def _floored_median(name: str) -> pl.Expr:
    """The median of the values that are not null, rounded down."""
    ordered = pl.col(name).drop_nulls().sort()
    count = pl.col(name).count().cast(pl.Int64)
    lower = ordered.get((count - 1) // 2, null_on_oob=True)
    upper = ordered.get(count // 2, null_on_oob=True)
    return (lower + (upper - lower) // 2).alias(name)  # the sum of the two may exceed 128 bits


def _printed_medians(grouped: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
    """The column of median prices, printed. Buckets whose prices have different decimals are computed one by one."""
    columns = grouped.select("oracle_price", "least_decimals", "most_decimals").iter_rows()
    printed = [None if price is None else decimal_text(price, most) for price, _, most in columns]
    mixed = (grouped["least_decimals"] != grouped["most_decimals"]).fill_null(False).arg_true().to_list()
    if mixed:
        prices: dict[tuple[object, ...], list[tuple[int, int]]] = {}
        chosen = rows.join(grouped[mixed].select(_KEYS), on=_KEYS).filter(pl.col("oracle_price").is_not_null())
        for *key, price, decimals in chosen.select(*_KEYS, "oracle_price", "oracle_decimals").iter_rows():
            prices.setdefault(tuple(key), []).append((price, decimals))
        for position in mixed:
            printed[position] = printed_median(prices[grouped.select(_KEYS).row(position)])
    return pl.Series("oracle_price_usd", printed, dtype=pl.String)


def printed_median(prices: list[tuple[int, int]]) -> str:
    """The median of prices, each an integer with its decimals, printed with the largest number of decimals."""
    decimals = max(own for _, own in prices)
    ordered = sorted(price * 10 ** (decimals - own) for price, own in prices)
    middle = ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]
    return decimal_text(middle // 2, decimals)


def observations_of(pools: pl.DataFrame) -> pl.DataFrame:
    """The observations (`OBSERVATIONS`) in a pools frame, or in rows of history files with the frame's types."""
    prices = pools.select("oracle_price", "oracle_decimals", "decimals").rows()
    values = {
        f"{name}_usd_cents": [
            None if price is None else _worth(amount, price, oracle + own)
            for amount, (price, oracle, own) in zip(pools[f"total_{name}"], prices, strict=True)
        ]
        for name in ("supplied", "borrowed")
    }
    return pools.with_columns(
        *(pl.Series(name, column, dtype=pl.Int128) for name, column in values.items()),
        pl.col("market_status").is_in(sorted(ACTIVE)).alias("active"),
        is_listed().alias("listed"),
        *(pl.lit(None, pl.Int128).alias(name) for name in _INTEREST),
        (pl.col("reward_decimals") + pl.col("reward_token_decimals")).alias("reward_scale"),
    ).select(OBSERVATIONS.keys())


def _worth(amount: int, price: int, decimals: int) -> int | None:
    """The worth in US cents of an amount at a price, with the decimals of both; None if it exceeds `MAX_DECIMAL`."""
    cents = amount * price * 100 // 10 ** min(decimals, _MAX_DECIMALS)
    return cents if cents <= MAX_DECIMAL else None


_MONEY = ("supplied_usd_cents", "borrowed_usd_cents", "tvl_usd_cents")

_UNLISTED_MONEY = tuple(f"unlisted_{name}" for name in _MONEY)


class TotalKey(NamedTuple):
    """What identifies a total: its scope (`SCOPES`), and the id of the market, token or protocol in that scope."""

    scope: str
    id: str


TOTALS_FRAME = bucket_columns(TotalsBucket, *TotalKey._fields) | dict.fromkeys((*_MONEY, *_UNLISTED_MONEY), pl.String())
"""Columns of totals: one row for each scope, id and bucket, sorted by these.

Amounts of money are digits, because a sum may have more than 128 bits."""

NETWORK = "network"
"""The scope of the total of all pools, and the only id in that scope."""

SCOPES: Mapping[str, pl.Expr] = {
    "market": pl.col("market"),
    "token": pl.col("token_address"),
    "protocol": pl.col("protocol"),
    NETWORK: pl.lit(NETWORK),
}
"""The scopes of totals. An expression gives the id of the total that a pool is part of in a scope."""


def in_scopes(pools: pl.DataFrame) -> pl.DataFrame:
    """Each row repeated for every total that its pool is part of, which the columns ``scope`` and ``id`` name."""
    return pl.concat(
        pools.with_columns(pl.lit(scope).alias("scope"), own_id.alias("id")) for scope, own_id in SCOPES.items()
    )


_MEANS_OF_TOTALS = {
    "mean_supply_apy_bps": ("supply_apy_bps", "supplied_usd_cents"),
    "mean_borrow_apy_bps": ("borrow_apy_bps", "borrowed_usd_cents"),
    "mean_comparable_supply_apy_bps": ("comparable_supply_apy_bps", "supplied_usd_cents"),
    "mean_comparable_borrow_apy_bps": ("comparable_borrow_apy_bps", "borrowed_usd_cents"),
}
"""The means in totals. For each, the column of the rate, and the column of its weights."""


def totals_of(pools: pl.DataFrame) -> pl.DataFrame:
    """The totals (`TOTALS_FRAME`) of each market, token and protocol, and of the network, out of rows of `aggregate`.

    The totals of a market are of all its pools. Other totals are of listed markets, and have columns of their own for
    unlisted markets.
    """
    priced = pl.all_horizontal(pl.col(name).is_not_null() for name in _MONEY)
    counted = (pl.col("scope") == "market") | pl.col("listed")
    rows = in_scopes(pools.with_columns(priced.alias("priced"))).with_columns(counted.alias("counted"))
    grouped = rows.group_by("scope", "id", "start").agg(*_totals(), *_parts_of_means())
    money = (_digits(grouped, name) for name in (*_MONEY, *_UNLISTED_MONEY))
    means = (_quotients(grouped, name) for name in _MEANS_OF_TOTALS)
    return grouped.with_columns(*money, *means).select(*TOTALS_FRAME).sort("scope", "id", "start")


def _totals() -> Iterator[pl.Expr]:
    """The columns of totals, except for the means. Money is in limbs (`exporter.exact_sums`)."""
    counted, priced = pl.col("counted"), pl.col("priced")
    for prefix, is_own in (("", counted), ("unlisted_", ~counted)):
        yield from (exact_sum(pl.col(name).filter(is_own & priced)).alias(f"{prefix}{name}") for name in _MONEY)
        yield pl.col("market").filter(is_own).n_unique().cast(pl.Int64).alias(f"{prefix}market_count")
        yield is_own.sum().cast(pl.Int64).alias(f"{prefix}pool_count")
        yield (is_own & priced).sum().cast(pl.Int64).alias(f"{prefix}priced_count")
    lending = pl.col("active") & pl.col("listed") & priced & (pl.col("tvl_usd_cents") >= MIN_VALUE_CENTS)
    lendable = lending & (pl.col("borrowed_usd_cents") < pl.col("supplied_usd_cents"))
    for basis in ("", "comparable_"):
        yield pl.col(f"{basis}supply_apy_bps").filter(lending).max().alias(f"best_{basis}supply_apy_bps")
        yield pl.col(f"{basis}borrow_apy_bps").filter(lendable).min().alias(f"best_{basis}borrow_apy_bps")
    newest = pl.col("last_ledger") == pl.col("last_ledger").max()
    is_market = (pl.col("scope") == "market").first()
    yield pl.when(is_market).then(pl.col("listed").filter(newest).first()).alias("listed")
    yield pl.col("first_ledger").min()
    yield pl.col("last_ledger").max()


def _parts_of_means() -> Iterator[pl.Expr]:
    """The two sums that each mean is a quotient of, in limbs: weighted rates, and the weights of what has a rate."""
    for name, (rate, weight) in _MEANS_OF_TOTALS.items():
        has_rate = pl.col("counted") & pl.col("priced") & pl.col(rate).is_not_null()
        weights = pl.col(weight).filter(has_rate)
        yield exact_sum(weights, times=pl.col(rate).filter(has_rate)).alias(f"weighted_{name}")
        yield exact_sum(weights).alias(f"weights_of_{name}")


def _digits(grouped: pl.DataFrame, name: str) -> pl.Series:
    """A column of sums as digits."""
    sums = map(joined, grouped[name])
    return pl.Series(name, [None if value is None else str(value) for value in sums], pl.String)


def _quotients(grouped: pl.DataFrame, name: str) -> pl.Series:
    """A column of means, rounded down; null if the pools weigh nothing."""
    parts = zip(map(joined, grouped[f"weighted_{name}"]), map(joined, grouped[f"weights_of_{name}"]), strict=True)
    means = [weighted // weights if weighted is not None and weights else None for weighted, weights in parts]
    return pl.Series(name, means, pl.Int64)
