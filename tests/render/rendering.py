"""Small frames and published trees for the tests of what is rendered and served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import polars as pl
from starlette.types import ASGIApp

from exporter.protocols.compute import Tables
from exporter.render.lists import render_assets
from exporter.render.run_documents import render_markets
from exporter.tables import MARKETS_SCHEMA
from exporter.tree.documents import SystemStatus
from exporter.tree.families import STATUS_KEY
from exporter.tree.files import RenderedFile
from exporter.tree.read_back import render_document
from tests.audit.trees import small_tree
from tests.history import frames

LEDGER = 55_261_759
SIZES = (1, 5, 10, 20, 50, 100, 200)


def contract(number: int) -> str:
    """The well-formed address of a made contract; a greater number gives a greater address."""
    # Hexadecimal digits are not all in the alphabet, so each is moved to a letter.
    digits = f"{number:055x}".translate(str.maketrans("0123456789abcdef", "ABCDEFGHIJKLMNOP"))
    return f"C{digits}"


def pool(market: str, token: str, **changes: object) -> dict[str, object]:
    """One row of a pools frame."""
    row: dict[str, object] = {
        "market": market,
        "pool": token,
        "token_address": token,
        "symbol": "USDC",
        "decimals": 7,
        "protocol": "blend",
        "supply_apy_bps": 610,
        "borrow_apy_bps": 1199,
        "utilization_bps": 6540,
        "total_supplied": 32_967_024_554_566,
        "total_borrowed": 21_562_828_886_421,
        "total_collateral": 0,
        "oracle_price_usd": "1.00000000000000",
        "tvl_usd_cents": 329_670_245,
        "observed_ledger": LEDGER,
    }
    return row | changes


def market_row(address: str, **changes: object) -> dict[str, object]:
    """One row of a markets frame."""
    row: dict[str, object] = {
        "market": address,
        "protocol": "blend",
        "version": "v2",
        "name": "Fixed",
        "status": "active",
        "config_hash": "00112233aabbccdd",
        "pool_count": 1,
        "unread_count": 0,
        "tvl_usd_cents": 5,
        "priced_count": 0 if changes.get("tvl_usd_cents", 5) is None else 1,
        "listed": True,
        "listed_reason": "package_list",
        "listed_source": "the app",
        "observed_ledger": LEDGER,
    }
    return row | changes


def pools_frame(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """A pools frame of the rows, sorted as the tables are."""
    ordered = sorted(rows, key=lambda row: (str(row["market"]), str(row["pool"])))
    return frames.pools_frame(ordered)


def markets_frame(pools: pl.DataFrame, unread: Mapping[str, int] | None = None) -> pl.DataFrame:
    """The markets frame that goes with the pools; `unread` counts further member pools, by market."""
    unread = unread or {}
    rows = []
    for market in sorted({*pools["market"], *unread}):
        members = pools.filter(pl.col("market") == market)
        values = [value for value in members["tvl_usd_cents"] if value is not None]
        worth = sum(values) if values else None
        missing = unread.get(market, 0)
        count = members.height + missing
        counts = {"pool_count": count, "unread_count": missing, "priced_count": len(values)}
        rows.append(market_row(market, tvl_usd_cents=worth, **counts))
    return pl.DataFrame(rows, schema=MARKETS_SCHEMA)


def system_status(**changes: Any) -> SystemStatus:
    """The status document of a small published tree, with other values."""
    published = msgspec.json.decode(small_tree()[STATUS_KEY], type=SystemStatus)
    return msgspec.structs.replace(published, **{"page_sizes": list(SIZES), "default_page_size": 50} | changes)


def write(root: Path, files: Iterable[RenderedFile]) -> None:
    """Write rendered files into a folder."""
    for file in files:
        path = root / file.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)


def write_tree(root: Path, pools: pl.DataFrame, markets: pl.DataFrame) -> None:
    """Render a whole run into a folder, status document and all."""
    write(root, render_assets(pools, markets, SIZES, 50, LEDGER))
    write(root, render_markets(Tables(LEDGER, 0, pools, markets), 200))
    write(root, [render_document(system_status())])


def fetch(app: ASGIApp, url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> httpx.Response:
    """Ask an application for a URL (path and query); what fails inside it is an answer, too."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://preview") as client:
            return await client.request(method, url, headers=dict(headers or {}))

    return asyncio.run(ask())
