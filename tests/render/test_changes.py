"""Tests of changes from run to run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from exporter.deployments.networks import NETWORKS, native_asset
from exporter.protocols import PROTOCOLS
from exporter.protocols.base import Parameter, Pending
from exporter.protocols.compute import Tables
from exporter.render.changes import UNITS
from exporter.tables import PoolKey
from exporter.tree.documents import ChangeList, RunChange, Unread
from tests.render.compared import TIME, A, B, Row, X, Y, compared, pool, tables


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
    "exactly at the limit": ({"utilization_bps": 9_499}, {"utilization_bps": 9_500}, []),
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
    "a cap is filled from 99.9 % on": (
        {"supply_cap": 1_000_000, "total_supplied": 998_999},
        {"supply_cap": 1_000_000, "total_supplied": 999_000},
        [("supply_cap_filled", "998999", "999000")],
    ),
    "a cap that was not known": ({"supply_cap": 100, "risk_scope": None}, {"supply_cap": 200}, []),
}


def test_titles_call_the_native_asset_xlm() -> None:
    """People say XLM. On a public network another token that calls itself native keeps its word."""
    mainnet = NETWORKS["mainnet"].passphrase
    for network, token, expected in (
        (mainnet, native_asset(mainnet), "XLM in"),
        (mainnet, X, "native in"),
        ("made", X, "XLM in"),
    ):
        before, after = (
            tables(ledger, [pool(name=token, symbol="native", pool_status=status)])
            for ledger, status in ((1, "on"), (2, "off"))
        )
        (change,) = compared(after, compared(before, None, network), network).data
        assert change.title.startswith(expected)


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
    before.parameters[PoolKey(A, X)] = tuple(Parameter(name, 400, 4) for name in ("r_base", "r_one", "supply_cap"))
    after.parameters[PoolKey(A, X)] = (
        *(Parameter(name, 500, 4) for name in ("r_base", "supply_cap", "new")),
        Parameter("r_one", 2**64 - 1, 4, no_limit=True),
    )
    found = between(before, after)

    assert {("r_base", "0.04", "0.05"), ("new", None, "0.05"), ("r_one", "0.04", "no limit")} == {
        (each.title.split("the parameter ")[1].split()[0], each.before, each.after) for each in found
    }
    assert {"parameter"} == {each.kind for each in found}
    assert 3 == len({each.id for each in found})


def test_a_parameter_that_is_gone_is_a_change() -> None:
    """A parameter that the contract has no longer has no value after; if none of a pool is known, nothing changed."""
    before, after, unknown = (tables(ledger, [pool()]) for ledger in (1, 2, 2))
    before.parameters[PoolKey(A, X)] = tuple(Parameter(name, 400, 4) for name in ("r_base", "r_one"))
    after.parameters[PoolKey(A, X)] = (Parameter("r_base", 400, 4),)
    (change,) = between(before, after)

    assert ("0.04", None) == (change.before, change.after)
    assert change.title.endswith("the parameter r_one (rate added up to the utilization util) is gone")
    assert [] == between(before, unknown)


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
    "unread as a market of its protocol, and before of another one": (
        tables(1, [*ONE, pool(B)], unread=[Unread(B, None, "k2", "undecodable", "it is")]),
        tables(2, ONE, unread=[Unread(B, None, name, "undecodable", "it is") for name in ("blend", "k2")]),
        ("unread", B, None, None, "undecodable"),
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
    """A title says what a status means, with the protocol's own word once, in brackets; another status has its word.

    A meaning has no colon, because titles and pages have one before it.
    """
    meanings = PROTOCOLS[protocol].words
    meaning = (meanings.market_statuses if field == "status" else meanings.pool_statuses)[status]
    kept: dict[str, Row] = {A: {"protocol": protocol}}
    if field == "status":
        before, after = (tables(at, ONE, {A: {**kept[A], "status": each}}) for at, each in ((1, "s_9"), (2, status)))
    else:
        before, after = (tables(at, [pool(pool_status=each)], kept) for at, each in ((1, "s_9"), (2, status)))
    (title,) = (each.title for each in between(before, after) if each.kind in ("status", "paused", "resumed"))

    assert title.endswith(f": {meaning} ({status}); before: status s_9")
    assert ": " not in meaning


def test_a_new_market_has_its_protocols_name() -> None:
    """A change names the protocol of a new market as people write it."""
    before = tables(1, [pool(B, X)])
    (change,) = (each for each in between(before, tables(2, [pool(), pool(B, X)])) if each.kind == "new_market")

    assert change.title.endswith("(Blend)")
