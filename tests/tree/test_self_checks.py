"""Documents that contradict their key or themselves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from exporter.tree.documents import (
    AssetHistory,
    Document,
    HistoryBucket,
    HistoryFile,
    HistoryManifest,
    ManifestFile,
    MarketEntry,
    MarketList,
    PoolReference,
    ProtocolSummary,
    ProtocolTotals,
    RunManifest,
    TokenDocument,
    Unpriced,
    encode,
    page_token,
)
from exporter.tree.read_back import contradiction
from tests.render.rendering import LEDGER, contract, system_status

A, B = contract(1), contract(2)

EARLY = HistoryBucket(
    "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "1", "1", 1, 1, 1, "5", "1.0", 2, 1, LEDGER - 5, LEDGER - 4
)
LATE = replace(
    EARLY,
    start_time="2026-11-21T11:00:00Z",
    end_time="2026-11-21T12:00:00Z",
    first_ledger=LEDGER - 3,
    last_ledger=LEDGER,
)
HISTORY = AssetHistory(A, B, "1h", LEDGER, [EARLY, LATE], None)
MARKET = MarketEntry(A, "blend", "v2", "Fixed", "active", LEDGER, 1, "5")
MARKETS = MarketList(LEDGER, [MARKET, replace(MARKET, market=B)])
TOKEN = TokenDocument(A, "USDC", 7, LEDGER - 1, LEDGER, [PoolReference(A, A), PoolReference(B, A)])
SUMMARY = ProtocolSummary(LEDGER, 2, 3, "9", [ProtocolTotals("alula", 1, 1, None), ProtocolTotals("blend", 1, 2, "9")])
KEY = "history/pools/date=2026-11-21/1.parquet"
FILE = HistoryFile(KEY, f"../{KEY}", 1, 1, "0" * 64, 1, 1, 1)
RUN = RunManifest("run-1", LEDGER, "2026-11-21T10:55:03Z", [ManifestFile("a", "page", 1, "0" * 64)])


def said(document: Document, **names: str) -> str | None:
    """What is wrong with a document under a key that gives these names."""
    return contradiction(document, names, encode(document))


@pytest.mark.parametrize(
    "document", [HISTORY, MARKETS, TOKEN, SUMMARY, HistoryManifest(1, 1, [FILE]), RUN, system_status()]
)
def test_sound_documents_pass(document: Document) -> None:
    """What is right is left alone."""
    assert said(document) is None


@pytest.mark.parametrize(
    ("document", "names", "message"),
    [
        (HISTORY, {"market": B}, f"$.market is {A}"),
        (HISTORY, {"pool": A}, f"$.pool is {B}"),
        (HISTORY, {"bucket": "1d"}, "$.bucket is 1h"),
        (TOKEN, {"address": B}, f"$.address is {A}"),
        (RUN, {"run_id": "run-2"}, "$.run_id is run-1"),
        (HISTORY, {"token": "x" * 22}, f"its content has the token {page_token(encode(HISTORY))}"),
    ],
)
def test_another_document_than_the_key_names(document: Document, names: dict[str, str], message: str) -> None:
    """A document that says it is another than its key names is refused with what it says."""
    assert message == said(document, **names)


def bucket(**changes: Any) -> AssetHistory:
    """The history with changes to its first bucket."""
    return replace(HISTORY, data=[replace(EARLY, **changes), LATE])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (bucket(end_time=EARLY.start_time), "$.data[0].end_time is not after"),
        (bucket(last_ledger=LEDGER - 6), "$.data[0].last_ledger is below"),
        (bucket(priced_count=3), "$.data[0].priced_count is above"),
        (bucket(priced_count=0), "$.data[0]: value and price must be there"),
        (bucket(oracle_price_usd=None), "$.data[0]: value and price must be there"),
        (bucket(tvl_usd_cents=None), "$.data[0]: value and price must be there"),
        (bucket(last_ledger=LEDGER - 3), "$.data must ascend"),
        (bucket(end_time="2026-11-21T11:00:01Z"), "$.data must ascend"),
        (replace(HISTORY, data=[LATE, EARLY]), "$.data must ascend"),
        (replace(HISTORY, observed_ledger=LEDGER - 1), f"$.observed_ledger is {LEDGER - 1}"),
        (replace(MARKETS, data=MARKETS.data[::-1]), "$.data must ascend by market"),
        (replace(MARKETS, observed_ledger=1), "$.data has a market of another ledger"),
        (replace(TOKEN, pools=TOKEN.pools[::-1]), "$.pools must ascend"),
        (replace(TOKEN, pools=[*TOKEN.pools, TOKEN.pools[-1]]), "$.pools must ascend"),
        (replace(TOKEN, first_seen_ledger=LEDGER + 1), "$.first_seen_ledger is"),
        (replace(SUMMARY, market_count=3), "$.market_count is 3"),
        (replace(SUMMARY, pool_count=2), "$.pool_count is 2"),
        (replace(SUMMARY, tvl_usd_cents=None), "$.tvl_usd_cents is None"),
        (HistoryManifest(1, 1, [replace(FILE, url=KEY)]), "$.files[0].url does not lead"),
        (replace(RUN, files=[*RUN.files, *RUN.files]), "$.files must ascend by key"),
        (system_status(unread_count=1), "$.unread_count is 1, but $.unread has 0"),
        (system_status(unpriced=[Unpriced(A, B, "old")]), "$.unpriced_count is 0, but $.unpriced has 1"),
    ],
)
def test_documents_that_contradict_themselves(document: Document, message: str) -> None:
    """A document of which two parts do not agree is refused with the parts."""
    assert isinstance(document, Struct)
    assert (said(document) or "").startswith(message)
