"""Finds what a question names: tokens, markets and pools by address or name, and what was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

import polars as pl

from exporter.deployments.networks import in_lower_case, lookup_symbols
from exporter.errors import ConfigError
from exporter.render.site.text import cut
from exporter.serve.assistant.form import Json

MOST_CANDIDATES = 10
MOST_ASKED = 80
"""The most characters of a question's name that are compared with others or shown."""

MOST_MEANT = 3
"""The most names that are suggested."""

SHORTEST_PART = 3
"""The fewest characters of a question's name for which it may be a part of the name that was meant."""


def meant(asked: str, names: Iterable[str]) -> str:
    """A question for the names that were probably meant; empty if none is similar.

    They are names that what was asked holds or is a part of, or that are spelt nearly so.
    """
    known = {name.lower(): name for name in names}
    wanted = asked.lower()[:MOST_ASKED]
    words = re.findall(r"[^\s,;]+", wanted)
    close = difflib.get_close_matches(wanted, known, n=MOST_MEANT, cutoff=0.7)
    parts = [name for name in known if len(wanted) >= SHORTEST_PART and wanted in name]
    similar = dict.fromkeys([*(word for word in words if word in known), *parts, *close])
    shown = " or ".join(cut(known[name]) for name in [*similar][:MOST_MEANT])
    return f"; did you mean {shown}?" if shown else ""


def market_named(market: str, every: Sequence[Json]) -> Json:
    """The entry of the one market that is meant. Raises `ConfigError` with the candidates if there are several."""
    wanted = market.lower()
    found = [each for each in every if each["market"] == market.upper() or each["name"].lower() == wanted]
    if not found:
        if any(each["protocol"] == wanted for each in every):
            raise ConfigError(f"{wanted} is a protocol; list_markets with protocol={wanted!r} names its markets")
        similar = meant(market, (each["name"] for each in every))
        raise ConfigError(f"no such market was read; list_markets has all{similar}")
    if len(found) > 1:
        addresses = ", ".join(each["market"] for each in found[:MOST_CANDIDATES])
        raise ConfigError(f"{len(found)} markets fit; ask for one by its address: {addresses}")
    return found[0]


def names_token(token: str, entry: Json, native: str | None) -> bool:
    """Whether a token's address or symbol, in any case, is asked for."""
    symbols = lookup_symbols(entry["symbol"], entry["address"], native)
    return bool(entry["address"] == token.upper() or in_lower_case(token) in symbols)


def is_token(token: str) -> pl.Expr:
    """Whether a pool is of the token with this address or symbol."""
    # Letters that differ only in case have as many bytes, except for a few signs that look like another letter.
    symbols = (
        (pl.col(name).str.to_lowercase() == token.lower()) & (pl.col(name).str.len_bytes() == len(token.encode()))
        for name in ("symbol", "common_symbol")
    )
    return pl.any_horizontal(pl.col("token_address") == token.upper(), *symbols)


def is_market(market: str) -> pl.Expr:
    """Whether a pool is of the market with this address or name."""
    return (pl.col("market") == market.upper()) | (pl.col("market_name").str.to_lowercase() == market.lower())


def one_pool(pools: pl.DataFrame, market: str, pool: str) -> Json:
    """The row of the one pool that is meant. Raises `ConfigError` with the candidates if there are several."""
    missing = "no such pool was read; find_pools lists them, and status names what is missing"
    matching = _some(pools, is_market(market) & ((pl.col("pool") == pool) | is_token(pool)), missing)
    if matching.height > 1:
        rows = matching.head(MOST_CANDIDATES).rows(named=True)
        listed = "; ".join(f"market {row['market']} ({cut(row['market_name'])}), pool {row['pool']}" for row in rows)
        raise ConfigError(f"{matching.height} pools fit; ask for one by its addresses: {listed}")
    return matching.row(0, named=True)


def _some(pools: pl.DataFrame, condition: pl.Expr, otherwise: str) -> pl.DataFrame:
    matching = pools.filter(condition)
    if matching.is_empty():
        raise ConfigError(otherwise)
    return matching


def pools_of(pools: pl.DataFrame, token: str | None, protocol: str | None, market: str | None) -> pl.DataFrame:
    """The pools of a token, a protocol and a market, as far as each is given. Raises `ConfigError` if there is none."""
    if token is not None:
        similar = meant(token, pools["common_symbol"])
        missing = f"no pool of the token {token[:MOST_ASKED]!r} was read; the tool tokens lists all tokens{similar}"
        pools = _some(pools, is_token(token), missing)
    if market is not None:
        similar = meant(market, pools["market_name"])
        pools = _some(pools, is_market(market), f"no pool of this market was read; list_markets has all{similar}")
    if protocol is not None:
        names = ", ".join(sorted(pools["protocol"].unique()))
        pools = _some(
            pools,
            pl.col("protocol") == protocol.lower(),
            f"none is of {protocol[:MOST_ASKED]!r}; the protocols are {names}",
        )
    return pools
