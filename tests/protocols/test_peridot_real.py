"""Ledger entries that the contracts' own tests wrote: the interest in them is what is computed.

They are of Peridot's public repository, from 19 commits of June 2025 to May 2026, in both conventions of XDR-JSON.
Their vaults do not count their own cash yet, so the reader would refuse them; the accrual of debt is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import data_key, decode_contract_data, variant_key
from exporter.ledger.codec.scval_encode import symbol, u64, u128, vec
from exporter.ledger.observation import Entry
from exporter.ledger.snapshot_file import xdr_from_json
from exporter.ledger.source import RawEntry
from exporter.protocols.accrual import Step, Transition
from exporter.protocols.peridot import math
from exporter.protocols.peridot.layout import decode_vault
from tests.protocols.contract_states import unpacked
from tests.protocols.made_ledger import entry, entry_of

pytestmark = pytest.mark.slow


def documents(folder: Path) -> Iterator[bytes]:
    """The snapshots of the folder, from the archive or one by one; skips where there are none."""
    archive, single = folder / "peridot-snapshots.tar.zst", sorted((folder / "peridot-snapshots").glob("*.json"))
    if not archive.is_file() and not single:
        pytest.skip(f"{folder} has neither {archive.name} nor the snapshots of peridot-snapshots/")
    if archive.is_file():
        yield from (content for name, content in unpacked(archive) if name.endswith(".json"))
    else:
        yield from (path.read_bytes() for path in single)


def contract_data(document: bytes) -> dict[bytes, Entry | None]:
    """The contract data of a snapshot."""
    entries: dict[bytes, Entry | None] = {}
    for item in json.loads(document)["ledger"]["ledger_entries"]:
        data = item["entry"] if isinstance(item, dict) else item[1][0]
        if "contract_data" in data["data"]:
            raw = xdr_from_json("LedgerEntryData", data["data"])
            decoded = decode_contract_data(raw)
            key = data_key(decoded.contract, decoded.key, decoded.durability)
            entries[key] = Entry(key, RawEntry(raw, 1, None))
    return entries


def accruals(entries: dict[bytes, Entry | None]) -> Iterator[tuple[Transition, int]]:
    """The last accrual of every vault with one borrower whose index has grown, and what suppliers earned by then.

    The debt and the index before it are those of the borrower, and nothing was set aside yet. The contracts' tests let
    one period pass, or two alike.
    """
    stored = [each.contract_data() for each in entries.values() if each is not None]
    for contract in [each.contract for each in stored if each.key == vec(symbol("BorrowIndex"))]:
        vault = decode_vault(contract, entries)
        if vault.numbers.borrow_index == 10**18:
            continue
        if vault.model is not None and variant_key(vault.model, "Kink") not in entries:
            continue  # a test's own model, whose rate is in its code
        own: dict[Any, Any] = {each.key: each.value for each in stored if each.contract == contract}
        ((_, borrower),) = [value for key, value in own.items() if (key[1] or [0])[0] == symbol("BorrowSnapshots")]
        was = {key[1]: value[1] for key, value in borrower}
        time = vault.numbers.last_update_time
        values = {
            "BorrowIndex": u128(was["interest_index"]),
            "LastUpdateTime": u64(time - time // (1 if was["interest_index"] == 10**18 else 2)),
            "TotalAdminFees": u128(0),
            "TotalBorrowed": u128(was["principal"]),
            "TotalReserves": u128(0),
        }
        written = [entry_of(entry(contract, vec(symbol(name)), value)) for name, value in values.items()]
        before = entries | {each.key: each for each in written}
        key = variant_key(contract, "LastUpdateTime")
        (transition,) = math.RULE.read(key, Step(time, before.get, entries.get, entries.get))
        yield transition, own.get(vec(symbol("AccumulatedInterest")), (scval.U128, 0))[1]


def confirmed(transition: Transition, earned: int = 0) -> bool:
    """Whether the math gives what was stored, if that part of suppliers' earnings counts as cash."""
    compute = cast("partial[Mapping[str, int]]", transition.compute)
    books, time = compute.args
    cash = replace(books.cash, live_cash=books.cash.live_cash + earned)
    return transition.after.items() <= math.accrued_fields(replace(books, cash=cash), time).items()


def test_the_last_accrual_of_every_vault_is_reproduced(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last accrual of every vault that has grown comes out to the last digit: debt, index, and what is set aside.

    The rate takes the vault's balance; that of some revisions, next to it, what suppliers have earned by then. The year
    of another contract does not confirm it.
    """
    grown = [item for document in documents(real_data) for item in accruals(contract_data(document))]
    others = [item for item in grown if not confirmed(item[0])]
    print(f"{len(grown) - len(others)} accruals from the balance, {len(others)} from the balance and earnings")

    assert 0 < len(others) < len(grown)
    assert [] == [transition for transition, earned in others if not confirmed(transition, earned)]
    monkeypatch.setattr(math, "SECONDS_PER_YEAR", 31_556_926)
    assert 3 * sum(confirmed(transition) for transition, _ in grown) < len(grown)  # in some there is too little
