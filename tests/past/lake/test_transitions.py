"""Compares what contracts made of their pools with what is computed from the state before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Change as Write
from exporter.localnet.player import RecordedNetwork
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.lake.close_meta import CREATED, UPDATED, Change
from exporter.past.lake.extract import LedgerChanges
from exporter.past.lake.transitions import Prover, Tally
from exporter.protocols import accrual_rules
from exporter.protocols.alula import math as alula
from exporter.protocols.k2 import math as k2
from exporter.protocols.k2.math import liquidity_rate
from exporter.protocols.k2.math import variable_borrow_rate as borrow_rate
from exporter.protocols.peridot import math as peridot
from exporter.protocols.peridot.math import accrue as accrue_peridot
from exporter.protocols.xoxno import math as xoxno
from tests.past.archive.archive_snapshot import state_at

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
V2_CODE = "a41fc53d6753b6c04eb15b021c55052366a4c8e0e21bc72700f461264ec1350e"

RAY = 10**27

Spoil = Callable[[bytes], bytes]


LEDGERS = 30


@cache
def played() -> tuple[dict[bytes, RawEntry], list[tuple[int, int, list[Write]]]]:
    """The entries of a recorded network whose pools have debts, and the entries that each of `LEDGERS` then writes."""
    network = RecordedNetwork(close_seconds=600)
    for _ in range(3):
        network.advance(network.pools)
    chain = network.chain
    entries = {key: entry for key in chain.known_keys() if (entry := chain.stored(key)) is not None}
    found: list[tuple[int, int, list[Write]]] = []

    def follow(ledger: int, close_time: int, writes: list[Write], *_: object) -> None:
        found.append((ledger, close_time, list(writes)))

    chain.on_close = follow  # type: ignore[assignment]
    for number in range(LEDGERS):
        network.advance(network.pools[number % 2 :: 2])
    return entries, found


def proven(ledgers: int, spoil: Spoil = lambda data: data, unknown: tuple[bytes, ...] = ()) -> Tally:
    """What the first ledgers of a recorded network prove. All are played before a test makes anything wrong.

    Entries whose keys have one of ``unknown`` in them are not known.
    """
    entries, written = played()
    prover = Prover({key: entry for key, entry in entries.items() if not any(part in key for part in unknown)})
    for ledger, close_time, writes in written[:ledgers]:
        changes = [
            Change(UPDATED, write.key, bytes(4) + spoil(write.data) + bytes(4)) for write in writes if write.data
        ]
        prover.follow(LedgerChanges(ledger, close_time, 28, list(enumerate(changes))))
    return prover.tally


def protocols_of(counts: Iterable[str]) -> set[str]:
    """The protocols of the names that a tally counts by."""
    return {name.split("/")[0] for name in counts}


def test_moves_of_every_protocol_are_proven() -> None:
    """Every accrual that a recorded network played is seen, and gives what the exporter computes."""
    tally = proven(LEDGERS)

    assert {} == tally.differing
    assert accrual_rules().keys() == protocols_of(tally.confirmed)
    assert all(count >= 10 for name, count in tally.confirmed.items() if not name.startswith("slender"))


def test_what_cannot_be_tried_is_counted() -> None:
    """If Blend's and XOXNO's configurations and Peridot's balances are unknown, all of their accruals still count."""
    whole, without = proven(5), proven(5, unknown=(b"ResConfig", b"Params", b"Balance"))

    assert {} == whole.untried
    assert {"blend", "peridot", "xoxno"} == protocols_of(without.untried)
    assert sum(whole.confirmed.values()) <= sum(without.confirmed.values()) + sum(without.untried.values())
    assert ({}, True) == (without.differing, {"blend", "xoxno"}.isdisjoint(protocols_of(without.confirmed)))


def test_one_wrong_unit_is_reported() -> None:
    """An index that is one off is a difference, named with its ledger, key, and both values."""

    def spoil(data: bytes) -> bytes:
        place = data.find(b"\0\0\0\x06d_rate") if b"ResData" in data else -1
        if place < 0:
            return data
        last = place + 12 + 4 + 15  # after the symbol: the kind, and the last byte of 16
        return data[:last] + bytes(((data[last] + 1) % 256,)) + data[last + 1 :]

    tally = proven(1, spoil)
    mismatch = tally.mismatches[0]

    assert {"blend"} == protocols_of(tally.differing)
    assert "blend" not in protocols_of(tally.confirmed)
    assert ("blend", "d_rate", 65_000_004) == (mismatch.protocol, mismatch.field, mismatch.ledger)
    assert 1 == abs(int(mismatch.computed) - int(mismatch.found)) % 255
    assert b"ResData" in bytes.fromhex(mismatch.key)


def test_fees_that_are_paid_out_do_not_refute_the_math() -> None:
    """If Alula's own fees fall in the ledger of an accrual, everything else is compared."""

    def spoil(data: bytes) -> bytes:
        place = data.find(b"take_rate_fees_sum")
        value = place + 20 + 4  # after the symbol and the kind
        return data if place < 0 else data[:value] + bytes(16) + data[value + 16 :]

    tally = proven(1, spoil)

    assert {} == tally.differing
    assert "alula" in protocols_of(tally.confirmed)


def one_more(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a result that is one too much."""
    return lambda *arguments: function(*arguments) + 1


@pytest.mark.parametrize(
    ("module", "name", "wrong", "field"),
    [
        (alula, "SECONDS_PER_YEAR", 31_536_000, "take_rate_fees_sum"),
        (alula, "kinked_apr", one_more(alula.kinked_apr), "borrow_apr_bps"),
        (alula, "supply_apr", one_more(alula.supply_apr), "supply_apr_bps"),
        (alula, "HIGHEST_MODIFIER", 10_000, "interest_rate_modifier_bps"),
        (k2, "variable_borrow_rate", lambda *given: 1 + borrow_rate(*given), "current_variable_borrow_rate"),
        (k2, "liquidity_rate", lambda *given: 1 + liquidity_rate(*given), "current_liquidity_rate"),
        (peridot, "SECONDS_PER_YEAR", 31_556_926, "borrow_index"),
        (
            peridot,
            "accrue",
            lambda books, time: accrue_peridot(books, time)._replace(reserves=books.numbers.total_reserves),
            "total_reserves",
        ),
        (
            peridot,
            "accrue",
            lambda books, time: accrue_peridot(books, time)._replace(borrowed=books.numbers.total_borrowed),
            "total_borrowed",
        ),
        (xoxno, "YEAR_MILLISECONDS", 31_536_000_000, "borrow_index"),
    ],
)
def test_wrong_math_is_reported(
    module: ModuleType, name: str, wrong: Any, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year, a rounding, or a rate that is not the contract's is a difference of that protocol, in that field."""
    played()
    monkeypatch.setattr(module, name, wrong)
    tally = proven(12)

    assert {module.__name__.split(".")[-2]} == protocols_of(tally.differing)
    assert field in {mismatch.field for mismatch in tally.mismatches}


def test_the_accruals_of_a_real_pool(testnet_archive: Path) -> None:
    """The three accruals of testnet's pool, out of its history archive, are exact in all twelve numbers."""
    archive = HistoryArchive(FolderFiles(testnet_archive))
    times = {header.ledger: header.close_time for at in (575, 895, 959) for header in archive.headers(at)}
    prover = Prover({})
    for item in changes_between_checkpoints(archive, times):
        prover.follow(item)
    tally = prover.tally

    assert ({f"blend/{V2_CODE}": 3}, {}) == (tally.confirmed, tally.differing)


def changes_between_checkpoints(archive: HistoryArchive, times: dict[int, int]) -> Iterator[LedgerChanges]:
    """The pool's entries as three checkpoints have them, each at the ledger of its last change."""
    known: dict[bytes, RawEntry] = {}
    for at in (575, 895, 959):
        found = state_at(archive, at, [POOL]).entries
        fresh = [
            (entry.last_modified, key, entry)
            for key, entry in found.items()
            if key not in known or known[key].last_modified < entry.last_modified
        ]
        for order, (ledger, key, entry) in enumerate(sorted(fresh, key=lambda item: item[:2])):
            kind = UPDATED if key in known else CREATED
            change = Change(kind, key, bytes(4) + entry.data + bytes(4))
            yield LedgerChanges(ledger, times.get(ledger, 0), 22, [(order, change)])
        known |= found
