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
from exporter.protocols.balances import balance_key, decode_balance
from exporter.protocols.peridot import math
from exporter.protocols.peridot.layout import (
    Vault,
    decode_model,
    decode_vault,
    fixed_curve,
)
from tests.protocols.judged import computed
from tests.protocols.made_ledger import entry

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


@pytest.fixture(scope="module")
def snapshots(real_data: Path) -> list[Snapshot]:
    """All contract data of all snapshots, through the reader of XDR-JSON."""
    return read_snapshots(real_data)


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
    curve: dict[str, int]
    live_cash: int
    earned: int
    """The interest of suppliers as these revisions count it, next to that of borrowers: all so far, base units."""

    def projected(self, more_cash: int) -> dict[str, int]:
        """What the exporter's math says, where the rate takes this cash next to the vault's balance."""
        cash = self.live_cash + more_cash
        row = dict.fromkeys(math.VAULT_COLUMNS, 0) | self.vault.numbers | self.curve | {"live_cash": cash}
        row |= {"net_cash": cash, "receipt_supply": 1, "total_deposited": 0, "total_reserves": 0, "total_admin_fees": 0}
        row |= {"total_borrowed": self.before["principal"], "borrow_index": self.before["interest_index"]}
        row["last_update_time"] = self.vault.numbers["last_update_time"] - self.seconds
        return computed("peridot", [row], self.vault.numbers["last_update_time"]).row(0, named=True)

    def entries_before(self) -> dict[bytes, bytes]:
        """The entries that the accrual changed, as they were before: nothing was set aside yet."""
        values = {
            "BorrowIndex": u128(self.before["interest_index"]),
            "LastUpdateTime": u64(self.vault.numbers["last_update_time"] - self.seconds),
            "TotalAdminFees": u128(0),
            "TotalBorrowed": u128(self.before["principal"]),
            "TotalReserves": u128(0),
        }
        return dict(entry(self.contract, vec(symbol(name)), value) for name, value in values.items())

    def agrees(self, found: dict[str, int]) -> bool:
        """Whether the contract has stored exactly this debt, index and part set aside."""
        stored = self.vault.numbers
        aside = stored["total_reserves"] + stored["total_admin_fees"]
        return (
            (stored["total_borrowed"], stored["borrow_index"]) == (found["total_borrowed"], found["borrow_index"])
            and found["backstop_credit"] - aside in (0, 5)  # one of the contracts' tests pays five out of the reserves
        )


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
            model = vault.model
            if model is not None and variant_key(model, "Kink") not in snapshot.entries:
                continue  # a test's own model, whose rate is in its code
            balance = snapshot.entries.get(balance_key(vault.token, contract))
            yield Accrual(
                snapshot,
                contract,
                vault,
                before,
                vault.numbers["last_update_time"] // periods,
                fixed_curve(vault.fixed_rate or 0) if model is None else decode_model(model, snapshot.entries),
                balance.value[1] if balance and balance.value[0] == scval.I128 else decode_balance(balance),
                snapshot.value(contract, "AccumulatedInterest"),
            )


def test_interest(snapshots: list[Snapshot]) -> None:
    """The last accrual of every vault that has grown comes out to the last digit: debt, index, and what is set aside.

    The rate takes the vault's balance; that of some revisions, next to it, what suppliers have earned by then.
    """
    plain = with_earnings = 0
    for accrual in accruals(snapshots):
        if accrual.agrees(accrual.projected(0)):
            plain += 1
        else:
            assert accrual.agrees(accrual.projected(accrual.earned)), accrual.snapshot.name
            with_earnings += 1
    print(f"{plain} accruals from the balance, {with_earnings} from the balance and earnings")

    assert plain > 0
    assert with_earnings > 0
