"""Listings, totals and tokens of a published tree, computed here from its pools; yields in another service's shape."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from exporter.history.periods import periods_of
from exporter.history.series import Series
from exporter.localnet.server import running
from exporter.protocols import PROTOCOLS
from exporter.protocols.compute import Tables
from exporter.render import lists, yields
from exporter.render.yields import hundredths
from exporter.serve.preview import create_app as serve
from exporter.tables import MARKETS_SCHEMA
from exporter.tree.documents import encode
from exporter.tree.pool_parts import TokenIdentity
from exporter.tree.values import as_written
from tests.history.frames import CLOSE_TIME, LEDGER
from tests.render.rendering import contract, pool, pools_frame


def read(folder: Path, key: str) -> Any:
    return json.loads((folder / key).read_bytes())


def rows_of(tree: Path, key: str) -> list[dict[str, Any]]:
    """The rows of a listing, which is one page."""
    page = read(tree, key)
    assert page["next_cursor"] is None
    rows: list[dict[str, Any]] = page["data"]
    return rows


def test_every_pool_is_in_it_once_as_its_own_document_has_it(tree: Path) -> None:
    """The rows are flat, and each number is that of the pool's own document."""
    rows = rows_of(tree, "v1/pools/index.json")
    listed = rows_of(tree, "v1/assets/index.json") if len(rows) <= 50 else []

    status = read(tree, "v1/system/status.json")
    assert len(rows) == status["pool_count"] - len(status["unread"]) > 20
    assert [(row["market"], row["pool"]) for row in listed] == [(row["market"], row["pool"]) for row in rows]
    for row in rows:
        detail = read(tree, f"v1/assets/{row['market']}/{row['pool']}.json")
        flat = detail | detail["operations"] | detail["liquidity"] | detail["risk"] | detail["rewards"]
        week, month = detail["periods"][1:]
        for side in ("supply", "borrow"):
            for name in (f"mean_{side}_apy_bps", f"mean_comparable_{side}_apy_bps"):
                flat[f"{name}_7d"] = week[name]
                flat[f"{name}_30d"] = month[name]
        assert {name: flat[name] for name in row} == row


@pytest.mark.parametrize("column", ["market", "token_address", "protocol"])
def test_each_market_token_and_protocol_has_its_rows(tree: Path, column: str) -> None:
    """A listing has the rows of its pools; that of a protocol may be empty. Open pools are listed apart, too.

    Pools that are closed, or of which that is not known, are not among those.
    """
    rows = rows_of(tree, "v1/pools/index.json")
    folder = f"v1/pools/{column.removesuffix('_address')}"
    names = {path.name for path in (tree / folder).iterdir()}

    assert 0 < sum(row["can_supply"] is not True for row in rows) < len(rows)
    assert [row for row in rows if row["can_supply"]] == rows_of(tree, "v1/pools/open/index.json")
    assert {*PROTOCOLS} if column == "protocol" else {row[column] for row in rows} == names
    for name in names:
        own = [row for row in rows if row[column] == name]
        assert own == rows_of(tree, f"{folder}/{name}/index.json")
        if column == "protocol":
            assert [row for row in own if row["can_supply"]] == rows_of(tree, f"{folder}/{name}/open/index.json")


def worth(rows: list[dict[str, Any]]) -> str | None:
    """The value of pools as documents write it; None if none has a price."""
    values = [int(row["tvl_usd_cents"]) for row in rows if row["tvl_usd_cents"] is not None]
    return str(sum(values)) if values else None


def test_markets_and_totals_add_up(tree: Path) -> None:
    """Markets, the summary and the status count pools, read or not, and sum up the values of those with a price."""
    rows, status = rows_of(tree, "v1/pools/index.json"), read(tree, "v1/system/status.json")
    unread = Counter(item["market"] for item in status["unread"])
    entries, summary = read(tree, "v1/markets.json")["data"], read(tree, "v1/protocol/summary.json")
    unpriced = [{"market": row["market"], "pool": row["pool"]} for row in rows if row["oracle_price_usd"] is None]

    assert unread
    for entry in entries:
        own, document = [row for row in rows if row["market"] == entry["market"]], f"v1/markets/{entry['market']}.json"
        assert worth(own) == entry["tvl_usd_cents"] == read(tree, document)["tvl_usd_cents"]
        assert len(own) + unread[entry["market"]] == entry["pool_count"] == read(tree, document)["pool_count"]
    for part, own in (
        (summary, rows),
        *((part, [row for row in rows if row["protocol"] == part["protocol"]]) for part in summary["protocols"]),
    ):
        markets = [entry for entry in entries if entry["protocol"] == part.get("protocol", entry["protocol"])]
        assert worth(own) == part["tvl_usd_cents"]
        assert (len(markets), sum(x["pool_count"] for x in markets)) == (part["market_count"], part["pool_count"])
    assert len({row["token_address"] for row in rows}) == status["token_count"]
    assert unpriced == [{name: item[name] for name in ("market", "pool")} for item in status["unpriced"]] != []
    assert len(unpriced) * 10_000 // len(rows) == status["unpriced_bps"]


def test_the_newest_parquet_file_has_the_rows(tree: Path) -> None:
    """The file of the newest run has the rows of the listing, as documents write them."""
    rows = rows_of(tree, "v1/assets/index.json")
    table = pl.read_parquet(tree / "v1/latest.parquet").select(rows[0].keys())

    assert rows == [{name: as_written(value) for name, value in row.items()} for row in table.iter_rows(named=True)]


def test_lists_that_end_alike_share_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list goes on over full pages to its last row; a page that several lists have is rendered once."""
    monkeypatch.setattr(lists, "PAGE_ROWS", 2)
    names = [contract(number) for number in range(10, 15)]
    pools = pools_frame([pool(contract(1), name) for name in names])
    listed = lists.with_list_columns(pools, list(periods_of(Series().pools, 0, pools)), "mainnet")
    rendered = list(lists.render_pool_lists(listed, ["blend"], LEDGER))
    files = {file.key: json.loads(file.data) for file in rendered}

    assert 4 + 1 + 5 + 2 == len(rendered) == len(files)
    for key in (
        "v1/pools/index.json",
        "v1/pools/protocol/blend/index.json",
        f"v1/pools/market/{contract(1)}/index.json",
    ):
        pages = [files[key]]
        while (cursor := pages[-1]["next_cursor"]) is not None:
            pages.append(files[f"v1/pool-pages/{cursor}.json"])
        assert [names[:2], names[2:4], names[4:]] == [[row["pool"] for row in page["data"]] for page in pages]


def test_a_token_has_its_pools_counted_and_its_best_rates() -> None:
    """A best rate has the protocol's own yield, the comparable one, the reward, and both together (`test_best`)."""
    of_supply = {"supply_apy_bps": 1, "comparable_supply_apy_bps": 2, "supply_reward_apr_bps": 3}
    of_borrow = {"borrow_apy_bps": 4, "comparable_borrow_apy_bps": 5, "borrow_reward_apr_bps": 6}
    price = {"total_supply_apy_bps": 7, "price_timestamp": CLOSE_TIME}
    market, token = contract(1), contract(10)
    rows = [pool(market, token, **of_supply, **of_borrow, **price), pool(contract(2), token, can_supply=False)]
    tables = Tables(LEDGER, CLOSE_TIME, pools_frame(rows), pl.DataFrame(schema=MARKETS_SCHEMA))
    [found] = json.loads(encode(lists.token_list(tables, {}, {})))["data"]

    assert (2, 1) == (found["pool_count"], found["open_pool_count"])
    for side, rates in (("supply", (1, 2, 3, 7)), ("borrow", (4, 5, 6, -1))):
        names = ("apy_bps", "comparable_apy_bps", "reward_apr_bps", "total_apy_bps")
        assert (market, *rates) == tuple(found[f"best_{side}"][name] for name in ("market", *names))


def test_tokens_of_a_symbol() -> None:
    """Identified ones come first, whatever their case; XLM is the native asset; other symbols have no file."""
    market = contract(1)
    symbols = {10: "USDC", 11: "usdc", 12: "UsdC", 13: "native", 14: "XLM", 15: "US DC", 16: "Z" * 33, 17: "\u212aALE"}
    rows = [pool(market, contract(number), symbol=symbol) for number, symbol in symbols.items()]
    tables = Tables(LEDGER, CLOSE_TIME, pools_frame(rows), pl.DataFrame(schema=MARKETS_SCHEMA))
    known = {contract(12): TokenIdentity("Circle", "circle.com", stable=True)}
    files = {file.key: json.loads(file.data) for file in lists.render_tokens(tables, {}, known, contract(13))}
    found = {key: [row["address"] for row in page["data"]] for key, page in files.items()}

    assert {
        "v1/tokens.json": [contract(number) for number in symbols],
        "v1/tokens/symbol/usdc.json": [contract(number) for number in (12, 10, 11)],
        "v1/tokens/symbol/native.json": [contract(13)],
        "v1/tokens/symbol/xlm.json": [contract(13), contract(14)],
    } == found
    on_a_local_network = {file.key for file in lists.render_tokens(tables, {}, known, None)}
    assert found.keys() == on_a_local_network
    assert {"who": "Circle", "home_domain": "circle.com", "stable": True} == files["v1/tokens/symbol/usdc.json"][
        "data"
    ][0]["identity"]


def test_yields_have_the_other_shape(tree: Path) -> None:
    """Dollars and percent are the exact numbers; closed and unpriced pools are no offers."""
    rows = {f"{row['market']}-{row['pool']}-stellar".lower(): row for row in rows_of(tree, "v1/pools/index.json")}
    offers, debts = (read(tree, f"v1/yields/{name}.json") for name in ("pools", "borrow"))

    assert ("success", "success") == (offers["status"], debts["status"])
    priced = {name for name, row in rows.items() if row["supplied_usd_cents"] is not None}
    assert priced == {item["pool"] for item in debts["data"]}
    assert {name for name in priced if rows[name]["can_supply"] is not False} == {
        item["pool"] for item in offers["data"]
    }
    for item in offers["data"]:
        row = rows[item["pool"]]
        rewards = row["supply_reward_apr_bps"] or 0
        assert round(item["apy"] * 100) == row["supply_apy_bps"] + rewards
        assert (item["rewardTokens"] is None) is (rewards == 0)
        assert item["tvlUsd"] == max(int(row["supplied_usd_cents"]) - int(row["borrowed_usd_cents"]), 0) / 100
    for item in debts["data"]:
        row = rows[item["pool"]]
        assert round(item["apyBaseBorrow"] * 100) == row["borrow_apy_bps"]
        rewards = row["borrow_reward_apr_bps"] or 0
        assert round((item["apyRewardBorrow"] or 0) * 100) == rewards
        assert (item["rewardTokens"] is None) is (rewards == 0)
        room = row["available_to_borrow_usd_cents" if row["can_borrow"] else "available_usd_cents"]
        assert item.get("availableBorrowUsd") == (None if room is None else int(room) / 100)
        assert ("debtCeilingUsd" in item) is (row["borrow_cap"] is not None)
    assert {"XLM"} == {item["symbol"] for item in debts["data"] if rows[item["pool"]]["symbol"] == "native"}


OF_ADAPTORS = re.findall(
    r"\w+",
    """pool chain project symbol tvlUsd apy apyBase apyReward underlyingTokens rewardTokens poolMeta url apyBaseBorrow
    apyRewardBorrow totalSupplyUsd supplyCapUsd totalBorrowUsd ltv borrowable borrowFactor debtCeilingUsd
    availableBorrowUsd borrowToken token pricePerShare""",
)
"""Fields that adaptors may give, of DefiLlama/yield-server, src/adaptors/test.js at e638965f, as far as they fit."""
OF_THE_SERVER = {"apyMean30d", "ilRisk", "exposure"}
"""The fields that their server adds."""
NUMBERS = ("totalSupplyUsd", "totalBorrowUsd", "supplyCapUsd", "availableBorrowUsd")


def test_yields_keep_the_rules_of_its_adaptors(tree: Path) -> None:
    """The rules of their test: of each file, and of both joined by `pool`, as an adaptor would give them."""
    debts = {item["pool"]: item for item in read(tree, "v1/yields/borrow.json")["data"]}
    offers = read(tree, "v1/yields/pools.json")["data"]
    projects = {
        project for each in PROTOCOLS.values() for project in each.words.defillama_projects.values() or [each.name]
    }
    assert {"blend-pools", "blend-pools-v2", "k2"} < projects
    assert len({item["pool"] for item in offers}) == len(offers) > 0
    for offer in offers:
        item = offer | debts[offer["pool"]] | {name: offer[name] for name in ("rewardTokens", "apyReward")}
        assert {*item} <= {*OF_ADAPTORS, *OF_THE_SERVER}
        assert all(isinstance(item[name], str) and item[name] for name in ("pool", "chain", "project", "symbol"))
        assert item["url"] is None or item["url"].startswith("https://")
        assert any(isinstance(item[name], (int, float)) for name in ("apy", "apyBase", "apyReward"))
        assert isinstance(item["tvlUsd"], (int, float))
        for name in ("rewardTokens", "underlyingTokens"):
            assert item[name] is None or all(isinstance(token, str) for token in item[name])
        assert not item["apyReward"] or item["rewardTokens"]
        assert all(isinstance(item[name], (int, float)) and item[name] >= 0 for name in NUMBERS if name in item)
        assert 0 <= item.get("ltv", 0) <= 1
        assert item["pool"] == item["pool"].lower()
        assert item["project"] in projects


def listed_pools(tree: Path) -> pl.DataFrame:
    """The pools of a tree as a frame `with_list_columns`, with null in the columns that ``/v1/pools`` does not have."""
    rows = pl.DataFrame(rows_of(tree, "v1/pools/index.json"), infer_schema_length=None)
    missing = [name for name in lists.ListedPool.__annotations__ if name not in rows.columns]
    return rows.with_columns(pl.col("shortfall").cast(pl.Int128), *(pl.lit(None).alias(name) for name in missing))


def test_yields_have_the_rewards_of_borrowers(tree: Path) -> None:
    """A borrower's reward is apart from the rate that is paid, in percent, with the token that it is paid in."""
    cents, token = pl.col("^.*_usd_cents$").cast(pl.Int128), contract(7)
    rewards = {"borrow_reward_apr_bps": 125, "reward_token": token}
    pools = listed_pools(tree).with_columns(cents, **{name: pl.lit(value) for name, value in rewards.items()})
    _, debts = yields.render_yields(pools, None, PROTOCOLS)
    found = [(item["apyRewardBorrow"], item["rewardTokens"]) for item in json.loads(debts.data)["data"]]

    assert [(1.25, [token])] * len(found) == found != []


def test_yields_are_of_the_largest_pools(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are more pools than a file may have, it has those with the most supplied, in the usual order."""
    monkeypatch.setattr(yields, "MAX_POOLS", 3)
    items = read(tree, "v1/yields/borrow.json")["data"]
    largest = sorted(items, key=lambda item: -item["totalSupplyUsd"])[:3]
    cents = pl.col("^.*_usd_cents$").cast(pl.Int128)
    _, debts = yields.render_yields(listed_pools(tree).with_columns(cents), None, PROTOCOLS)

    assert [item for item in items if item in largest] == json.loads(debts.data)["data"]


USDC = "CCW67TSZV3SSS2HXMBQ5JFGCKJNXKZM7UQUWUZPUTHXSTZLEO7SJMI75"


def test_the_best_place_to_lend_as_the_docs_find_it(tree: Path, project_root: Path) -> None:
    """Five lines of Python, TypeScript and SQL give the same pool, which is open, and the one of the list of tokens.

    They go by the token's address: its symbol is what anybody may call a token.
    """
    text = (project_root / "docs" / "integrators.md").read_text()
    tokens = read(tree, "v1/tokens.json")["data"]
    token = next(token for token in tokens if token["open_pool_count"] > 1 and token["best_supply"])
    script = {
        language: re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)[1].replace(USDC, token["address"])  # type: ignore[index]
        for language in ("python", "typescript", "sql")
    }
    with running(serve(tree)) as url:
        said = {
            "python": [sys.executable, "-c", f"API = {url!r}\n{script['python']}"],
            "typescript": ["node", "--input-type=module", "-e", f"const API = {url!r};\n{script['typescript']}"],
        }
        answers = [
            subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in said.values()
        ]
    (row,) = duckdb.connect().execute(script["sql"].replace("API", str(tree))).fetchall()

    best = token["best_supply"]
    wanted = f"{best['market']} {best['pool']} {best['total_apy_bps']}"
    assert {wanted} == {*(answer.strip() for answer in answers), " ".join(map(str, row))}
    assert read(tree, f"v1/assets/{best['market']}/{best['pool']}.json")["operations"]["can_supply"]


def test_best_rates_say_what_is_in_the_pool(tree: Path) -> None:
    """Next to a rate is what its listed pool holds, what can leave it now, and the room: as the pool's own row says."""
    tokens = read(tree, "v1/tokens.json")["data"]
    rows = {(row["market"], row["pool"]): row for row in rows_of(tree, "v1/pools/index.json")}
    compared = [(side, token[f"best_{side}"]) for token in tokens for side in ("supply", "borrow")]
    offers = [(side, offer) for side, offer in compared if offer is not None]

    assert len(offers) > 4
    for side, offer in offers:
        row = rows[offer["market"], offer["pool"]]
        own = {name: row[name] for name in ("total_supplied", "supplied_usd_cents")}
        own |= {name: row[name] for name in ("available_to_withdraw", "available_usd_cents")}
        own |= {"room": row[f"available_to_{side}"], "room_usd_cents": row[f"available_to_{side}_usd_cents"]}
        assert own == {name: offer[name] for name in own}
        assert row["listed"]


@pytest.mark.parametrize(
    ("value", "printed"),
    [(0, b"0"), (5, b"0.05"), (50, b"0.5"), (1200, b"12"), (10**40 + 1, b"1" + b"0" * 38 + b".01")],
)
def test_numbers_are_printed_from_integers(value: int, printed: bytes) -> None:
    """No float on the way: every digit of a number of any size is there."""
    assert printed == bytes(hundredths(value))


def test_yields_leave_out_insolvent_pools(tree: Path) -> None:
    """A pool that owes more than it has is offered neither to lenders nor to borrowers; if that is not known, it is."""
    cents = pl.col("^.*_usd_cents$").cast(pl.Int128)
    pools = listed_pools(tree).with_columns(cents).filter(pl.col("supplied_usd_cents").is_not_null()).head(3)
    pools = pools.with_columns(pl.Series("shortfall", [1, 0, None], pl.Int128), pl.lit(True).alias("can_supply"))
    names = [f"{row['market']}-{row['pool']}-stellar".lower() for row in pools.iter_rows(named=True)]

    for file in yields.render_yields(pools, None, PROTOCOLS):
        assert set(names[1:]) == {item["pool"] for item in json.loads(file.data)["data"]}


def test_yields_without_a_price_are_an_error(tree: Path) -> None:
    """If no pool has a price, nothing is called a success; the message says what is missing."""
    rows = listed_pools(tree).with_columns(pl.lit(None, pl.Int128).alias("supplied_usd_cents"))
    answers = [json.loads(file.data) for file in yields.render_yields(rows, None, PROTOCOLS)]

    assert [{"status": "error", "message": yields.NO_PRICE, "data": []}] * 2 == answers


def test_yields_say_why_they_are_empty(tree: Path) -> None:
    """If all priced pools are insolvent, or closed to suppliers, a file without rows says so and is no success."""
    pools = listed_pools(tree).with_columns(pl.col("^.*_usd_cents$").cast(pl.Int128))
    insolvent = pools.with_columns(pl.lit(1, pl.Int128).alias("shortfall"))
    closed = pools.with_columns(pl.lit(value=False).alias("can_supply"), pl.lit(0, pl.Int128).alias("shortfall"))
    no_solvent, (no_open, debts) = (
        [json.loads(file.data) for file in yields.render_yields(rows, None, PROTOCOLS)] for rows in (insolvent, closed)
    )

    assert [{"status": "error", "message": yields.ALL_INSOLVENT, "data": []}] * 2 == no_solvent
    assert {"status": "error", "message": yields.ALL_CLOSED, "data": []} == no_open
    assert ("success", True) == (debts["status"], bool(debts["data"]))
