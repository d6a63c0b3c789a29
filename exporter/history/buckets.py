"""Buckets of time: where they begin, what many observations of a pool are as one row, and totals of many pools.

A bucket holds the observations from its start to before its end. Starts are multiples of the length since 1970; weeks
begin on Monday. The meaning of the numbers is in `exporter.tree.documents.HistoryBucket`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from exporter.best import LEAST_VALUE, is_listed
from exporter.exact import printed_price
from exporter.exact_sums import exact_sum, whole
from exporter.history.realized import realized_column
from exporter.history.time_buckets import MEANS, MEDIANS, Bucket
from exporter.tables import ACTIVE, MAX_DECIMAL, bucket_columns
from exporter.tree.documents import HistoryBucket, TotalsBucket

_NOTHING_LEFT = 100  # decimals at which no product of two numbers of 128 bits is worth a cent

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
    "tvl_usd_cents": pl.Int128(),  # null without a price, as the next four
    "oracle_price": pl.Int128(),
    "oracle_decimals": pl.Int64(),
    "supplied_usd_cents": pl.Int128(),
    "borrowed_usd_cents": pl.Int128(),
    "active": pl.Boolean(),  # whether its market was open for lending and borrowing
    "listed": pl.Boolean(),  # whether its market was; rows of before that was said count as listed
    "decimals": pl.Int64(),  # of the token
    "comparable_supply_apy_bps": pl.Int64(),  # null in rows of before that was recorded
    "comparable_borrow_apy_bps": pl.Int64(),
    "supply_index": pl.Int128(),
    "borrow_index": pl.Int128(),
    "borrower_interest": pl.Int128(),  # since the pool's observation before (`exporter.history.realized`)
    "supplier_interest": pl.Int128(),
    "index_decimals": pl.Int64(),
    "supply_reward_index": pl.Int128(),  # null where it is not known, as the next
    "reward_scale": pl.Int64(),  # decimals of what 10^decimals shares were paid, in reward tokens
}
"""The source of buckets: one row a pool and ledger (`observations_of`)."""

_MADE = (
    "supplied_usd_cents",
    "borrowed_usd_cents",
    "active",
    "supply_reward_index",
    "reward_scale",
    "borrower_interest",
    "supplier_interest",
)

SOURCES = (
    *(name for name in OBSERVATIONS if name not in _MADE),
    "market_status",
    "supply_reward_index",
    "reward_decimals",
    "reward_token_decimals",
)
"""The columns of the pools frame, and of every history file, that observations are made of."""

BUCKETS_FRAME = bucket_columns(HistoryBucket, "market", "pool")
"""One row a pool and bucket, sorted by market, pool and start."""

ENDS: dict[str, pl.DataType] = {
    "last_ledger_close_time": pl.Int64(),  # unix seconds
    "last_index_decimals": pl.Int64(),
    "last_supply_index": pl.Int128(),
    "last_borrow_index": pl.Int128(),
    "last_decimals": pl.Int64(),  # of the token
}
"""Columns of a pool's bucket that no document has: indexes and decimals at its last observation."""

PARTS: dict[str, pl.DataType] = {
    "token_address": pl.String(),
    "protocol": pl.String(),
    "supplied_usd_cents": pl.Int128(),
    "borrowed_usd_cents": pl.Int128(),
    "active": pl.Boolean(),  # at all observations of the bucket
}
"""Columns of a pool's bucket that `aggregate` gives in addition to `BUCKETS_FRAME`: what totals are made of."""

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
    """Make one row (`BUCKETS_FRAME`, `ENDS` and `PARTS`, sorted) of all observations of a pool in a bucket."""
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
    ).select(*BUCKETS_FRAME, *ENDS, *PARTS)


def _at_ends(name: str) -> Iterator[pl.Expr]:
    ordered = pl.col(name).sort_by("observed_ledger")
    yield ordered.first().alias(f"first_{name}")
    yield ordered.last().alias(f"last_{name}")


def _realized_reward(grouped: pl.DataFrame) -> pl.Series:
    """The reward of a token that was supplied at the first observation.

    Null where there is one time, where the index has other decimals in the end, and where a reward is not known.
    """
    columns = ("ledger_close_time", "index_decimals", "reward_scale", "supply_reward_index")
    firsts = grouped.select(*(f"first_{name}" for name in columns), "first_supply_index").iter_rows()
    lasts = grouped.select(f"last_{name}" for name in columns).iter_rows()
    rewards: list[str | None] = []
    for (begin, scale, unit, paid, index), (end, last_scale, last_unit, last_paid) in zip(firsts, lasts, strict=True):
        same = begin != end and scale == last_scale and unit == last_unit and index
        if same and None not in (unit, paid, last_paid) and paid <= last_paid:
            rewards.append(printed_price((last_paid - paid) * 10**scale // index, unit))
        else:
            rewards.append(None)
    return pl.Series("realized_supply_reward", rewards, dtype=pl.String)


def _interest(grouped: pl.DataFrame, prices: pl.Series) -> Iterator[pl.Series]:
    """What borrowers paid and the protocol's part of it, in base units, and in US cents at the median price.

    Nobody pays less than nothing: where a market's contract lowers an index, neither is known.
    """
    columns = grouped.select("borrower_interest", "least_borrower_interest").iter_rows()
    paid = [None if borrowers is None or least < 0 else borrowers for borrowers, least in columns]
    rest = grouped.select("supplier_interest", "least_supplier_interest").iter_rows()
    part = [
        None if None in (borrowers, suppliers) or least < 0 else max(borrowers - suppliers, 0)
        for borrowers, (suppliers, least) in zip(paid, rest, strict=True)
    ]
    for name, amounts in (("interest_paid", paid), ("interest_to_protocol", part)):
        yield pl.Series(name, amounts, pl.Int128)
        worth = zip(amounts, prices, grouped["decimals"], strict=True)
        yield pl.Series(f"{name}_usd_cents", [_worth_at(*each) for each in worth], pl.Int128)


def _worth_at(amount: int | None, printed: str | None, decimals: int) -> int | None:
    if amount is None or printed is None:
        return None
    whole, _, fraction = printed.partition(".")
    return _worth(amount, int(whole + fraction), decimals + len(fraction))


def floored_mean(name: str) -> pl.Expr:
    """The floor of the mean of what is not null, without a sum that could leave 128 bits.

    With x = q·n + r for each of n values, the sum over n is the sum of the q and the sum of the r over n.
    """
    values = pl.col(name).cast(pl.Int128)
    count = values.count().cast(pl.Int128)
    mean = (values // count).sum() + (values % count).sum() // count
    return pl.when(count > 0).then(mean).alias(name)


def _floored_median(name: str) -> pl.Expr:
    ordered = pl.col(name).drop_nulls().sort()
    count = pl.col(name).count().cast(pl.Int64)
    lower = ordered.get((count - 1) // 2, null_on_oob=True)
    upper = ordered.get(count // 2, null_on_oob=True)
    return (lower + (upper - lower) // 2).alias(name)  # their sum may not fit into 128 bits


def _printed_medians(grouped: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
    columns = grouped.select("oracle_price", "least_decimals", "most_decimals").iter_rows()
    printed = [None if price is None else printed_price(price, most) for price, _, most in columns]
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
    """The median of prices, each an integer with its decimals, printed at the most decimals among them."""
    decimals = max(own for _, own in prices)
    ordered = sorted(price * 10 ** (decimals - own) for price, own in prices)
    middle = ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]
    return printed_price(middle // 2, decimals)


def observations_of(pools: pl.DataFrame) -> pl.DataFrame:
    """The observations in a pools frame, or in rows of history files with their types (`SOURCES`)."""
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
    cents = amount * price * 100 // 10 ** min(decimals, _NOTHING_LEFT)
    return cents if cents <= MAX_DECIMAL else None


_MONEY = ("supplied_usd_cents", "borrowed_usd_cents", "tvl_usd_cents")

_UNLISTED_MONEY = tuple(f"unlisted_{name}" for name in _MONEY)

TOTALS_FRAME = bucket_columns(TotalsBucket, "scope", "id") | dict.fromkeys((*_MONEY, *_UNLISTED_MONEY), pl.String())
"""One row a scope, id and bucket, sorted by these. Money is in digits: a sum may have more than 128 bits."""

NETWORK = "network"
"""The scope of everything, and its only id."""

SCOPES: Mapping[str, pl.Expr] = {
    "market": pl.col("market"),
    "token": pl.col("token_address"),
    "protocol": pl.col("protocol"),
    NETWORK: pl.lit(NETWORK),
}
"""The scopes of totals, each with the id of the total that a pool is part of."""


def in_scopes(pools: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each total that its pool is part of; ``scope`` and ``id`` say which total that is."""
    return pl.concat(
        pools.with_columns(pl.lit(scope).alias("scope"), own_id.alias("id")) for scope, own_id in SCOPES.items()
    )


_MEANS_OF_TOTALS = {
    "mean_supply_apy_bps": ("supply_apy_bps", "supplied_usd_cents"),
    "mean_borrow_apy_bps": ("borrow_apy_bps", "borrowed_usd_cents"),
    "mean_comparable_supply_apy_bps": ("comparable_supply_apy_bps", "supplied_usd_cents"),
    "mean_comparable_borrow_apy_bps": ("comparable_borrow_apy_bps", "borrowed_usd_cents"),
}
"""The means of totals, each with the rate that it is of, and what the rates are weighted by."""


def totals_of(pools: pl.DataFrame) -> pl.DataFrame:
    """The totals of rows of `aggregate`, of each market, token and protocol and of the network: `TOTALS_FRAME`.

    A market's are of all of its pools. All others are of listed markets, with those that are not listed apart.
    """
    priced = pl.all_horizontal(pl.col(name).is_not_null() for name in _MONEY)
    counted = (pl.col("scope") == "market") | pl.col("listed")
    rows = in_scopes(pools.with_columns(priced.alias("priced"))).with_columns(counted.alias("counted"))
    grouped = rows.group_by("scope", "id", "start").agg(*_totals(), *_parts_of_means())
    money = (_digits(grouped, name) for name in (*_MONEY, *_UNLISTED_MONEY))
    means = (_quotients(grouped, name) for name in _MEANS_OF_TOTALS)
    return grouped.with_columns(*money, *means).select(*TOTALS_FRAME).sort("scope", "id", "start")


def _totals() -> Iterator[pl.Expr]:
    """The columns of totals, but for the means. Money is in limbs (`exporter.exact_sums`)."""
    counted, priced = pl.col("counted"), pl.col("priced")
    for prefix, is_own in (("", counted), ("unlisted_", ~counted)):
        yield from (exact_sum(pl.col(name).filter(is_own & priced)).alias(f"{prefix}{name}") for name in _MONEY)
        yield pl.col("market").filter(is_own).n_unique().cast(pl.Int64).alias(f"{prefix}market_count")
        yield is_own.sum().cast(pl.Int64).alias(f"{prefix}pool_count")
        yield (is_own & priced).sum().cast(pl.Int64).alias(f"{prefix}priced_count")
    lending = pl.col("active") & pl.col("listed") & priced & (pl.col("tvl_usd_cents") >= LEAST_VALUE)
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
    sums = map(whole, grouped[name])
    return pl.Series(name, [None if value is None else str(value) for value in sums], pl.String)


def _quotients(grouped: pl.DataFrame, name: str) -> pl.Series:
    """A column of means, rounded down; null where the pools weigh nothing."""
    parts = zip(map(whole, grouped[f"weighted_{name}"]), map(whole, grouped[f"weights_of_{name}"]), strict=True)
    means = [weighted // weights if weighted is not None and weights else None for weighted, weights in parts]
    return pl.Series(name, means, pl.Int64)
