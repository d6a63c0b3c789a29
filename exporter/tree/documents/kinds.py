"""Kinds of values that the documents of several subjects have, each with its meaning."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

import exporter
from exporter.tree.dates import DAY
from exporter.tree.values import ContractAddress, Count, Cursor, Ledger, UsdCents, doc

EXPORTER_VERSION: str = exporter.__version__
"""The version of this exporter, which files name."""

Passphrase = Annotated[str, doc("The passphrase of the network that was read.")]
Day = Annotated[
    str,
    Meta(pattern=f"^{DAY}$", min_length=10, max_length=10, description="A day, in UTC.", examples=["2026-11-18"]),
]
MarketAddress = Annotated[ContractAddress, doc("The market's contract, a strkey.")]
ObservedLedger = Annotated[Ledger, doc("The ledger at which this was observed.")]
PricedValue = Annotated[
    UsdCents | None, doc("Value of all pools that have a price, in US cents, rounded down; null when none has.")
]
PricedCount = Annotated[Count, doc("Pools that have a price, over which the values here are sums.")]
Listed = Annotated[
    bool,
    doc(
        "Whether the exporter's lists or the publisher vouch for the market. Anybody can create one that is not listed."
    ),
]
UnlistedMarkets = Annotated[
    Count, doc("Markets that are not listed. Only the fields that begin with `unlisted_` include them.")
]
UnlistedPools = Annotated[Count, doc("Pools of markets that are not listed.")]
UnlistedPriced = Annotated[Count, doc("Pools of markets that are not listed that have a price, by their own oracles.")]
UnlistedValue = Annotated[
    UsdCents | None,
    doc(
        "Value that the pools of markets that are not listed claim, in US cents, by their markets' own oracles; null "
        "when none has a price."
    ),
]
NextCursor = Annotated[
    Cursor | None, doc("Cursor of the next page, for `?cursor=` of the same path; null on the last page.")
]
OlderCursor = Annotated[
    Cursor | None, doc("Cursor of the page with older buckets, for `?cursor=` of the same path; null on the oldest.")
]
