"""Documents become files and are read back: what one file alone can be caught at."""

from __future__ import annotations

import json
from functools import cache

import pytest
from msgspec.structs import replace

from exporter.errors import CheckError
from exporter.render.lists import snapshots
from exporter.tree.documents import (
    AssetsPage,
    HistoryFile,
    HistoryManifest,
    MarketSummary,
    RunManifest,
    RunSettings,
    encode,
    page_token,
    timestamp,
)
from exporter.tree.read_back import parse_back, render_document
from tests.render.rendering import LEDGER, contract, pool, pools_frame, system_status

MARKET, TOKEN, OTHER = contract(1), contract(2), contract(3)


@cache
def page(*tokens: str, next_cursor: str | None = None) -> bytes:
    """An assets page of MARKET with one row a token."""
    return encode(AssetsPage(snapshots(pools_frame(pool(MARKET, token) for token in tokens)), next_cursor, LEDGER))


(ROW,) = json.loads(page(TOKEN))["data"]
ILL_FORMED: tuple[dict[str, object], ...] = (
    {"market": MARKET[:-1] + "1"},
    {"market": f"{MARKET}\n"},
    {"pool": ""},
    {"pool": "../x"},
    {"token_address": None},
    {"symbol": 5},
    {"decimals": 2**32},
    {"supply_apy_bps": -1},
    {"borrow_apy_bps": 1.5},
    {"total_supplied": 5},
    {"total_supplied": "05"},
    {"total_borrowed": ""},
    {"oracle_price_usd": "1."},
    {"tvl_usd_cents": "1.5"},
    {"observed_ledger": 0},
)


def summary(**changes: object) -> MarketSummary:
    """A summary of MARKET without pools."""
    fields: dict[str, object] = {
        "market": MARKET,
        "config_hash": "0123456789abcdef",
        "observed_ledger": LEDGER,
        "pool_count": 0,
        "pools": [],
        "truncated": False,
        "tvl_usd_cents": None,
        "priced_count": 0,
        "listed": True,
        "listed_reason": "package_list",
        "listed_source": "the app",
        "backstop": None,
        "pending": [],
        "risk": None,
    }
    return MarketSummary(**fields | changes)  # type: ignore[arg-type]


KEY = "history/pools/date=2026-11-21/1.parquet"
HISTORY = HistoryManifest(1, 1, [HistoryFile(KEY, "../another", 1, 1, "0" * 64, 1, 1)])
SETTINGS = RunSettings("made", [1, 2], 2, 200)
RUN = RunManifest("1-run", LEDGER, "2026-11-21T10:55:03Z", 1, 1, "v1/runs/1-run.parquet", "0" * 64, SETTINGS, [])


@pytest.mark.parametrize(
    ("key", "data", "message"),
    [
        ("v1/nothing.json", b"{}", "v1/nothing.json: no document has such a key"),
        ("v1/assets/index.json", b"", "v1/assets/index.json: does not decode as AssetsPage"),
        ("v1/assets/index.json", page(TOKEN)[:-1], "does not decode as AssetsPage"),
        ("v1/assets/index.json", page(TOKEN).replace(b"USDC", b"US\xffC"), "does not decode as AssetsPage"),
        ("v1/assets/index.json", page(TOKEN).replace(b':"329670245"', b":329670245"), r"\$\.data\[0\]\.tvl_usd_cents"),
        ("v1/assets/index.json", page(TOKEN).replace(b':"32967024554566"', b':"-1"'), r"\$\.data\[0\]\.total_supplied"),
        ("v1/assets/index.json", b'{"data":[]}', "missing required field `next_cursor`"),
        ("v1/assets/index.json", page(TOKEN).replace(b'{"market"', b'{"x":1,"market"'), "unknown field `x`"),
        *(
            ("v1/assets/index.json", encode({"data": [ROW | row]}), rf"\$\.data\[0\]\.{next(iter(row))}")
            for row in ILL_FORMED
        ),
        ("v1/assets/index.json", page(next_cursor="a.b"), r"\$\.next_cursor"),
        ("v1/assets/index.json", page() + b"\n", "not in canonical form"),
        ("v1/assets/index.json", b'{"next_cursor":null,"data":[],"observed_ledger":1}', "not in canonical form"),
        (
            "v1/assets/index.json",
            b'{"data":[],"data":[],"next_cursor":null,"observed_ledger":1}',
            "not in canonical form",
        ),
        ("v1/assets/limit/1.json", page(TOKEN, OTHER), r"\$\.data has 2 rows"),
        ("v1/assets/limit/0.json", page(TOKEN), r"\$\.data has 1 rows"),
        ("v1/assets/empty.json", page(TOKEN), "must be empty"),
        ("v1/assets/empty.json", page(next_cursor="abc"), "must be empty"),
        (f"v1/assets/market/{OTHER}/index.json", page(TOKEN), "a row with another market"),
        (f"v1/assets/token/{OTHER}/index.json", page(OTHER, TOKEN), "a row with another token_address"),
        ("v1/pages/47DEQpj8HBSa-_TImW-5JC.json", page(TOKEN), "its content has the token"),
        (f"v1/markets/{OTHER}.json", encode(summary()), r"\$\.market is"),
        (f"v1/markets/{MARKET}.json", encode(summary(config_hash="0123")), r"\$\.config_hash"),
        ("v1/runs/1-b.json", encode(RUN), r"\$\.run_id is 1-run"),
        ("v1/runs/1-run.json", encode(replace(RUN, files_key="v1/runs/1-b.parquet")), r"\$\.files_key is v1/runs/1-b"),
        ("v1/history.json", encode(HISTORY), r"\$\.files\[0\]\.url does not lead"),
    ],
)
def test_a_bad_file_is_refused_by_name(key: str, data: bytes, message: str) -> None:
    """A file that breaks its model, its form or its key is refused with its key and what is wrong."""
    with pytest.raises(CheckError, match=message) as caught:
        parse_back(key, data)

    assert str(caught.value).startswith(f"{key}: ")


def test_a_status_with_another_form_of_time_is_refused_by_name() -> None:
    """A time without its T is no time of a document."""
    data = encode(system_status(generated_at="2026-11-21 10:55:03Z"))

    with pytest.raises(CheckError, match=r"^v1/system/status\.json: .*\$\.generated_at"):
        parse_back("v1/system/status.json", data)


def test_page_token_is_base64url_of_sha256() -> None:
    """The token begins base64url(SHA-256): for no bytes at all 47DEQpj8HBSa-_TImW-5JC, a well-known digest."""
    assert "47DEQpj8HBSa-_TImW-5JC" == page_token(b"")


def test_timestamps_are_rfc3339_utc() -> None:
    """Unix seconds are written to the second, with a Z, in a form that the model accepts."""
    assert "2026-11-21T10:55:00Z" == timestamp(1_795_258_500)
    assert b"1970-01-01T00:00:00Z" in render_document(system_status(ledger_close_time=timestamp(0))).data
