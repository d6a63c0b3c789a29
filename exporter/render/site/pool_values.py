"""The values in the gaps of a pool's page (``pool.html.j2``), as HTML.

There are as many of these pages as there are pools, and they differ in some fifty values. So the template is rendered
once for each shape, which says what there is at all, and a page is its pieces with these values between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from exporter.protocols.base import Parameter
from exporter.render.site import cells, pool_terms, text

SECTIONS = (
    *("price", "price_time", "oracle", "own_pool", "wasm_hash", "app"),
    *("table", "parameters", "spokes", "curve", "pending"),
)
"""The values of which a page may have none: which it has is its shape."""


def pool_values(
    row: Mapping[str, Any],
    parameters: Sequence[Parameter],
    charts: Sequence[Markup],
    more: Mapping[str, str],
    *,
    app: str,
    listed: str | None,
    curve: Markup,
    pending: Markup,
) -> dict[str, str]:
    """The values by the names of their gaps; what the page has not is empty.

    Args:
        row: of the pools frame, with the symbol as people know it.
        parameters: of its rate model.
        charts: the three charts and their table, or nothing.
        more: values that many pools share, in plain text.
        app: a link to it in the app of its protocol, or nothing.
        listed: the JSON of its spokes, if it has any.
        curve: its utilization curve, or nothing.
        pending: what is queued for it or its market, or nothing.
    """
    labels = "".join(f" {label}" for label in (row["pool_label"], row["token_label"]) if label)
    decimals, symbol, market = row["decimals"], row["symbol"], row["market_name"]
    reason, cents, price = row["price_reason"], row["tvl_usd_cents"], row["oracle_price_usd"]
    apr, index = row["apr_decimals"], row["index_decimals"]
    drawn = dict(zip(("rate_chart", "use_chart", "value_chart", "table"), charts or [Markup()] * 4, strict=True))
    plain: dict[str, str] = {
        "market": row["market"],
        "pool": row["pool"],
        "token": row["token_address"],
        "own_pool": "" if row["pool"] == row["token_address"] else row["pool"],
        "short_symbol": text.cut(symbol, 14) + labels,
        "short_market": text.cut(market),
        "protocol": text.words(row["protocol"]),
        "version": text.harmless(row["version"]),
        "exact_supply": text.exact_percent(row["total_supply_apy_bps"]),
        "exact_borrow": text.exact_percent(row["comparable_borrow_apy_bps"]),
        "own_supply": text.exact_percent(row["supply_apy_bps"]),
        "own_borrow": text.exact_percent(row["borrow_apy_bps"]),
        "utilization": text.percent(row["utilization_bps"]),
        "exact_utilization": text.exact_percent(row["utilization_bps"]),
        "value": text.dollars(cents),
        "exact_value": text.exact_dollars(cents),
        "short_price": text.price(price),
        "price": price or "",
        "long_reason": text.no_price(reason),
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
        **more,
    }
    for gap, column in _AMOUNTS:
        worth = row.get(f"{gap}_usd_cents")
        plain[gap] = text.amount(row[column], decimals) + ("" if worth is None else f" · {text.dollars(worth)}")
        plain[f"exact_{gap}"] = text.exact_amount(row[column], decimals)
    escaped = text.escaped("\0".join(plain.values())).split("\0")  # all at once; no text has a NUL in it
    return dict(zip(plain, escaped, strict=True)) | {
        "symbol": cells.name(symbol, text.SYMBOL_LENGTH),
        "long_symbol": cells.name(symbol, 24) + cells.label(labels.strip()),
        "app": app,
        "supply": text.percent(row["total_supply_apy_bps"]) + cells.reward(row, "supply"),
        "borrow": text.percent(row["comparable_borrow_apy_bps"]) + cells.reward(row, "borrow"),
        "market_name": cells.name(market),
        "long_market": cells.name(market, 40),
        "status": cells.status(row["market_status"]),
        "parameters": "\n".join(
            [_parameter(item.name, item.value, item.decimals, item.no_limit) for item in parameters]
        ),
        "gates": cells.pool_gates(row),
        "operations": pool_terms.operations(row),
        "risk": pool_terms.risk(row),
        "spokes": pool_terms.spokes(listed),
        "rewards": pool_terms.rewards(row),
        "curve": curve,
        "pending": pending,
        **drawn,
    }


_AMOUNTS = (
    ("supplied", "total_supplied"),
    ("borrowed", "total_borrowed"),
    ("collateral", "total_collateral"),
    ("backstop", "backstop_credit"),
)


@lru_cache(maxsize=1 << 13)
def _parameter(name: str, value: int, decimals: int, no_limit: bool) -> str:
    exact, label = text.fixed_point(value, decimals), cells.code(name)
    return cells.fact(label, "no limit", exact) if no_limit else cells.fact(label, exact)
