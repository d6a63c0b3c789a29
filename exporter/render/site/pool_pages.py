"""The pages of pools (``pool.html.j2``).

As they differ in some fifty values, the template is rendered once for each shape, which says what there is at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from markupsafe import Markup, escape

from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter
from exporter.protocols.compute import Tables, pending_by_market
from exporter.render.run_documents import basis_points, rate_curves
from exporter.render.site import cells, pool_terms, text
from exporter.render.site.charts import curve
from exporter.render.site.templates import environment
from exporter.render.site.trends import BUCKET_WORDS, Trend, pool_charts
from exporter.tables import time_text
from exporter.tree.documents import ProtocolCoverage
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.pools import RatePoint

SECTIONS = (
    *("price", "price_time", "oracle", "own_pool", "wasm_hash", "app_url"),
    *("parameters", "spokes", "curve", "pending"),
)
"""The values of which a page may have none: which it has is its shape."""


def pool_pages(
    tables: Tables,
    pools: pl.DataFrame,
    trends: Iterable[Trend],
    protocols: Mapping[str, ProtocolCoverage],
    context: Callable[[str], dict[str, Any]],
) -> Iterator[RenderedFile]:
    """The page of each pool; ``pools`` are those of the tables, with the symbols and labels that people see."""
    queued = pending_by_market(tables.pending)
    times = tables.pools.select(time_text(pl.col("price_timestamp"))).to_series()
    curves = rate_curves(tables.pools, tables.parameters, PROTOCOLS)
    shapes: dict[tuple[bool, ...], Pieces] = {}
    for row, time, points, trend in zip(pools.iter_rows(named=True), times, curves, trends, strict=True):
        place = row["market"], row["pool"]
        pending = [item for item in queued.get(place[0], ()) if item.pool in (None, place[1])]
        values = _plain(row, time, trend, protocols[row["protocol"]])
        values |= _markup(row, trend, tables.parameters.get(place, ()), points)
        values["spokes"] = pool_terms.spokes(tables.spokes.get(place))
        values["pending"] = pool_terms.pending(pending, tables.close_time)
        key, shape = f"pools/{place[0]}/{place[1]}.html", tuple(bool(values[name]) for name in SECTIONS)
        if shape not in shapes:
            shapes[shape] = Pieces(values, context(key) | {"has": dict(zip(SECTIONS, shape, strict=True))})
        data, links = shapes[shape].page(values)
        yield RenderedFile(key, data, FileKind.DOCUMENT, links=links)


class Pieces:
    """The template, rendered once with gaps, the fields of ``it``; values are escaped HTML without links."""

    def __init__(self, gaps: Iterable[str], context: Mapping[str, Any]) -> None:
        marks = {name: Markup(f"\0{name}\0") for name in gaps}
        rendered = environment().get_template("pool.html.j2").render(context, it=marks)
        parts = rendered.split("\0")
        self._parts, self._names = [part.encode() for part in parts], parts[1::2]
        inside = re.compile(rf'(?:href|src)="{re.escape(context["root"])}([^"]*)"')
        links = [f"/{link}" for link in dict.fromkeys(inside.findall(rendered))]
        self._links = tuple(link for link in links if "\0" not in link)
        self._led = "\n".join(link for link in links if "\0" in link).split("\0")
        self._led_by = self._led[1::2]

    def page(self, values: Mapping[str, str]) -> tuple[bytes, tuple[str, ...]]:
        """The page with these values in the gaps, and where it leads inside the tree."""
        self._parts[1::2] = [values[name].encode("utf-8", "replace") for name in self._names]
        self._led[1::2] = [values[name] for name in self._led_by]
        return b"".join(self._parts), (*self._links, *"".join(self._led).splitlines())


_AMOUNTS = (
    ("supplied", "total_supplied"),
    ("borrowed", "total_borrowed"),
    ("collateral", "total_collateral"),
    ("backstop", "backstop_credit"),
)


def _plain(row: Mapping[str, Any], price_time: str | None, trend: Trend, about: ProtocolCoverage) -> dict[str, str]:
    decimals, cents, price = row["decimals"], row["tvl_usd_cents"], row["oracle_price_usd"]
    apr, index = row["apr_decimals"], row["index_decimals"]
    plain = {
        "market": row["market"],
        "pool": row["pool"],
        "token": row["token_address"],
        "own_pool": "" if row["pool"] == row["token_address"] else row["pool"],
        "short_symbol": text.cut(row["symbol"], 14) + _labels(row),
        "short_market": text.cut(row["market_name"]),
        "app_url": row["app_url"] or "",
        "protocol": text.words(row["protocol"]),
        "title": about.title,
        "version": text.harmless(row["version"]),
        "exact_supply": text.exact_percent(row["total_supply_apy_bps"]),
        "exact_borrow": text.exact_percent(row["comparable_borrow_apy_bps"]),
        "own_supply": text.exact_percent(row["supply_apy_bps"]),
        "own_borrow": text.exact_percent(row["borrow_apy_bps"]),
        "supply_compounding": text.compounded(about.supply_compounding),
        "borrow_compounding": text.compounded(about.borrow_compounding),
        "utilization": text.percent(row["utilization_bps"]),
        "exact_utilization": text.exact_percent(row["utilization_bps"]),
        "value": text.dollars(cents),
        "exact_value": text.exact_dollars(cents),
        "short_price": text.price(price),
        "price": price or "",
        "price_time": price_time or "",
        "long_reason": text.no_price(row["price_reason"]),
        "oracle": row["oracle"] or "",
        "decimals": str(decimals),
        "stored_supply": text.fixed_point(row["stored_supply_apr"] * 100, apr),
        "stored_borrow": text.fixed_point(row["stored_borrow_apr"] * 100, apr),
        "accrued_supply": text.fixed_point(row["accrued_supply_apr"] * 100, apr),
        "accrued_borrow": text.fixed_point(row["accrued_borrow_apr"] * 100, apr),
        "rate_modifier": text.fixed_point(row["rate_modifier"], row["rate_modifier_decimals"]),
        "supply_index": text.fixed_point(row["supply_index"], index),
        "borrow_index": text.fixed_point(row["borrow_index"], index),
        "accrued_at": text.moment(row["last_accrual_time"]),
        "wasm_hash": row["wasm_hash"] or "",
        "bucket": BUCKET_WORDS[trend.bucket],
    }
    for gap, column in _AMOUNTS:
        worth = row.get(f"{gap}_usd_cents")
        plain[gap] = text.amount(row[column], decimals) + ("" if worth is None else f" · {text.dollars(worth)}")
        plain[f"exact_{gap}"] = text.exact_amount(row[column], decimals)
    escaped = escape("\0".join(plain.values())).split("\0")  # all at once; no text has a NUL in it
    return dict(zip(plain, escaped, strict=True))


def _markup(
    row: Mapping[str, Any], trend: Trend, parameters: Sequence[Parameter], points: Sequence[RatePoint]
) -> dict[str, str]:
    rates, utilization, value, table = pool_charts(trend)
    drawn = ""
    if points:
        now = basis_points(row["accrued_utilization"], row["utilization_decimals"])
        rate = basis_points(row["accrued_borrow_apr"], row["apr_decimals"])
        drawn = curve([(point.utilization_bps, point.borrow_apr_bps) for point in points], (now, rate))
    return {
        "symbol": cells.name(row["symbol"], text.SYMBOL_LENGTH),
        "long_symbol": cells.name(row["symbol"], 24) + cells.label(_labels(row).strip()),
        "supply": text.percent(row["total_supply_apy_bps"]) + cells.reward(row, "supply"),
        "borrow": text.percent(row["comparable_borrow_apy_bps"]) + cells.reward(row, "borrow"),
        "market_name": cells.name(row["market_name"]),
        "long_market": cells.name(row["market_name"], 40),
        "parameters": "\n".join([_parameter(item) for item in parameters]),
        "gates": cells.pool_gates(row),
        "operations": pool_terms.operations(row),
        "risk": pool_terms.risk(row),
        "rewards": pool_terms.rewards(row),
        "curve": drawn,
        "rate_chart": rates,
        "use_chart": utilization,
        "value_chart": value,
        "table": table,
    }


def _labels(row: Mapping[str, Any]) -> str:
    return "".join(f" {label}" for label in (row["pool_label"], row["token_label"]) if label)


def _parameter(item: Parameter) -> str:
    exact, label = text.fixed_point(item.value, item.decimals), cells.code(item.name)
    return cells.fact(label, "no limit", exact) if item.no_limit else cells.fact(label, exact)
