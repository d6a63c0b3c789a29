"""CAP-76's entries as data of the package."""

from __future__ import annotations

import base64
import csv
from pathlib import Path

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.past.lake.wrongly_archived import wrongly_archived

MAINNET, TESTNET = (NETWORKS[name].passphrase for name in ("mainnet", "testnet"))


def test_only_mainnet_has_such_entries() -> None:
    """There are 478 on mainnet, evicted from ledger 58,774,258 to 59,301,970, and none elsewhere."""
    found = wrongly_archived(MAINNET)
    evicted = [entry.evicted for entry in found.values()]

    assert (478, 58_774_258, 59_301_970) == (len(found), min(evicted), max(evicted))
    assert {} == wrongly_archived(TESTNET)
    key = next(iter(found))
    assert {key: found[key]} == wrongly_archived(MAINNET, lambda item: item == key)


def test_they_are_those_of_the_published_list(real_data: Path) -> None:
    """Keys, ledgers, and both values are those that CAP-76 lists."""
    path = real_data / "cap-0076-corrupted-hot-archive-entries.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    found = wrongly_archived(MAINNET)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            entry = found.pop(base64.b64decode(row["ledger_key"]))
            assert int(row["evicted_ledger_seq"]) == entry.evicted
            assert base64.b64decode(row["archived_entry"]) == entry.archived
            assert base64.b64decode(row["correct_entry"]) == entry.correct

    assert {} == found
