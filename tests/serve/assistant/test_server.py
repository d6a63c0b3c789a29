"""Tests of the server's other parts than single answers: short answers, dates, prompts and documents."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from exporter.serve.assistant.form import MOST_SHORT_BYTES, NOTE
from exporter.serve.assistant.server import DOCUMENTS, SCHEME
from tests.serve.assistant.conftest import BLEND, Ask, Json, Tree, published

QUESTIONS: list[tuple[str, Json]] = [
    ("status", {}),
    ("summary", {}),
    ("list_markets", {}),
    ("market", {"market": BLEND}),
    ("tokens", {}),
    ("tokens", {"token": "USDC"}),
    ("find_pools", {"token": "USDC"}),
    ("find_pools", {"sort_by": "tvl"}),
    ("pool", {"market": "main", "pool": "USDC"}),
    ("history", {"market": "main", "pool": "USDC", "bucket": "5m"}),
    ("history", {"token": "EURC"}),
    ("best_rate", {"token": "USDC", "limit": 200}),
    ("changes", {}),
]


@pytest.mark.parametrize(("tool", "given"), QUESTIONS)
def test_answers_are_short(call: Ask, tool: str, given: Json) -> None:
    """Unless more is asked for an answer has at most 3,000 bytes, as data and as text."""
    answer: Any = call(tool, **given)

    assert not answer.is_error, answer.content
    assert len(answer.content[0].text.encode()) <= MOST_SHORT_BYTES
    assert len(msgspec.json.encode(answer.structured_content)) <= MOST_SHORT_BYTES


def basis_points(value: Any) -> list[tuple[Json, str]]:
    """The fields of basis points that have a value, with what they are in."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [(value, name) for name in value if "_bps" in name] if isinstance(value, dict) else []
    return [pair for pair in own if pair[0][pair[1]] is not None] + [
        pair for each in inner for pair in basis_points(each)
    ]


@pytest.mark.parametrize("detail", ["short", "full"])
def test_percent_in_every_answer(ask: Ask, detail: str) -> None:
    """Wherever an answer has basis points, it has the percent next to them."""
    seen = 0
    for tool, given in QUESTIONS:
        for item, name in basis_points(ask(tool, **given, detail=detail)):
            seen += 1
            percent = f"{item[name] / 100:,.2f} "
            if name.endswith("_bps_change"):
                assert f"{percent}points" == item[name.replace("_bps_change", "_change")], (tool, name)
            else:
                assert f"{percent}%" == item[name.replace("_bps", "_percent")], (tool, name)

    assert seen > 50


def test_more_on_demand(ask: Ask, tree: Tree) -> None:
    """Cursors lead through all pools once, and a full answer about a pool has what the short one names."""
    rows, cursor = list[Json](), None
    while True:
        part = ask("find_pools", limit=4, **({} if cursor is None else {"cursor": cursor}))
        rows += part["pools"]
        cursor = part["next_cursor"]
        if cursor is None:
            break
    short = ask("pool", market="main", pool="USDC")
    full = ask("pool", market="main", pool="USDC", detail="full")

    assert [(row["market"], row["pool"]) for row in tree.pools()] == sorted(
        (row["market"], row["pool"]) for row in rows
    )
    assert [] != short["ask_full_for"]
    assert short.keys() - {"ask_full_for"} == full.keys() - set(short["ask_full_for"])


def test_a_history_in_parts(ask: Ask) -> None:
    """Cursors of a history lead from the newest buckets to the oldest, and miss none."""
    place = {"market": "main", "pool": "USDC", "bucket": "5m", "detail": "full"}
    every = ask("history", **place, count=500)
    buckets, cursor = list[Json](), None
    while True:
        part = ask("history", **place, count=2, **({} if cursor is None else {"cursor": cursor}))
        buckets = [*part["buckets"], *buckets]
        cursor = part["next_cursor"]
        if cursor is None:
            break

    assert len(every["buckets"]) > 4
    assert every["buckets"] == buckets


def test_dates_in_words(ask: Ask, tree: Tree) -> None:
    """Words are counted from the ledger's close time, and the answer says what they came to and has that time alone."""
    closed = datetime.fromisoformat(tree.document("v1/system/status")["ledger_close_time"])
    yesterday = f"{closed - timedelta(days=1):%Y-%m-%d}T00:00:00Z"
    tomorrow = f"{closed + timedelta(days=1):%Y-%m-%d}T00:00:00Z"
    every = tree.document("v1/changes")["data"]
    answer = ask("changes", since="yesterday", until="today", limit=200, detail="full")
    buckets = ask("history", market="main", pool="USDC", bucket="5m", since="today", detail="full", count=500)

    assert (yesterday, tomorrow) == (answer["since"], answer["until"])
    assert f"{closed:%Y-%m-%dT%H:%M:%SZ}" == answer["dates_counted_from"]
    wanted = [change["id"] for change in every if yesterday <= change["ledger_close_time"] < tomorrow]
    assert wanted == [change["id"] for change in answer["changes"]] != [change["id"] for change in every]
    assert f"{closed:%Y-%m-%d}T00:00:00Z" == buckets["since"]
    assert {closed.date().isoformat()} == {bucket["start_time"][:10] for bucket in buckets["buckets"]}


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("what_do_i_get", {"token": "EURC"}, ["best_rate", "'EURC'", "tokens("]),
        ("is_it_safe", {"market": BLEND}, ["market(", "risk_in_words", BLEND]),
        ("what_did_it_pay", {}, ["history(", "'last month'", "realized_supply_apy", "over_all"]),
        ("what_changed", {"since": "last week"}, ["changes(", "'last week'"]),
        ("which_is_real", {}, ["tokens(", "'USDC'", "identity"]),
    ],
)
def test_each_usual_question_is_a_prompt_that_names_tools(client: Ask, name: str, given: Json, said: list[str]) -> None:
    """Each of the five usual questions is a prompt that names the tools to ask, with what was given."""
    (message,) = client("get_prompt", name, given).messages

    assert name in {prompt.name for prompt in client("list_prompts").prompts}
    assert [] == [part for part in said if part not in message.content.text]
    tools = {tool.name for tool in client("list_tools").tools}
    assert any(f"{tool}(" in message.content.text for tool in tools)


def test_what_was_not_filled_in_is_left_out_of_a_prompt(client: Ask) -> None:
    """A client's form sends an empty text for what nobody filled in."""
    (empty,) = client("get_prompt", "what_did_it_pay", {"token": "", "period": ""}).messages
    (without,) = client("get_prompt", "what_did_it_pay", {}).messages

    assert without == empty


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("is_it_safe", {"market": ""}, "market is missing"),
        ("is_it_safe", {}, "market is missing: The market's contract address"),
        ("is_it_safe", {"market": "m" * 500}, "market has 500 characters"),
        ("what_changed", {"sinc": "today"}, "there is no argument 'sinc'; did you mean since?"),
        ("what_changes", {}, "there is no prompt 'what_changes'; did you mean what_changed?"),
    ],
)
def test_prompts_that_cannot_be_had(client: Ask, name: str, given: Json, said: str) -> None:
    """A prompt that there is not, or that lacks something, is an error in our words."""
    with pytest.raises(MCPError) as raised:
        client("get_prompt", name, given)

    assert said in str(raised.value)


def test_documents_can_be_read_by_path_and_by_name(client: Ask, tree: Tree) -> None:
    """The documents of the tree can be read as they are published, and a market, token or pool by name."""
    row = tree.pools(symbol="USDC", protocol="alula")[0]
    keys = {document.uri: document.key for document in DOCUMENTS} | {
        f"{SCHEME}markets/{row['market']}": f"v1/markets/{row['market']}.json",
        f"{SCHEME}markets/Fixed%20XLM-USDC": f"v1/markets/{tree.pools(market_name=BLEND)[0]['market']}.json",
        f"{SCHEME}tokens/usdc": f"v1/tokens/{row['token_address']}.json",
        f"{SCHEME}pools/main/USDC": f"v1/assets/{row['market']}/{row['pool']}.json",
    }
    for uri, key in keys.items():
        if key == "v1/changes.json":  # a hostile title in it is cut
            continue
        (content,) = client("read_resource", uri).contents
        found = json.loads(content.text)
        assert NOTE == found.pop("note")
        assert tree.document(key.removesuffix(".json")) == published(found), uri
    listed = {resource.uri for resource in client("list_resources").resources}
    assert listed == {document.uri for document in DOCUMENTS}
    assert 3 == len(client("list_resource_templates").resource_templates)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("markets://nothing", "there is no document 'markets://nothing'. There are markets://status"),
        ("https://example.org/x", "there is no document 'https://example.org/x'"),
        ("markets://markets/none", "no such market was read; list_markets has all"),
        ("markets://tokens/none", "no token 'none' was read"),
        ("markets://pools/main/none", "no such pool was read"),
        ("markets://markets/" + "x" * 20_000, "no such market was read"),
    ],
)
def test_documents_that_are_not_there(client: Ask, uri: str, said: str) -> None:
    """A document that there is not is an error that says what there is, and repeats nothing long."""
    with pytest.raises(MCPError) as raised:
        client("read_resource", uri)

    assert said in str(raised.value)
    assert len(str(raised.value)) <= 1_500
