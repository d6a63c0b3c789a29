"""Ledger entries that the contracts' own tests wrote: the interest in them is what is computed.

They are of Peridot's public repository, from 19 commits of June 2025 to May 2026, in both conventions of XDR-JSON.
Their vaults do not count their own cash yet, so the reader would refuse them; the accrual of debt is the same.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, data_key, decode_contract_data, variant_key
from exporter.ledger.codec.scval_encode import symbol, u64, u128, vec
from exporter.ledger.codec.xdr_json import xdr_from_json
from exporter.ledger.observation import Entry
from exporter.ledger.source import RawEntry
from exporter.past.lake.close_meta import UPDATED, Change
from exporter.past.lake.extract import LedgerChanges
from exporter.past.lake.proof import Prover
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.peridot import math
from exporter.protocols.peridot.layout import Vault, decode_vault
from tests.protocols.made_ledger import balance_at, entry

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Snapshot:
    """A snapshot's contract data, and what its contracts are."""

    name: str
    entries: dict[bytes, Entry | None] = field(default_factory=dict)
    data: list[ContractData] = field(default_factory=list)

    def with_entry(self, name: str) -> list[str]:
        """The contracts that have an entry under a variant without values."""
        contracts = dict.fromkeys(item.contract for item in self.data)
        return [each for each in contracts if variant_key(each, name) in self.entries]

    def value(self, contract: str, name: str) -> Any:
        """What a contract has under a variant without values."""
        entry = self.entries[variant_key(contract, name)]
        assert entry is not None
        return entry.value[1]

    def values(self, contract: str, name: str) -> list[Any]:
        """What a contract has under a variant with values."""
        return [
            item.value
            for item in self.data
            if item.contract == contract and item.key[0] == scval.VEC and item.key[1][0] == (scval.SYMBOL, name)
        ]


def documents(folder: Path) -> Iterator[tuple[str, Any]]:
    """The snapshots of the folder, from the archive or one by one; skips where there are none."""
    archive, single = folder / "peridot-snapshots.tar.zst", sorted((folder / "peridot-snapshots").glob("*.json"))
    if archive.is_file():
        with pa.input_stream(archive, compression="zstd") as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name.endswith(".json") else None
                if content is not None:
                    yield Path(member.name).stem, json.load(content)
    elif single:
        for path in single:
            yield path.stem, json.loads(path.read_bytes())
    else:
        pytest.skip(f"{folder} has neither {archive.name} nor the snapshots of peridot-snapshots/")


def read_snapshots(folder: Path) -> list[Snapshot]:
    """The snapshots of the folder; skips where there are none."""
    found = []
    for name, document in documents(folder):
        snapshot = Snapshot(name)
        for item in document["ledger"]["ledger_entries"]:
            data, live_until = (item["entry"], item["live_until"]) if isinstance(item, dict) else item[1]
            if "contract_data" in data["data"]:
                raw = xdr_from_json("LedgerEntryData", data["data"])
                decoded = decode_contract_data(raw)
                key = data_key(decoded.contract, decoded.key, decoded.durability)
                snapshot.entries[key] = Entry(key, RawEntry(raw, data["last_modified_ledger_seq"], live_until))
                snapshot.data.append(decoded)
        found.append(snapshot)
    return found


@dataclass(frozen=True, slots=True)
class Accrual:
    """The last accrual of a vault with one borrower, as its contract stored it, and what was before."""

    snapshot: Snapshot
    contract: str
    vault: Vault
    before: dict[str, int]
    seconds: int

    def entries_before(self) -> dict[bytes, RawEntry]:
        """The entries that the accrual changed, as they were before: nothing was set aside yet."""
        values = {
            "BorrowIndex": u128(self.before["interest_index"]),
            "LastUpdateTime": u64(self.vault.numbers["last_update_time"] - self.seconds),
            "TotalAdminFees": u128(0),
            "TotalBorrowed": u128(self.before["principal"]),
            "TotalReserves": u128(0),
        }
        written = (entry(self.contract, vec(symbol(name)), value) for name, value in values.items())
        return {key: RawEntry(data, 0, None) for key, data in written}

    def confirmed(self, *, with_earnings: bool = False) -> bool:
        """Whether the math gives what was stored, where what suppliers earned so far counts as cash or does not."""
        now = {key: entry.raw for key, entry in self.snapshot.entries.items() if entry is not None}
        before = self.entries_before()
        if with_earnings:
            amount = decode_balance(self.snapshot.entries[balance_key(self.vault.token, self.contract)])
            earned = self.snapshot.value(self.contract, "AccumulatedInterest")
            key, data = balance_at(self.vault.token, self.contract, amount + earned)
            before[key] = RawEntry(data, 0, None)
        prover = Prover(now | before)
        changed = [key for key in self.entries_before() if key in now]
        changes = [Change(UPDATED, key, bytes(4) + now[key].data + bytes(4)) for key in changed]
        prover.follow(LedgerChanges(1, self.vault.numbers["last_update_time"], 22, list(enumerate(changes))))
        tally = prover.tally
        assert 1 == sum(tally.confirmed.values()) + sum(tally.differing.values())
        return bool(sum(tally.confirmed.values()))


def accruals(snapshots: list[Snapshot]) -> Iterator[Accrual]:
    """The last accrual of every vault whose index has grown.

    The debt and the index before it are those of the one borrower. The contracts' tests let one period pass, or two
    alike.
    """
    for snapshot in snapshots:
        for contract in snapshot.with_entry("BorrowIndex"):
            vault = decode_vault(contract, snapshot.entries)
            if vault.numbers["borrow_index"] == 10**18:
                continue
            ((_, borrower),) = snapshot.values(contract, "BorrowSnapshots")
            before = {key[1]: value[1] for key, value in borrower}
            periods = 1 if before["interest_index"] == 10**18 else 2
            if vault.model is not None and variant_key(vault.model, "Kink") not in snapshot.entries:
                continue  # a test's own model, whose rate is in its code
            yield Accrual(snapshot, contract, vault, before, vault.numbers["last_update_time"] // periods)


def test_interest(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last accrual of every vault that has grown comes out to the last digit: debt, index, and what is set aside.

    The rate takes the vault's balance; that of some revisions, next to it, what suppliers have earned by then. The year
    of another contract does not confirm it.
    """
    found = list(accruals(read_snapshots(real_data)))
    others = [accrual for accrual in found if not accrual.confirmed()]
    print(f"{len(found) - len(others)} accruals from the balance, {len(others)} from the balance and earnings")

    assert 0 < len(others) < len(found)
    assert [] == [accrual.snapshot.name for accrual in others if not accrual.confirmed(with_earnings=True)]
    monkeypatch.setattr(math, "SECONDS_PER_YEAR", 31_556_926)
    assert 3 * sum(accrual.confirmed() for accrual in found) < len(found)  # in some there is too little to show it
