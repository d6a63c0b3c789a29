"""The record of what earlier backfills finished."""

from __future__ import annotations

from exporter.past.backfill.journal import FinishedPiece, Journal, read_journal, write_journal
from exporter.past.lake.transitions import Tally
from exporter.stores.memory import MemoryStore
from exporter.tree.families import JOURNAL_KEY

NAME = "3600-0"


def piece(*ledgers: int, confirmed: int) -> FinishedPiece:
    """A piece with rows at each of its ledgers."""
    return FinishedPiece(ledgers, ledgers, Tally(confirmed={"blend/x": confirmed}))


def has_all(ledger: int) -> bool:
    """A history that has every ledger."""
    return ledger > 0


def test_pieces_of_a_segment_that_a_gap_cuts() -> None:
    """Both pieces of a cut segment are finished and counted; neither replaces the other."""
    journal = Journal()
    journal.add(NAME, piece(10, 20, confirmed=3))
    journal.add(NAME, piece(50, confirmed=4))

    assert journal.is_finished(NAME, {10, 20, 50}, has_all)
    assert not journal.is_finished(NAME, {10, 20, 30, 50}, has_all)
    assert {"blend/x": 7} == journal.tally_of([NAME, "3600-86400"]).confirmed


def test_a_piece_that_is_replayed_again_is_counted_once() -> None:
    """A piece replaces those with ledgers of its own: the whole segment, once the gap is filled, replaces all."""
    journal = Journal()
    journal.add(NAME, piece(10, 20, confirmed=3))
    journal.add(NAME, piece(50, confirmed=4))
    journal.add(NAME, piece(50, confirmed=5))
    assert {"blend/x": 8} == journal.tally_of([NAME]).confirmed

    journal.add(NAME, piece(10, 20, 30, 50, confirmed=9))

    assert {"blend/x": 9} == journal.tally_of([NAME]).confirmed


def test_a_history_that_lost_rows() -> None:
    """A segment is not finished if the history lacks the rows of one of its pieces, or if none was recorded."""
    journal = Journal()
    assert not journal.is_finished(NAME, {10}, has_all)
    journal.add(NAME, piece(10, confirmed=1))
    journal.add(NAME, piece(50, confirmed=1))

    assert not journal.is_finished(NAME, {10}, lambda ledger: ledger != 50)


def test_a_journal_is_read_as_it_was_written() -> None:
    """A journal that is missing or malformed counts as an empty one."""
    store, journal = MemoryStore(), Journal()
    assert Journal() == read_journal(store)
    journal.add(NAME, piece(10, confirmed=1))
    write_journal(store, journal)
    assert journal == read_journal(store)

    store.put(JOURNAL_KEY, b"damaged")

    assert Journal() == read_journal(store)
