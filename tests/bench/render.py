"""Pages from the pools frame against bare `slice.write_json()` of Polars on the same rows.

Once those of 50 rows with their tokens, and once all that a tree has, of every filter in every size, checked as a run
checks them: each read back, every walk followed, and all of it held against the frame.
"""

from __future__ import annotations

import json
from random import Random

import polars as pl

from exporter.check.checker import TreeChecker
from exporter.check.row_faults import value_in_cents
from exporter.check.walks import Listing, Run
from exporter.config import OutputSettings
from exporter.render.assets_pages import JoinedRows, render_pages, row_json, snapshots, wire_frame
from exporter.tree.families import page_key
from exporter.tree.read_back import parse_back
from tests.bench.timing import Duel, Finding, Target, duel
from tests.render.rendering import LEDGER, contract, markets_frame, pool, pools_frame

ROWS = 10_000
PAGE_SIZE = 50
SIZES, DEFAULT = OutputSettings().page_sizes, OutputSettings().default_page_size


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

    small = pools.head(1_000)
    whole, markets = _tree_of(small), markets_frame(small)

    def bare_tree() -> None:
        for rows, start, size in whole:
            rows.slice(start, size).write_json()

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
        _finding(
            f"all {len(whole)} pages of {small.height} pools, of every filter and size, read back, walked and checked",
            duel(lambda: _checked_tree(small, markets), bare_tree, rounds=min(rounds, 9), our_units=len(whole),
                 their_units=len(whole)),
            Target(0.5),
        ),
    ]  # fmt: skip


def _tree_of(pools: pl.DataFrame) -> list[tuple[pl.DataFrame, int, int]]:
    """The rows of each page that a tree of these pools has, as parts of frames that are there already."""
    frames: dict[tuple[str, ...], pl.DataFrame] = {(): wire_frame(pools)}
    for columns in (["market"], ["token_address"], ["market", "token_address"]):
        for key, rows in pools.partition_by(columns, as_dict=True, include_key=True, maintain_order=True).items():
            frames[*columns, *map(str, key)] = wire_frame(rows)
    pages = []
    for name, rows in frames.items():
        sizes = {size: max(1, -(-rows.height // size)) for size in SIZES if size < rows.height}
        pages += [(rows, number * size, size) for size, count in sizes.items() for number in range(count)]
        pages.append((rows, 0, DEFAULT))  # the index
        if len(name) < 4:
            pages += [(rows, 0, 0), (rows, 0, DEFAULT)]  # limit 0, and the page that it leads to
    return pages


def _checked_tree(pools: pl.DataFrame, markets: pl.DataFrame) -> None:
    listing = Listing(snapshots(pools))
    checker = TreeChecker(Run(LEDGER, "", SIZES, DEFAULT, listing), own_files_only=True)
    for file in render_pages(pools, markets, SIZES, DEFAULT):
        checker.add_rendered(file)
    checker.check_pages()
    checker.whole.faults.raise_any()


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
        printed = f"{price // 10**14}.{price % 10**14:014}" if random.randrange(10) else None
        supplied, decimals = random.randrange(1, 10 ** random.randint(1, 26)), random.choice((6, 7, 7, 8, 18))
        borrowed = random.randrange(supplied)
        made.append(
            pool(
                contract(number // 8),
                contract(1_000_000 + number % 8),
                symbol=random.choice(symbols),
                decimals=decimals,
                supply_apy_bps=random.randrange(2_000),
                borrow_apy_bps=random.randrange(5_000),
                utilization_bps=borrowed * 10_000 // supplied,
                total_supplied=supplied,
                total_borrowed=borrowed,
                oracle_price_usd=printed,
                tvl_usd_cents=None if printed is None else value_in_cents(supplied, printed, decimals),
            )
        )
    return pools_frame(made)
