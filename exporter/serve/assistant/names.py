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

MOST_SYMBOLS = 20
"""The most symbols that an error names."""

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
    shown = " or ".join(f"{cut(known[name])!r}" for name in [*similar][:MOST_MEANT])
    return f"; did you mean {shown}?" if shown else ""


def there_are(asked: str, symbols: Sequence[str]) -> str:
    """What there is in place of a token that was asked for: the first symbols, and what was probably meant.

    The symbols are those of listed markets. What a stranger called a token is no suggestion.
    """
    if not symbols:
        return "the tool tokens lists all"
    names = [*dict.fromkeys(cut(symbol) for symbol in symbols)]
    listed = ", ".join(f"{name!r}" for name in names[:MOST_SYMBOLS])
    more = f" and {len(names) - MOST_SYMBOLS} more, which the tool tokens lists" if len(names) > MOST_SYMBOLS else ""
    return f"there are {listed}{more}{meant(asked, symbols)}"


def market_named(market: str, every: Sequence[Json]) -> Json:
    """The entry of the one market with this address or name, or of this protocol: of several, the only listed one.

    Anybody can give a market the name of a listed one, and must not take it away from that. Raises `ConfigError` with
    the candidates if it is not clear which.
    """
    wanted = market.lower()
    every = sorted(every, key=lambda each: each["listed"] is False)
    named = [each for each in every if each["market"] == market.upper() or each["name"].lower() == wanted]
    found = named or [each for each in every if each["protocol"] == wanted]
    if not found:
        similar = meant(market, (each["name"] for each in every if each["listed"] is not False))
        raise ConfigError(f"no such market was read; list_markets has all, and status what was not read{similar}")
    if len(found) > 1 and (found[0]["listed"] is False or found[1]["listed"] is not False):
        raise ConfigError(f"{len(found)} markets fit; ask for one by its address: {_candidates(found)}")
    return found[0]


def _candidates(markets: Sequence[Json]) -> str:
    """The first of some markets, each with its name, and whether it is listed."""
    shown = (
        f"{each['market']} ({cut(each['name'])!r}{', not listed' if each['listed'] is False else ''})"
        for each in markets[:MOST_CANDIDATES]
    )
    return ", ".join(shown)


def names_token(token: str, entry: Json, native: str | None) -> bool:
    """Whether a token's address, its symbol in any case, or its asset as CODE:ISSUER is asked for."""
    symbols = lookup_symbols(entry["symbol"], entry["address"], native)
    if entry.get("issuer") is not None:
        symbols |= {in_lower_case(f"{symbol}{sign}{entry['issuer']}") for symbol in [*symbols] for sign in ":-"}
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
        listed = "; ".join(f"market {row['market']} ({cut(row['market_name'])!r}), pool {row['pool']}" for row in rows)
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
        symbols = pools.filter(pl.col("listed").fill_null(value=True))["common_symbol"]
        missing = f"no pool of the token {token[:MOST_ASKED]!r} was read; {there_are(token, symbols.to_list())}"
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
