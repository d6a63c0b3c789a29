"""Pages of 50 from the pools frame, with their tokens, against bare `slice.write_json()` of Polars on the same rows."""

from __future__ import annotations

import json
from random import Random

import polars as pl

from exporter.render.assets_pages import JoinedRows, row_json, wire_frame
from exporter.tree.families import page_key
from exporter.tree.read_back import parse_back
from tests.bench.timing import Duel, Finding, Target, duel
from tests.render.rendering import contract, pool, pools_frame

ROWS = 10_000
PAGE_SIZE = 50


def run(quick: bool = False) -> list[Finding]:
    """The rendering alone, and for information the rendering with every page read back through its wire model."""
    pools = made_pools(200 if quick else ROWS)
    wire = wire_frame(pools)
    starts = range(0, pools.height, PAGE_SIZE)

    def bare() -> list[str]:
        return [wire.slice(start, PAGE_SIZE).write_json() for start in starts]

    def pages() -> list[tuple[str, bytes]]:
        return [(page.token, page.data) for page in JoinedRows(row_json(pools)).chain(PAGE_SIZE)]

    def pages_read_back() -> None:
        for token, data in pages():
            parse_back(page_key(token), data)

    rendered = [json.loads(data)["data"] for _, data in reversed(pages())]
    if rendered != [json.loads(text) for text in bare()]:
        raise AssertionError("the pages do not hold the rows that Polars writes")

    rounds = 1 if quick else 31
    seconds = 0.0 if quick else 0.03
    count = len(starts)
    title = f"{count} pages of {PAGE_SIZE} rows: bare slice.write_json() / pages with their tokens"
    return [
        _finding(
            title,
            duel(pages, bare, rounds=rounds, seconds=seconds, our_units=count, their_units=count),
            Target(0.5),
        ),
        _finding(
            "the same, ours with every page read back and checked",
            duel(pages_read_back, bare, rounds=rounds, seconds=seconds, our_units=count, their_units=count),
            None,
        ),
    ]


def _finding(title: str, result: Duel, target: Target | None) -> Finding:
    facts = {
        "ours_pages_per_second": round(1 / result.ours.median),
        "polars_pages_per_second": round(1 / result.theirs.median),
    }
    return Finding(title, result.ratio, "times the speed", target, facts)


def made_pools(rows: int) -> pl.DataFrame:
    """A pools frame with numbers of all sizes; one pool in ten has no price."""
    random = Random(1)
    symbols = ("native", "USDC", "EURC", "yUSDC", "SolvBTC", "wETH")
    made = []
    for number in range(rows):
        price = random.randint(1, 10**20)
        priced = random.randrange(10) != 0
        made.append(
            pool(
                contract(number // 8),
                contract(1_000_000 + number % 8),
                symbol=random.choice(symbols),
                decimals=random.choice((6, 7, 7, 8, 18)),
                supply_apy_bps=random.randrange(2_000),
                borrow_apy_bps=random.randrange(5_000),
                utilization_bps=random.randrange(10_001),
                total_supplied=random.randrange(10 ** random.randint(1, 26)),
                total_borrowed=random.randrange(10 ** random.randint(1, 25)),
                oracle_price_usd=f"{price // 10**14}.{price % 10**14:014}" if priced else None,
                tvl_usd_cents=random.randrange(10 ** random.randint(1, 12)) if priced else None,
            )
        )
    return pools_frame(made)
