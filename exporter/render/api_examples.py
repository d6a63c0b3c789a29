"""Finds examples for the parameters of the API: values that the tree of a run has an answer for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from exporter.best import is_listed
from exporter.deployments.networks import common_symbol
from exporter.protocols.compute import Tables
from exporter.tree.families import TOKENS_OF_SYMBOL

Examples = Mapping[str, str | int]
"""An example for each parameter that has one, by the parameter's name."""


def examples_of(tables: Tables, native: str | None) -> Examples:
    """The examples for a run: the addresses of one pool, and the checkpoint of the risk that the run shows.

    The pool is the first one of a listed market or, if no market is listed, the first one. So the examples are the same
    in the next run, if it reads the same markets. ``native`` is the contract of the native asset; None if it is not
    known.
    """
    pools = tables.pools.filter(is_listed()) if tables.pools.filter(is_listed()).height else tables.pools
    examples: dict[str, str | int] = {}
    for market, pool, token, protocol, symbol in (
        pools.select("market", "pool", "token_address", "protocol", "symbol").head(1).iter_rows()
    ):
        examples |= {"market": market, "pool": pool, "token": token, "address": token, "protocol": protocol}
        spoken = common_symbol(symbol, token, native)
        if TOKENS_OF_SYMBOL.pattern.fullmatch(TOKENS_OF_SYMBOL.key(symbol=spoken.lower())):
            examples["symbol"] = spoken
    if tables.risk is not None:
        examples["checkpoint"] = tables.risk.document.checkpoint
    return examples


def filled(path: str, examples: Examples) -> str:
    """The path with the examples in place of its parameters. A parameter without an example stays in its braces."""
    return re.sub(r"\{(\w+)\}", lambda match: quote(str(examples.get(match[1], match[0])), safe="{}"), path)
