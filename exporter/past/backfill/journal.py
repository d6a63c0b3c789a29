"""The record of earlier backfills of a history: which segments are finished, and what their readings looked at.

A gap in the lake cuts a segment into pieces. Each piece is recorded by itself, so that none takes the place of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from exporter.past.lake.transitions import Tally
from exporter.past.lake.watch import Watch
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.families import JOURNAL_KEY


class FinishedPiece(msgspec.Struct, frozen=True):
    """A segment, or a piece of one, whose rows are in the history.

    Attributes:
        boundaries: the ledgers at its boundaries.
        with_rows: those of them that have rows in the history.
        tally: what comparing formulas with the chain gave in its ledgers.
    """

    boundaries: tuple[int, ...]
    with_rows: tuple[int, ...]
    tally: Tally


class Journal(msgspec.Struct):
    """What earlier backfills did.

    Attributes:
        segments: the finished pieces of each segment, by the segment's name. No two have a ledger in common.
        watched: what was found to be needed besides what the start state shows.
    """

    segments: dict[str, list[FinishedPiece]] = {}
    watched: Watch = Watch()

    def add(self, segment: str, piece: FinishedPiece) -> None:
        """Record a finished piece. It replaces earlier ones with a boundary of its own, which were replayed again."""
        others = [other for other in self.segments.get(segment, ()) if not {*other.boundaries} & {*piece.boundaries}]
        self.segments[segment] = sorted([*others, piece], key=lambda each: each.boundaries)

    def is_finished(self, segment: str, ledgers: Collection[int], history_has: Callable[[int], bool]) -> bool:
        """Whether all these ledgers of a segment are finished, and the history still has the rows of its pieces."""
        pieces = self.segments.get(segment, ())
        finished = {ledger for piece in pieces for ledger in piece.boundaries}
        return finished.issuperset(ledgers) and all(history_has(at) for piece in pieces for at in piece.with_rows)

    def tally_of(self, segments: Iterable[str]) -> Tally:
        """What comparing formulas with the chain gave in the finished pieces of some segments."""
        tally = Tally()
        for segment in segments:
            for piece in self.segments.get(segment, ()):
                tally.add(piece.tally)
        return tally


def read_journal(store: Store) -> Journal:
    """The journal of a history. An empty one if there is none, or none that can be read.

    Then everything is done again, and turns out to be in the history.
    """
    stored = store.get(JOURNAL_KEY)
    try:
        return Journal() if stored is None else decode_json(stored.data, Journal)
    except msgspec.DecodeError:
        return Journal()


def write_journal(store: Store, journal: Journal) -> None:
    """Write the journal of a history. Raises `StoreError` if the store fails."""
    store.put(JOURNAL_KEY, msgspec.json.encode(journal, order="deterministic"))
