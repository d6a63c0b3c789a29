"""The math of 100,000 Blend reserves in columns, against the judge of the tests in plain integers on the same rows."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl

from exporter.localnet.made import DEFAULT_START_TIME, make_markets, market_sizes
from exporter.localnet.made_assets import make_oracles, make_tokens
from exporter.numbers import exact
from exporter.protocols.blend import math
from tests.bench.timing import Finding, Target, duel
from tests.judges import blend_judge as judge
from tests.protocols.judged import at

ROWS = 100_000
JUDGED_ROWS = 5_000
CLOSE_TIME = DEFAULT_START_TIME + 5

Reserve = dict[str, Any]


def run(quick: bool = False) -> list[Finding]:
    """Both on reserves of the made network; the judge on every twentieth row, its time a row scaled to all."""
    rows, judged_rows = (200, 10) if quick else (ROWS, JUDGED_ROWS)
    reserves = made_reserves(rows)
    judged = reserves[:: rows // judged_rows]
    frame = frame_of(reserves)
    result = math.project(at(frame, CLOSE_TIME)).drop("close_time", *frame.columns)
    expected = [judge.project(reserve, CLOSE_TIME) for reserve in judged]
    if result.gather_every(rows // judged_rows).rows(named=True) != expected:
        raise AssertionError("the columns and the judge disagree")

    def ours() -> None:
        math.project(at(frame, CLOSE_TIME))

    def theirs() -> None:
        for reserve in judged:
            judge.project(reserve, CLOSE_TIME)

    measured = duel(ours, theirs, rounds=1 if quick else 15, our_units=rows, their_units=len(judged))
    facts = {
        "ours_ms": round(measured.ours.median * rows * 1e3, 1),
        "judge_ms_scaled": round(measured.theirs.median * rows * 1e3, 1),
        "rows": rows,
        "rows_judged": len(judged),
        "rows_of_18_decimals": sum(reserve["decimals"] == 18 for reserve in reserves),
    }
    title = f"{rows:,} reserves: plain integers (timed on {len(judged):,} of the rows) / columns"
    return [Finding(title, measured.ratio, "times as fast", Target(10.0), facts)]


def made_reserves(count: int) -> list[Reserve]:
    """Reserves of made markets of both generations, tokens of 6 to 18 decimals, by the names of the judge."""
    random = Random(1)
    sizes = market_sizes(random, count)
    tokens, _ = make_tokens(random, count, at_least=max(sizes))
    markets = make_markets(random, sizes, tokens, make_oracles(), DEFAULT_START_TIME)
    state = ("b_rate", "b_supply", "d_rate", "d_supply", "ir_mod", "backstop_credit", "last_time")
    config = ("util", "r_base", "r_one", "r_two", "r_three", "reactivity", "decimals")
    return [
        {
            "generation": market.generation.label,
            "bstop_rate": market.take_rate,
            **{name: getattr(reserve, name) for name in state},
            **{name: getattr(reserve.config, name) for name in config},
        }
        for market in markets
        for reserve in market.reserves
    ]


def frame_of(reserves: list[Reserve]) -> pl.DataFrame:
    """The raw columns that `math.project` takes."""
    generation = pl.Series("generation", [reserve["generation"] for reserve in reserves], dtype=pl.String)
    columns = [exact.column([reserve[name] for reserve in reserves], name) for name in math.RESERVE_COLUMNS]
    return pl.DataFrame([generation, *columns])
