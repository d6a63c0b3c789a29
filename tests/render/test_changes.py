"""What changed from run to run, the feeds of it, the metrics and the text for language models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import polars as pl
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

import exporter.render.run_documents
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter, Pending
from exporter.protocols.compute import Tables
from exporter.render.changes import (
    MAX_CHANGES,
    MAX_CHANGES_OF_MARKET,
    MAX_FEED_ENTRIES,
    UNITS,
    earlier_changes,
    render_feeds,
)
from exporter.render.openapi import render_llms
from exporter.render.run_documents import render_metrics
from exporter.tables import MARKETS_SCHEMA
from exporter.tree.documents import ChangeList, RunChange, Unread
from exporter.tree.families import family_of
from tests.history.frames import pools_frame
from tests.render.compared import Compared, compared
from tests.render.rendering import contract, market_row

A, B, X, Y = (contract(number) for number in (1, 2, 11, 12))
ATOM = "{http://www.w3.org/2005/Atom}"
TIME = 1_795_000_000
Row = Mapping[str, Any]


def tables(
    ledger: int,
    pools: list[Row],
    markets: Mapping[str, Row] | None = None,
    unread: list[Unread] | None = None,
    pending: list[Pending] | None = None,
) -> Tables:
    """A run with these pools; markets are theirs, with what differs in them."""
    named: dict[str, Row] = {str(row["market"]): {} for row in pools} | dict(markets or {})
    usual = {"config_hash": "0" * 16, "observed_ledger": ledger}
    rows = [market_row(name, **{"name": f"M{name[-1]}"} | usual | dict(other)) for name, other in sorted(named.items())]
    usual_pool = {"symbol": "USDC", "utilization_bps": 100, "tvl_usd_cents": 100_000, "oracle_price_usd": "1.5"}
    usual_pool["archived"] = False
    time = TIME + ledger
    frames = (
        pools_frame([usual_pool | dict(row) for row in pools], ledger, time),
        pl.DataFrame(rows, schema=MARKETS_SCHEMA),
    )
    return Tables(ledger, time, *frames, unread=unread or [], pending=pending or [])


def pool(market: str = A, name: str = X, **other: object) -> Row:
    return {"market": market, "pool": name, "token_address": name, **other}


def until(seconds: int) -> Row:
    """A reward of suppliers that ends so long after `TIME`; the ledgers close a second or two after that."""
    return {"supply_reward_reason": "valid", "supply_reward_expiration": TIME + seconds}


def between(before: Tables, after: Tables) -> list[RunChange]:
    return compared(after, compared(before, None, "made"), "made").data


OF_A_POOL: dict[str, tuple[Row, Row, list[tuple[str, str | None, str | None]]]] = {
    "nothing": ({}, {}, []),
    "its status": ({"pool_status": "on"}, {"pool_status": "off", "can_supply": False}, [("status", "on", "off")]),
    "gates": (
        {"can_borrow": True, "can_repay": None},
        {"can_borrow": False, "can_repay": True},
        [("status", "borrow open", "borrow closed")],
    ),
    "not known": ({"can_borrow": True}, {"can_borrow": None}, []),
    "above": ({"utilization_bps": 9_500}, {"utilization_bps": 9_501}, [("utilization", "9500", "9501")]),
    "still above": ({"utilization_bps": 9_501}, {"utilization_bps": 9_900}, []),
    "archived": ({}, {"archived": True}, [("archived", "live", "archived")]),
    "restored": ({"archived": True}, {}, [("archived", "archived", "live")]),
    "no price": ({}, {"oracle_price_usd": None}, [("price", "1.5", None)]),
    "a price again": ({"oracle_price_usd": None}, {}, [("price", None, "1.5")]),
    "a rate": (
        {"supply_apy_bps": 100, "borrow_apy_bps": 1_000},
        {"supply_apy_bps": 600, "borrow_apy_bps": 499},
        [("borrow_rate", "1000", "499")],
    ),
    "a rate of little": (
        {"supply_apy_bps": 100, "tvl_usd_cents": 99_999},
        {"supply_apy_bps": 9_999, "tvl_usd_cents": 99_999},
        [],
    ),
    "a reward goes on": (until(90_000), until(86_403), []),
    "a reward ends soon": (until(86_402), until(86_402), [("supply_reward", "paid", "ends_soon")]),
    "a reward is prolonged": (until(60), until(90_000), []),
    "a reward ended": (
        {**until(1), "borrow_reward_reason": "unread"},
        {"supply_reward_reason": "expired", "borrow_reward_reason": "valid"},
        [("supply_reward", "ends_soon", "none")],
    ),
    "caps": (
        {"supply_cap": 100, "borrow_cap": None, "total_supplied": 99, "total_borrowed": 5},
        {"supply_cap": 100, "borrow_cap": 6, "total_supplied": 100, "total_borrowed": 5},
        [("borrow_cap", "none", "6"), ("supply_cap_filled", "99", "100")],
    ),
    "a cap that was not known": ({"supply_cap": 100, "risk_scope": None}, {"supply_cap": 200}, []),
}


@pytest.mark.parametrize(("before", "after", "expected"), OF_A_POOL.values(), ids=OF_A_POOL)
def test_each_kind_of_a_pool(before: Row, after: Row, expected: list[tuple[str, str | None, str | None]]) -> None:
    """Every kind of change is listed once, with before and after; what is not known, or came back, is not a change."""
    found = between(tables(1, [pool(**before)]), tables(2, [pool(**after)]))

    assert [(kind, A, X, *ends) for kind, *ends in expected] == [
        (each.kind, each.market, each.pool, each.before, each.after) for each in found
    ]
    assert all((each.observed_ledger, each.previous_ledger) == (2, 1) for each in found)
    assert all(each.unit == UNITS.get(each.kind) for each in found)
    assert len({each.id for each in found}) == len(found)


def test_a_parameter_is_named_with_both_values() -> None:
    """Each parameter with another value is a change of its own, with its decimals; caps are among the numbers."""
    before, after = tables(1, [pool()]), tables(2, [pool()])
    before.parameters[A, X] = tuple(Parameter(name, 400, 4) for name in ("r_base", "r_one", "supply_cap"))
    after.parameters[A, X] = (
        *(Parameter(name, 500, 4) for name in ("r_base", "supply_cap", "new")),
        Parameter("r_one", 2**64 - 1, 4, no_limit=True),
    )
    found = between(before, after)

    assert [("r_base", "0.04", "0.05"), ("r_one", "0.04", "no limit")] == [
        (each.title.split()[-2], each.before, each.after) for each in found
    ]
    assert {"parameter"} == {each.kind for each in found}
    assert 2 == len({each.id for each in found})


def status(name: str) -> Mapping[str, Row]:
    return {A: {"status": name}}


def terms(market: str, name: str | None) -> Pending:
    return Pending(market, name, "terms", "50 %", TIME)


ONE = [pool()]
OF_A_MARKET = {
    "a pool": (tables(1, ONE), tables(2, [*ONE, pool(A, Y)]), ("new_pool", A, Y, None, None)),
    "a market": (tables(1, ONE), tables(2, [*ONE, pool(B)]), ("new_market", B, None, None, "active")),
    "a pool less": (tables(1, [*ONE, pool(A, Y)]), tables(2, ONE), ("removed_pool", A, Y, None, None)),
    "a market less": (tables(1, [*ONE, pool(B)]), tables(2, ONE), None),
    "paused": (tables(1, ONE), tables(2, ONE, status("frozen")), ("paused", A, None, "active", "frozen")),
    "paused, and with it a pool": (
        tables(1, [pool(can_borrow=True)]),
        tables(2, [pool(can_borrow=False)], status("frozen")),
        ("paused", A, None, "active", "frozen"),
    ),
    "listed": (tables(1, ONE, {A: {"listed": False}}), tables(2, ONE), ("listed", A, None, "not listed", "listed")),
    "unlisted": (tables(1, ONE), tables(2, ONE, {A: {"listed": False}}), ("unlisted", A, None, "listed", "not listed")),
    "resumed": (tables(1, ONE, status("frozen")), tables(2, ONE), ("resumed", A, None, "frozen", "active")),
    "frozen for good": (
        tables(1, ONE, status("on_ice")),
        tables(2, ONE, status("frozen")),
        ("status", A, None, "on_ice", "frozen"),
    ),
    "configuration": (
        tables(1, ONE),
        tables(2, ONE, {A: {"config_hash": "1" * 16}}),
        ("configuration", A, None, "0" * 16, "1" * 16),
    ),
    "unread": (
        tables(1, [*ONE, pool(A, Y)]),
        tables(2, ONE, unread=[Unread(A, Y, "blend", "archived", "it is")]),
        ("unread", A, Y, None, "archived"),
    ),
    "queued": (tables(1, ONE), tables(2, ONE, pending=[terms(A, X)]), ("pending", A, X, None, "50 %")),
    "still queued": (tables(1, ONE, pending=[terms(A, X)]), tables(2, ONE, pending=[terms(A, X)]), None),
    "queued no more": (tables(1, ONE, pending=[terms(A, None)]), tables(2, ONE), ("pending", A, None, "50 %", None)),
    "queued, and unread": (
        tables(1, [*ONE, pool(A, Y)], pending=[terms(A, Y)]),
        tables(2, ONE, unread=[Unread(A, Y, "blend", "archived", "it is")]),
        ("unread", A, Y, None, "archived"),
    ),
    "queued in a new market": (
        tables(1, ONE),
        tables(2, [*ONE, pool(B)], pending=[terms(B, None)]),
        ("new_market", B, None, None, "active"),
    ),
    "read again": (
        tables(1, ONE, unread=[Unread(A, Y, "blend", "x", "y"), Unread(B, None, "blend", "x", "y")]),
        tables(2, [*ONE, pool(A, Y), pool(B)]),
        None,
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), OF_A_MARKET.values(), ids=OF_A_MARKET)
def test_each_kind_of_a_market(before: Tables, after: Tables, expected: tuple[str | None, ...] | None) -> None:
    """Markets and pools that come, go, pause or cannot be read are one change each; those that came back are none."""
    found = between(before, after)

    assert ([] if expected is None else [expected]) == [
        (each.kind, each.market, each.pool, each.before, each.after) for each in found
    ]


def test_what_has_nothing_to_compare_with_changes_nothing() -> None:
    """No change is made up at a first run; after an upgrade a digest may be of other fields, so none is reported."""
    strange = tables(1, [pool(utilization_bps=9_999)], {A: {"status": "frozen"}}, [Unread(B, None, "blend", "x", "y")])
    first = compared(tables(1, [pool()]), None, "made")
    before = replace(first, watched=msgspec.structs.replace(first.watched, exporter_version="0.0.1"))

    assert [] == compared(strange, None, "made").data
    assert [] == compared(tables(2, [pool()], {A: {"config_hash": "1" * 16}}), before, "made").data


def test_ids_are_for_good_and_kept() -> None:
    """A change keeps its id and its text in every later run, and a try again at its ledger gives the same."""
    first = compared(tables(1, [pool()]), None, "made")
    second = compared(tables(2, [pool(), pool(A, Y)]), first, "made")
    third = compared(tables(3, [pool(), pool(A, Y)], {A: {"status": "frozen"}}), second, "made")

    assert second.data[0] == third.data[1]
    assert ["paused", "new_pool"] == [change.kind for change in third.data]
    assert second == compared(tables(2, [pool(), pool(A, Y)]), first, "made")
    assert second.data[0].id != compared(tables(2, [pool(), pool(A, Y)]), first, "other").data[0].id


def test_changes_that_a_run_takes_over() -> None:
    """Those of ledgers below its own, also of a list of an earlier format; none of a list that nobody understands."""
    first = compared(tables(1, [pool()]), None, "made")
    second = compared(tables(2, [pool(), pool(A, Y)]), first, "made")
    third = compared(tables(3, [pool()]), second, "made")
    listed = msgspec.to_builtins(third.changes)
    older = msgspec.json.encode(listed | {"exporter_version": "0.0.1", "markets": []})

    assert second.data == earlier_changes(msgspec.json.encode(listed), 3) == earlier_changes(older, 3)
    assert [] == earlier_changes(older, 2)
    assert [] == earlier_changes(b"{}", 3) == earlier_changes(None, 3)


def test_what_is_kept_is_bounded() -> None:
    """The newest changes are kept, of one market only this many."""
    busy, document = contract(99), compared(tables(1, [pool()]), None, "made")
    for ledger in range(2, 200):
        after = tables(ledger, [pool()], {contract(n): {"status": f"s{ledger}"} for n in (*range(50, 60), 99)})
        document = compared(after, document, "made")

    assert MAX_CHANGES_OF_MARKET == sum(change.market == busy for change in document.data)
    assert 11 * MAX_CHANGES_OF_MARKET == len(document.data) <= MAX_CHANGES
    assert 199 == document.data[0].observed_ledger
    assert MAX_FEED_ENTRIES == feed_of(document, "feed.atom").findall(f"{ATOM}entry").__len__()


def test_markets_of_strangers_push_nothing_out() -> None:
    """An update of an oracle of 358 unlisted markets leaves every change of listed ones, the newer and the older."""
    strangers: dict[str, Row] = {
        contract(1_000 + number): {"listed": False, "status": "active"} for number in range(358)
    }
    honest = [pool(contract(100 + number)) for number in range(40)]
    first = compared(tables(1, honest, strangers), None, "made")
    paused: dict[str, Row] = {str(row["market"]): {"status": "frozen"} for row in honest}
    second = compared(tables(2, honest, strangers | paused), first, "made")
    changed: dict[str, Row] = {market: dict(row, status="frozen") for market, row in strangers.items()}
    again: dict[str, Row] = {market: {"status": "active"} for market in paused}
    third = compared(tables(3, honest, changed | again), second, "made")

    assert 80 == sum(change.listed for change in third.data)
    assert [True] * 40 == [change.listed for change in third.data[:40]]
    assert MAX_CHANGES // 4 == sum(not change.listed for change in third.data)
    assert 358 - MAX_CHANGES // 4 == third.changes.cut_count
    titles = [entry.findtext(f"{ATOM}title") for entry in feed_of(third, "feed.atom").findall(f"{ATOM}entry")]
    assert 80 + MAX_FEED_ENTRIES // 4 == len(titles)


def feed_of(run: Compared, key: str) -> ElementTree.Element:
    files = {file.key: file.data for file in render_feeds(run.changes, run.watched, "made", "2026-11-22T00:00:00Z")}
    assert all(family_of(name) is not None for name in files)
    return ElementTree.fromstring(files[key])


def test_feeds() -> None:
    """The feed has each change with an id, a time, a title and a link; a market's has its own, and every market one."""
    odd = 'A & <b> "x" \x00\ud7ff'
    before, after = tables(1, [pool(), pool(B)]), tables(2, [pool(), pool(A, Y, symbol=odd), pool(B)])
    document = compared(after, compared(before, None, "made"), "made")
    whole, own, other = (feed_of(document, key) for key in ("feed.atom", f"markets/{A}.atom", f"markets/{B}.atom"))
    entry = own.find(f"{ATOM}entry")

    assert entry is not None
    assert document.data[0].id == entry.findtext(f"{ATOM}id")
    assert f"New pool: {odd} in M{A[-1]}".replace("\x00", "�") == entry.findtext(f"{ATOM}title")
    assert "2026-11-18T11:06:42Z" == entry.findtext(f"{ATOM}updated") == own.findtext(f"{ATOM}updated")
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert f"../pools/{A}/{Y}.html" == link.get("href")
    assert 1 == len(whole.findall(f"{ATOM}entry"))
    assert [] == other.findall(f"{ATOM}entry")
    assert 3 == len({feed.findtext(f"{ATOM}id") for feed in (whole, own, other)})
    assert "2026-11-22T00:00:00Z" == other.findtext(f"{ATOM}updated")
    came = compared(tables(2, [pool(), pool(B)]), compared(tables(1, [pool()]), None, "made"), "made")
    gone = compared(tables(3, [pool()]), came, "made")  # its changes are kept, and so is its feed
    assert 1 == len(feed_of(gone, f"markets/{B}.atom").findall(f"{ATOM}entry"))


def test_metrics_are_read_by_the_monitor_s_own_parsers() -> None:
    """Both forms of the text are understood, and every number is the published one to its last digit."""
    odd = 'a"b\\c\nd'
    run = tables(
        7,
        [
            pool(symbol=odd, supply_apy_bps=610, decimals=7, total_supplied=10**30 + 1, tvl_usd_cents=None),
            pool(A, Y, supply_apy_bps=0, decimals=0, total_supplied=5, tvl_usd_cents=12345, can_supply=None),
            pool(B, decimals=4_000_000_000),
        ],
    )
    text = render_metrics(run).data.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]

    def values(name: str) -> dict[tuple[str, str], float]:
        return {(it.labels["market"], it.labels["pool"]): it.value for it in families[f"lending_{name}"].samples}

    assert {"gauge"} == {family.type for family in families.values()}
    assert 7 == families["lending_run_ledger"].samples[0].value
    assert 0.061 == values("pool_supply_apy_ratio")[A, X]
    assert {(A, Y): 123.45} == {key: it for key, it in values("pool_tvl_usd").items() if key[0] == A}
    assert odd == families["lending_pool_open"].samples[0].labels["symbol"]
    supplied = [s.labels["operation"] for s in families["lending_pool_open"].samples if s.labels["pool"] == Y]
    assert "supply" not in supplied
    assert (B, X) not in values("pool_supplied_tokens")
    assert f"{10**23}.0000001" in text
    plain = {family.name: len(family.samples) for family in prometheus_families(text)}
    assert plain == {name: len(family.samples) for name, family in families.items()}


def test_metrics_of_very_many_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the highest value have lines, in the order of the pools, and the number of the others is given."""
    monkeypatch.setattr(exporter.render.run_documents, "MAX_METRIC_POOLS", 3)
    worth = {A: 5, B: 9, X: None, Y: None, contract(30): None}
    rows = [pool(market, market, tvl_usd_cents=value) for market, value in sorted(worth.items())]
    text = render_metrics(tables(7, rows)).data.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]

    first_of_the_others = min(X, Y, contract(30))
    assert sorted([A, B, first_of_the_others]) == [
        sample.labels["market"] for sample in families["lending_pool_utilization_ratio"].samples
    ]
    assert 2 == families["lending_pools_not_shown"].samples[0].value
    assert 5 == families["lending_pools"].samples[0].value


def test_the_text_for_language_models_leads_somewhere(tree: Path) -> None:
    """Each link of the text is a file of a published tree, and so is each file that it names, whatever is filled in."""
    text = render_llms().data.decode()
    links = re.findall(r"\]\(([^)]+)\)", text)
    named = re.findall(r"^- `([^`]+)`: ", text, re.MULTILINE)
    keys = [str(path.relative_to(tree)) for path in tree.rglob("*.json")]
    patterns = {name: re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name)) for name in named}

    assert (tree / "llms.txt").read_text() == text
    assert len(links) > 8
    assert [] == [link for link in links if not (tree / link).is_file()]
    assert len(named) > 20
    assert [] == [name for name, pattern in patterns.items() if not any(re.fullmatch(pattern, key) for key in keys)]
    assert "`v1/assets/{market}/{pool}.json`: One pool" in text


def test_runs_compare_with_the_one_before_and_keep_its_changes(tree: Path) -> None:
    """The document of the last of three runs has the changes of the run before, as the feed does."""
    document = msgspec.json.decode((tree / "v1/changes.json").read_bytes(), type=ChangeList)
    feed = (tree / "feed.atom").read_text()

    last, ledgers = document.observed_ledger, {item.observed_ledger for item in document.data}
    assert last - 1 in ledgers <= {last - 1, last}
    assert all(change.id in feed for change in document.data)


STATUSES = [
    *((name, "status", each) for name, protocol in PROTOCOLS.items() for each in protocol.words.market_statuses),
    *((name, "pool_status", each) for name, protocol in PROTOCOLS.items() for each in protocol.words.pool_statuses),
]


@pytest.mark.parametrize(("protocol", "field", "status"), STATUSES)
def test_a_status_is_said_in_words(protocol: str, field: str, status: str) -> None:
    """A title says what a status means, with the protocol's own word once, in brackets; another status has its word."""
    meanings = PROTOCOLS[protocol].words
    meaning = (meanings.market_statuses if field == "status" else meanings.pool_statuses)[status]
    kept: dict[str, Row] = {A: {"protocol": protocol}}
    if field == "status":
        before, after = (tables(at, ONE, {A: {**kept[A], "status": each}}) for at, each in ((1, "s_9"), (2, status)))
    else:
        before, after = (tables(at, [pool(pool_status=each)], kept) for at, each in ((1, "s_9"), (2, status)))
    (title,) = (each.title for each in between(before, after) if each.kind in ("status", "paused", "resumed"))

    assert title.endswith(f": {meaning} ({status}); before: status s_9")


def test_a_new_market_has_its_protocols_name() -> None:
    """Of which protocol a new market is, is said as people write it."""
    before = tables(1, [pool(B, X)])
    (change,) = (each for each in between(before, tables(2, [pool(), pool(B, X)])) if each.kind == "new_market")

    assert change.title.endswith("(Blend)")
