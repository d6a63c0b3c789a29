"""Web pages, from the templates in ``site_templates`` (Jinja2, no build step)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from exporter.api.documents import timestamp
from exporter.compute import Tables
from exporter.files import FileKind, RenderedFile

INDEX_KEY = "index.html"


def template_folder() -> Path:
    """Where the templates are: inside the installed package, or beside it in a source checkout."""
    package = Path(str(files("exporter")))
    installed = package / "_site_templates"
    return installed if installed.is_dir() else package.parent / "site_templates"


def render_site(tables: Tables) -> list[RenderedFile]:
    """The pages of the web site. They depend on the tables alone."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["dollars"] = dollars
    page = environment.get_template("index.html.j2").render(
        ledger=tables.ledger,
        close_time=timestamp(tables.close_time),
        markets=_markets(tables),
        unread=tables.unread,
        unpriced_count=len(tables.unpriced),
    )
    return [RenderedFile(INDEX_KEY, page.encode(), FileKind.DOCUMENT)]


def _markets(tables: Tables) -> list[dict[str, Any]]:
    pools: dict[str, list[dict[str, Any]]] = {}
    columns = ("market", "pool", "symbol", "supply_apy_bps", "borrow_apy_bps", "utilization_bps", "tvl_usd_cents")
    for pool in tables.pools.select(columns).iter_rows(named=True):
        pools.setdefault(pool["market"], []).append(pool)
    by_value = tables.markets.sort(pl.col("tvl_usd_cents"), descending=True, nulls_last=True, maintain_order=True)
    return [market | {"pools": pools.get(market["market"], [])} for market in by_value.iter_rows(named=True)]


def percent(basis_points: int) -> str:
    """Basis points for people: 1199 is ``11.99 %``."""
    return f"{basis_points // 100:,}.{basis_points % 100:02d} %"


def dollars(cents: int | None) -> str:
    """US cents for people: 123456 is ``$1,234.56``; no price is a dash."""
    return "\N{EN DASH}" if cents is None else f"${cents // 100:,}.{cents % 100:02d}"
