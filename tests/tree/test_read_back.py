"""Reading rendered files back: what one file alone can be caught at."""

from __future__ import annotations

import pytest

from exporter.errors import CheckError
from exporter.render.pages import snapshots
from exporter.render.tree import market_pool
from exporter.tree.documents import (
    AssetDetail,
    AssetHistory,
    AssetsPage,
    Document,
    HistoryManifest,
    ManifestFile,
    MarketList,
    MarketSummary,
    OpenApiDocument,
    ProtocolSummary,
    RunManifest,
    SystemStatus,
    TokenDocument,
    encode,
    page_token,
)
from exporter.tree.files import FileKind, RenderedFile
from exporter.tree.read_back import model_of, parse_back
from tests.render.rendering import LEDGER, contract, pool, pools_frame, system_status

MARKET, TOKEN, OTHER = contract(1), contract(2), contract(3)


def page(*tokens: str, next_cursor: str | None = None) -> bytes:
    """An assets page of MARKET with one row a token."""
    return encode(AssetsPage(snapshots(pools_frame(pool(MARKET, token) for token in tokens)), next_cursor))


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
    }
    return MarketSummary(**fields | changes)  # type: ignore[arg-type]


def document(key: str, data: bytes) -> RenderedFile:
    """A rendered file of any kind."""
    return RenderedFile(key, data, FileKind.DOCUMENT)


@pytest.mark.parametrize(
    ("key", "model"),
    [
        ("v1/assets/index.json", AssetsPage),
        ("v1/assets/limit/0.json", AssetsPage),
        ("v1/assets/empty.json", AssetsPage),
        (f"v1/assets/market/{MARKET}/index.json", AssetsPage),
        (f"v1/assets/token/{TOKEN}/limit/200.json", AssetsPage),
        (f"v1/assets/market/{MARKET}/token/{TOKEN}/limit/1.json", AssetsPage),
        ("v1/pages/47DEQpj8HBSa-_TImW-5JC.json", AssetsPage),
        (f"v1/markets/{MARKET}.json", MarketSummary),
        (f"v1/assets/{MARKET}/{TOKEN}.json", AssetDetail),
        (f"v1/assets/{MARKET}/a-pool_1.json", AssetDetail),
        (f"v1/assets/{MARKET}/{TOKEN}/history/15m.json", AssetHistory),
        ("v1/buckets/47DEQpj8HBSa-_TImW-5JC.json", AssetHistory),
        ("v1/markets.json", MarketList),
        (f"v1/tokens/{TOKEN}.json", TokenDocument),
        ("v1/protocol/summary.json", ProtocolSummary),
        ("v1/openapi.json", OpenApiDocument),
        ("v1/history.json", HistoryManifest),
        ("v1/system/status.json", SystemStatus),
        ("v1/runs/55261759-0a1b2c3d.json", RunManifest),
        ("v1/markets/x.json", None),
        (f"v1/assets/{MARKET}/{TOKEN}/history.json", None),
        (f"v1/assets/{MARKET}/-x.json", None),
        ("v1/tokens/x.json", None),
        ("v1/assets/limit/01.json", None),
        ("index.html", None),
        ("v1/assets/index.json\n", None),
    ],
)
def test_the_key_implies_the_model(key: str, model: type[Document] | None) -> None:
    """Each key of the tree has one model, and other keys have none."""
    assert model is model_of(key)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("v1/assets/index.json", page(TOKEN, OTHER, next_cursor="abc")),
        ("v1/assets/limit/2.json", page(TOKEN, OTHER)),
        ("v1/assets/empty.json", page()),
        (f"v1/assets/market/{MARKET}/token/{TOKEN}/index.json", page(TOKEN)),
        (f"v1/pages/{page_token(page(TOKEN))}.json", page(TOKEN)),
        (f"v1/markets/{MARKET}.json", encode(summary())),
        ("v1/system/status.json", encode(system_status())),
        (
            "v1/runs/a.json",
            encode(
                RunManifest("a", LEDGER, "2026-11-21T10:55:03Z", [ManifestFile("index.html", "document", 1, "0" * 64)])
            ),
        ),
    ],
)
def test_what_was_written_reads_back(key: str, data: bytes) -> None:
    """A good file gives the document whose bytes it holds."""
    assert data == encode(parse_back(document(key, data)))


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
        ("v1/assets/index.json", page(next_cursor="a.b"), r"\$\.next_cursor"),
        ("v1/assets/index.json", page() + b"\n", "not in canonical form"),
        ("v1/assets/index.json", b'{"next_cursor":null,"data":[]}', "not in canonical form"),
        ("v1/assets/index.json", b'{"data":[],"data":[],"next_cursor":null}', "not in canonical form"),
        ("v1/assets/limit/1.json", page(TOKEN, OTHER), r"\$\.data has 2 rows"),
        ("v1/assets/limit/0.json", page(TOKEN), r"\$\.data has 1 rows"),
        ("v1/assets/empty.json", page(TOKEN), "must be empty"),
        ("v1/assets/empty.json", page(next_cursor="abc"), "must be empty"),
        (f"v1/assets/market/{OTHER}/index.json", page(TOKEN), "a row with another market"),
        (f"v1/assets/token/{OTHER}/index.json", page(OTHER, TOKEN), "a row with another token_address"),
        ("v1/pages/47DEQpj8HBSa-_TImW-5JC.json", page(TOKEN), "its content has the token"),
        (f"v1/markets/{OTHER}.json", encode(summary()), r"\$\.market is"),
        (f"v1/markets/{MARKET}.json", encode(summary(config_hash="0123")), r"\$\.config_hash"),
        ("v1/runs/b.json", encode(RunManifest("a", LEDGER, "2026-11-21T10:55:03Z", [])), r"\$\.run_id is a"),
        ("v1/system/status.json", encode(system_status(generated_at="2026-11-21 10:55:03Z")), r"\$\.generated_at"),
    ],
)
def test_a_bad_file_is_refused_by_name(key: str, data: bytes, message: str) -> None:
    """A file that breaks its model, its form or its key is refused with its key and what is wrong."""
    with pytest.raises(CheckError, match=message) as caught:
        parse_back(document(key, data))

    assert str(caught.value).startswith(f"{key}: ")


def test_a_summary_cannot_list_more_pools_than_it_counts() -> None:
    """A market summary with more pools than members is refused."""
    key = f"v1/markets/{MARKET}.json"
    members = [market_pool(row) for row in snapshots(pools_frame([pool(MARKET, TOKEN)]))]
    data = encode(summary(pools=members))

    with pytest.raises(CheckError, match="pool_count is 0"):
        parse_back(document(key, data))
