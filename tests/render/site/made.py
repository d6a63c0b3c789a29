"""Made runs for the tests of the site: tables of any size with a history, and pages as a reader finds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

import polars as pl
from msgspec.structs import replace

from exporter.deployments.listing import MarketKey, MarketListings
from exporter.deployments.networks import NETWORKS, network_of
from exporter.history.buckets import observations_of
from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables
from exporter.render.lists import with_list_columns
from exporter.render.run_documents import protocol_list
from exporter.render.site.pages import render_site
from exporter.render.site.templates import CARD_KEY, MISSING_KEY
from exporter.tables import MARKETS_SCHEMA, OPTIONAL_COLUMNS, POOLS_SCHEMA
from exporter.tree.documents import HistoryManifest, RunChange, Unpriced, Unread
from exporter.tree.files import RenderedFile
from tests.render.rendering import contract, market_row

LEDGER = 65_000_000
CLOSE_TIME = 1_794_996_000  # 2026-11-18 10:00:00 UTC
LOCAL = NETWORKS["local"].passphrase


def pool_row(market: int, pool: int, **changes: Any) -> dict[str, Any]:
    """One row of a pools frame, every column filled."""
    row: dict[str, Any] = {
        name: True if kind == pl.Boolean else 7 if kind.is_integer() else "text" for name, kind in POOLS_SCHEMA.items()
    }
    row |= dict.fromkeys(OPTIONAL_COLUMNS)
    row |= {
        "market": contract(100 + market),
        "pool": contract(10_000 + pool),
        "token_address": contract(10_000 + pool),
        "market_name": f"Market {market}",
        "listed": True,
        "archived": False,
        "listed_reason": "package_list",
        "symbol": f"TOK{pool}",
        "protocol": "blend",
        "version": "v2",
        "market_status": "active",
        "wasm_hash": "ab" * 32,
        "oracle": contract(1),
        "price_reason": "valid",
        "supply_apy_bps": 320,
        "borrow_apy_bps": 512,
        "utilization_bps": 6543,
        "total_supplied": 10**13,
        "total_borrowed": 6 * 10**12,
        "tvl_usd_cents": 10**8,
        "supplied_usd_cents": 10**8,
        "borrowed_usd_cents": 6 * 10**7,
        "oracle_price": 10**7,
        "oracle_price_usd": "1.0000000",
        "observed_ledger": LEDGER,
    }
    row |= dict.fromkeys(("can_supply", "can_borrow"), True)
    row |= dict.fromkeys(("last_accrual_time", "price_timestamp", "ledger_close_time"), CLOSE_TIME)
    row |= dict.fromkeys(("available_to_supply_usd_cents", "available_to_borrow_usd_cents"))
    row |= dict.fromkeys(("supply_reward_apr_bps", "borrow_reward_apr_bps")) | changes
    of_protocol = {f"comparable_{side}_apy_bps": row[f"{side}_apy_bps"] for side in ("supply", "borrow")}
    return row | of_protocol | {"total_supply_apy_bps": row["supply_apy_bps"]} | changes


def unpriced(reason: str = "the oracle has no price for this token") -> dict[str, Any]:
    """The columns that differ in a row without a price."""
    priced = ("oracle_decimals", "oracle_price", "price_timestamp", "oracle_price_usd")
    return dict.fromkeys((*priced, *(name for name in POOLS_SCHEMA if name.endswith("usd_cents")))) | {
        "price_reason": reason
    }


def tables_of(rows: list[dict[str, Any]], unread: list[Unread] | None = None, **market: Any) -> Tables:
    """Tables of these pools; ``market`` changes columns of every market."""
    pools = pl.DataFrame(rows, schema=POOLS_SCHEMA, orient="row").sort("market", "pool")
    markets = []
    for (address, name), own in pools.group_by("market", "market_name", maintain_order=True):
        values = [value for value in own["tvl_usd_cents"].to_list() if value is not None]
        missing = sum(item.market == address for item in unread or ())
        usual = {
            "name": name,
            "status": own["market_status"][0],
            "oracle": contract(1),
            "wasm_hash": "ab" * 32,
            "pool_count": own.height + missing,
            "unread_count": missing,
            "tvl_usd_cents": sum(values) if values else None,
            "priced_count": len(values),
            "listed": own["listed"][0],
            "listed_reason": own["listed_reason"][0],
            "observed_ledger": LEDGER,
        }
        markets.append(market_row(str(address), **usual | market))
    return Tables(
        LEDGER,
        CLOSE_TIME,
        pools,
        pl.DataFrame(markets, schema=MARKETS_SCHEMA, orient="row"),
        MarketListings((), [MarketKey(row["protocol"], row["market"]) for row in rows if row["listed"]]),
        unread=unread or [],
        unpriced=[
            Unpriced(row["market"], row["pool"], row["price_reason"]) for row in rows if row["tvl_usd_cents"] is None
        ],
    )


def big_tables(markets: int, pools: int, tokens: int = 50) -> Tables:
    """Tables of this many pools, spread over the markets and tokens."""
    rows = [
        pool_row(
            number % markets,
            number,
            token_address=contract(5_000 + (number + number // markets) % tokens),
            symbol=f"TOK{(number + number // markets) % tokens}",
            supply_apy_bps=number % 3000,
            borrow_apy_bps=number % 4000,
            utilization_bps=number % 10_000,
            tvl_usd_cents=10**6 + number * 104_729_977 % 10**9,
        )
        for number in range(pools)
    ]
    return tables_of(rows)


def series_of(tables: Tables, runs: int, seconds: int = 3_600) -> Series:
    """The history of these pools: this many runs, so far apart, the last being the tables themselves."""
    rows = observations_of(tables.pools)
    changed = (
        rows.with_columns(
            pl.lit(LEDGER - back, pl.Int64).alias("observed_ledger"),
            pl.lit(CLOSE_TIME - back * seconds, pl.Int64).alias("ledger_close_time"),
            (pl.col("supply_apy_bps", "comparable_supply_apy_bps") + back * 7 % 31),
            (pl.col("tvl_usd_cents") + back * 104_729 % 10_000).alias("tvl_usd_cents"),
        )
        for back in range(runs - 1, -1, -1)
    )
    series = Series()
    for _ in series.extend(pl.concat(changed), LEDGER, CLOSE_TIME):
        pass  # the pages that are complete by then
    return series


def site_files(
    tables: Tables,
    series: Series | None = None,
    network: str = LOCAL,
    changes: Sequence[RunChange] = (),
    public_url: str | None = None,
) -> Iterator[RenderedFile]:
    """All files of the site of these tables."""
    pools = with_list_columns(
        tables.pools, list(periods_of((series or Series()).pools, CLOSE_TIME, tables.pools)), network_of(network).name
    )
    tables, coverage = replace(tables, pools=pools), protocol_list(tables, PROTOCOLS, (), "local")
    history = HistoryManifest(1, LEDGER, [])
    return render_site(tables, network, coverage, series or Series(), history, changes, public_url)


def site_of(
    tables: Tables,
    series: Series | None = None,
    network: str = LOCAL,
    changes: Sequence[RunChange] = (),
    public_url: str | None = None,
) -> dict[str, str]:
    """All texts of the site by key, without the page that is sent for a missing one."""
    files = site_files(tables, series, network, changes, public_url)
    return {file.key: file.data.decode() for file in files if file.key not in (MISSING_KEY, CARD_KEY)}


class Page(HTMLParser):
    """A page taken apart: its elements with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += data

    def all(self, tag: str) -> Iterator[dict[str, str]]:
        """The attributes of every element of a name."""
        return (attributes for name, attributes in self.elements if name == tag)
