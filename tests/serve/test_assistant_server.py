"""The MCP server, asked by the SDK's own client over standard input and output: twenty questions, and some mistakes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters, stdio_client

from exporter.cli import main
from exporter.errors import ConfigError
from exporter.serve import assistant_answers
from tests.render.whole_tree import publish_tree
from tests.serve import test_fifteen_questions

PROJECT = Path(__file__).parents[2]
Json = dict[str, Any]
GATES: dict[str, list[Any]] = {
    "can_supply": [True, True, False, None],
    "can_borrow": [True, False, None],
    "available_to_borrow": [Decimal(10**30), Decimal(0), None, Decimal(7), Decimal(10**37)],
}
"""What the pools are open for, made up by turns: whether each protocol says it is not the server's matter."""


@dataclass(frozen=True)
class Tree:
    """A published tree in a folder, and what it says, read in plain Python."""

    folder: Path

    def document(self, key: str) -> Json:
        found = json.loads((self.folder / key).read_bytes())
        assert isinstance(found, dict)
        return found

    def pools(self, **wanted: object) -> list[Json]:
        """The rows of the newest run with these values, by market and pool."""
        rows: list[Json] = pq.read_table(self.folder / "v1" / "latest.parquet", partitioning=None).to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]

    @property
    def ledger(self) -> int:
        return int(self.document("v1/system/status.json")["observed_ledger"])

    def first(self, **wanted: object) -> tuple[str, str]:
        row = self.pools(**wanted)[0]
        return row["market"], row["pool"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Three runs of all protocols; of some pools it is known what they are open for."""
    folder = tmp_path_factory.mktemp("asked") / "public"
    publish_tree(folder, "blend", "alula", "slender")
    path = folder / "v1" / "latest.parquet"
    table = pq.read_table(path, partitioning=None)
    for name, values in GATES.items():
        turns = [value for _, value in zip(range(table.num_rows), cycle(values), strict=False)]
        field = table.schema.field(name)
        table = table.set_column(table.schema.names.index(name), field, pa.array(turns, field.type))
    pq.write_table(table, path)
    return Tree(folder)


def names(rows: list[Json]) -> list[tuple[str, str]]:
    return [(row["market"], row["pool"]) for row in rows]


def listed(answer: Json) -> list[tuple[str, str]]:
    return names(answer["pools"])


def by_value(rows: list[Json], column: str, sign: int = -1) -> list[tuple[str, str]]:
    """The largest first; what has no value last; else in the given order."""
    return names(sorted(rows, key=lambda row: (row[column] is None, sign * (row[column] or 0))))


def best(tree: Tree, symbol: str, side: str) -> list[tuple[str, str]]:
    """The pools of a token that are open, hold 1,000 US dollars and have room for as much, by the comparable rate."""
    room = f"available_to_{side}_usd_cents"
    rows = [
        row
        for row in tree.pools(symbol=symbol)
        if row[f"can_{side}"] and (row["tvl_usd_cents"] or 0) >= 100_000 and (row[room] is None or row[room] >= 100_000)
    ]
    sign = -1 if side == "supply" else 1
    return names(sorted(rows, key=lambda row: (sign * row[f"comparable_{side}_apy_bps"], -row["tvl_usd_cents"])))


@dataclass(frozen=True)
class Question:
    """What is asked in words, the tool and its arguments, and what of the answer must be what the files say."""

    text: str
    tool: str
    arguments: Callable[[Tree], Json]
    of: Callable[[Json], object]
    expected: Callable[[Tree], object]


def _pool(**wanted: object) -> Callable[[Tree], Json]:
    def arguments(tree: Tree) -> Json:
        market, pool = tree.first(**wanted)
        return {"market": market, "pool": pool}

    return arguments


def _history(tree: Tree, bucket: str, **wanted: object) -> list[Json]:
    market, pool = tree.first(**wanted)
    page = tree.document(f"v1/assets/{market}/{pool}/history/{bucket}.json")
    buckets = list(page["data"])
    while page["next_cursor"] is not None:
        page = tree.document(f"v1/buckets/{page['next_cursor']}.json")
        buckets = [*page["data"], *buckets]
    return buckets


def _last_two(tree: Tree, **wanted: object) -> tuple[int, list[Json]]:
    buckets = _history(tree, "1h", **wanted)[-2:]
    return buckets[-1]["last_ledger"], buckets


QUESTIONS = [
    Question(
        "Which ledger is the data of?", "status", lambda _: {}, lambda a: a["observed_ledger"], lambda t: t.ledger
    ),
    Question(
        "What could not be read?",
        "status",
        lambda _: {},
        lambda a: [each["pool"] for each in a["unread"]],
        lambda t: [each["pool"] for each in t.document("v1/system/status.json")["unread"]],
    ),
    Question(
        "How much is lent in all?",
        "summary",
        lambda _: {},
        lambda a: a["tvl_usd_cents"],
        lambda t: str(sum(int(row["tvl_usd_cents"]) for row in t.pools() if row["tvl_usd_cents"] is not None)),
    ),
    Question(
        "Which markets are there?",
        "list_markets",
        lambda _: {},
        lambda a: (a["observed_ledger"], [market["market"] for market in a["markets"]]),
        lambda t: (t.ledger, [market["market"] for market in t.document("v1/markets.json")["data"]]),
    ),
    Question(
        "How many markets has Blend?",
        "list_markets",
        lambda _: {"protocol": "blend"},
        lambda a: a["count"],
        lambda t: sum(market["protocol"] == "blend" for market in t.document("v1/markets.json")["data"]),
    ),
    Question(
        "Which of Alula's markets are frozen?",
        "list_markets",
        lambda _: {"protocol": "alula"},
        lambda a: {market["status"] for market in a["markets"]},
        lambda t: {row["market_status"] for row in t.pools(protocol="alula")},
    ),
    Question("All pools?", "find_pools", lambda _: {"limit": 200}, listed, lambda t: names(t.pools())),
    Question(
        "Where is USDC lent?",
        "find_pools",
        lambda _: {"token": "usdc"},
        listed,
        lambda t: names(t.pools(symbol="USDC")),
    ),
    Question(
        "And XLM, with Alula?",
        "find_pools",
        lambda _: {"token": "XLM", "protocol": "alula"},
        listed,
        lambda t: names(t.pools(symbol="native", protocol="alula")),
    ),
    Question(
        "The pools of this token?",
        "find_pools",
        lambda t: {"token": t.pools(symbol="EURC")[0]["token_address"]},
        listed,
        lambda t: names(t.pools(token_address=t.pools(symbol="EURC")[0]["token_address"])),
    ),
    Question(
        "What can I borrow from now?",
        "find_pools",
        lambda _: {"open_for": "borrow"},
        lambda a: (listed(a), a["unknown_count"]),
        lambda t: (names(t.pools(can_borrow=True)), len(t.pools(can_borrow=None))),
    ),
    Question(
        "Which pools are lent out to more than half?",
        "find_pools",
        lambda _: {"min_utilization_bps": 5000, "sort_by": "utilization"},
        listed,
        lambda t: by_value([row for row in t.pools() if row["utilization_bps"] >= 5000], "utilization_bps"),
    ),
    Question(
        "The three largest pools?",
        "find_pools",
        lambda _: {"sort_by": "tvl", "limit": 3},
        lambda a: (a["count"], listed(a)),
        lambda t: (len(t.pools()), by_value(t.pools(), "tvl_usd_cents")[:3]),
    ),
    Question(
        "How much USDC is lent there, to the last digit?",
        "pool",
        _pool(symbol="USDC"),
        lambda a: a["pool"]["total_supplied"],
        lambda t: str(t.pools(symbol="USDC")[0]["total_supplied"]),
    ),
    Question(
        "By which rate model?",
        "pool",
        _pool(symbol="USDC", protocol="alula"),
        lambda a: a["rate_model"],
        lambda t: t.document("v1/assets/{}/{}.json".format(*t.first(symbol="USDC", protocol="alula")))["rate_model"],
    ),
    Question(
        "Why has it no price?",
        "pool",
        _pool(tvl_usd_cents=None),
        lambda a: a["pool"]["price_reason"],
        lambda t: t.pools(tvl_usd_cents=None)[0]["price_reason"],
    ),
    Question(
        "How did its rate go by six hours?",
        "history",
        lambda t: {**_pool(symbol="USDC")(t), "bucket": "1h"},
        lambda a: [each["supply_apy_bps"] for each in a["buckets"]],
        lambda t: [each["supply_apy_bps"] for each in _history(t, "1h", symbol="USDC")],
    ),
    Question(
        "And its last two hours of data?",
        "history",
        lambda t: {**_pool(symbol="EURC")(t), "bucket": "1h", "count": 2},
        lambda a: (a["observed_ledger"], a["buckets"]),
        lambda t: _last_two(t, symbol="EURC"),
    ),
    Question(
        "The best place to lend USDC?",
        "best_rate",
        lambda _: {"token": "USDC"},
        listed,
        lambda t: best(t, "USDC", "supply"),
    ),
    Question(
        "The cheapest place to borrow XLM?",
        "best_rate",
        lambda _: {"token": "XLM", "side": "borrow", "limit": 200},
        lambda a: (listed(a), a["left_out"].get("not known", 0)),
        lambda t: (best(t, "native", "borrow"), len(t.pools(symbol="native", can_borrow=None))),
    ),
]

MISTAKES: list[tuple[str, Json, str]] = [
    ("find_pools", {"token": "NOSUCH"}, "no pool of the token 'NOSUCH' was read"),
    ("find_pools", {"protocol": "aave"}, "the protocols are alula, blend"),
    ("find_pools", {"limit": 100_000}, "ask for 1 to 200"),
    ("find_pools", {"open_for": "steal"}, "'supply', 'withdraw', 'borrow', 'repay' or 'liquidate'"),
    ("pool", {"market": "C" * 56, "pool": "x"}, "find_pools lists them"),
    ("history", {"market": "../../etc", "pool": "passwd"}, "no such pool was read"),
    ("history", {"market": "C" + "A" * 55, "pool": "x"}, "has no v1/assets/CAAA"),
]


@pytest.fixture(scope="module")
def said(tree: Tree) -> tuple[list[str], list[Any], list[Any]]:
    """The tools that the server has, its answers to the questions, and to the mistakes; all in one session."""

    async def ask() -> tuple[list[str], list[Any], list[Any]]:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "exporter", "mcp", str(tree.folder)], env={"PYTHONPATH": str(PROJECT)}
        )
        async with Client(stdio_client(server)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            answers = [await client.call_tool(each.tool, each.arguments(tree)) for each in QUESTIONS]
            refused = [await client.call_tool(tool, arguments) for tool, arguments, _ in MISTAKES]
        return tools, answers, refused

    return asyncio.run(asyncio.wait_for(ask(), 50))


@pytest.mark.parametrize("number", range(len(QUESTIONS)), ids=[question.text for question in QUESTIONS])
def test_twenty_questions(number: int, said: tuple[list[str], list[Any], list[Any]], tree: Tree) -> None:
    """Each question is answered with exactly what the files say."""
    question, answer = QUESTIONS[number], said[1][number]

    assert not answer.is_error, answer.content
    assert question.expected(tree) == question.of(answer.structured_content)
    assert question.expected(tree) not in ([], 0, "0", None)


def test_there_are_twenty(said: tuple[list[str], list[Any], list[Any]]) -> None:
    """Twenty questions are asked, every tool is used here or for the fifteen, and every answer says its ledger."""
    assert 20 == len({question.text for question in QUESTIONS})
    fifteen = {question.tool for question in test_fifteen_questions.QUESTIONS}
    assert set(said[0]) == fifteen | {question.tool for question in QUESTIONS}
    ledgers = zip(QUESTIONS, (answer.structured_content["observed_ledger"] for answer in said[1]), strict=True)
    assert 1 == len({ledger for question, ledger in ledgers if question.tool != "history"})  # it is of closed buckets


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[f"{tool} {text}" for tool, _, text in MISTAKES])
def test_mistakes(number: int, said: tuple[list[str], list[Any], list[Any]]) -> None:
    """A question that cannot be answered is an error that says what to ask instead, and the server goes on."""
    answer = said[2][number]

    assert answer.is_error
    assert MISTAKES[number][2] in answer.content[0].text
    assert "Traceback" not in answer.content[0].text


def made_pools(*rows: tuple[str, str, str]) -> pl.DataFrame:
    """Pools by market name, pool id and symbol, each in a market of its own."""
    return pl.DataFrame(
        [
            {"market": f"M{place}", "market_name": name, "pool": pool, "token_address": f"T{place}", "symbol": symbol}
            for place, (name, pool, symbol) in enumerate(rows)
        ]
    )


def test_names_find_a_pool_or_candidates() -> None:
    """A market's name and a token's symbol are enough where one pool fits; else the error names those that do."""
    pools = made_pools(("Fixed", "p", "USDC"), ("Fixed", "q", "native"), ("Other", "r", "USDC"), ("other", "s", "usdc"))

    assert "p" == assistant_answers._one(pools, "fixed", "usdc")["pool"]
    assert "q" == assistant_answers._one(pools, "Fixed", "XLM")["pool"]
    with pytest.raises(ConfigError, match=r"2 pools fit.*market M2 \(Other\), pool r; market M3"):
        assistant_answers._one(pools, "other", "USDC")
    with pytest.raises(ConfigError, match="no such pool"):
        assistant_answers._one(pools, "x" * 10_000, "USDC")


def test_texts_of_the_chain_are_cut_and_harmless() -> None:
    """Control and bidirectional characters are gone, and nobody's name fills an answer."""
    row = assistant_answers._row({"market_name": "a\u202eb\n" + "x" * 500, "decimals": 7})
    assert row["market_name"].startswith("a\ufffdb x")
    assert (200, 7) == (len(row["market_name"]), row["decimals"])


def test_no_tree(tmp_path: Path) -> None:
    """Without a published run the server does not start."""
    ended = CliRunner().invoke(main, ["mcp", str(tmp_path)])

    assert 3 == ended.exit_code
    assert "has no v1/system/status.json" in ended.stderr


def test_without_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the command says what to install."""
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    ended = CliRunner().invoke(main, ["mcp", str(tmp_path)])

    assert 2 == ended.exit_code
    assert "lending-markets-exporter[mcp]" in ended.stderr
