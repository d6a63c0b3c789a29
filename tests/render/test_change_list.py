"""The list of changes: what a run takes over, and what no longer fits."""

from __future__ import annotations

import msgspec

from exporter.render.change_list import MAX_CHANGES, MAX_CHANGES_OF_MARKET, earlier_changes
from exporter.render.feeds import MAX_FEED_ENTRIES
from tests.render.compared import A, Row, Y, compared, pool, tables
from tests.render.rendering import contract
from tests.render.test_feeds import ATOM, feed_of


def test_changes_that_a_run_takes_over() -> None:
    """A run takes over changes of earlier ledgers, even from a list of an earlier format; none of a garbled one."""
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
    for ledger in range(2, MAX_CHANGES_OF_MARKET + 10):
        after = tables(ledger, [pool()], {contract(n): {"status": f"s{ledger}"} for n in (*range(50, 60), 99)})
        document = compared(after, document, "made")

    assert MAX_CHANGES_OF_MARKET == sum(change.market == busy for change in document.data)
    assert 11 * MAX_CHANGES_OF_MARKET == len(document.data) <= MAX_CHANGES
    assert MAX_CHANGES_OF_MARKET + 9 == document.data[0].observed_ledger
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
