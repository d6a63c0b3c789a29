"""Markets that a run left out, and the attacks by which one would hide them or refute an honest run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.console import Silence
from exporter.deployments import FACTORY
from exporter.deployments.networks import network_of
from exporter.errors import EXIT_REFUTED, RefutedError
from exporter.job.census import RunRead, census
from exporter.job.completeness import Complete, check_complete
from exporter.job.from_archive import FromArchive
from exporter.job.unproven import Reason, Unproven
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
    variant_key,
)
from exporter.ledger.codec.scval_encode import address, encode_address
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_places import Archives, Deadline
from exporter.past.archive.bucket_entries import DEAD
from exporter.past.archive.checkpoint_proof import make_proof
from exporter.past.archive.stellar_proof import check_proof
from exporter.past.archive.trusted_organisations import trust_of
from exporter.stores import open_store
from tests.job.recorded_archive import CHECKPOINT, recorded_archive
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED, only

MARKETS = frozenset(market for _, market in LISTED)
SLENDER, ALULA, K2 = (dict(LISTED)[name] for name in ("slender", "alula", "k2"))
STRANGER = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
Entries = dict[bytes, RawEntry]


@dataclass
class _Status:
    """What the comparison takes of a status."""

    run_id: str = "65000063-0123456789ab"
    observed_ledger: int = CHECKPOINT
    notices: Sequence[str] = ()


def compared(
    folder: Path,
    read: frozenset[str],
    change: Callable[[Entries], None] | None = None,
    newest: Sequence[bytes] = (),
    ledger: int = CHECKPOINT,
) -> tuple[Complete, Unproven]:
    """A run at a ledger that read these markets, compared with the archive of a changed network."""
    signed, given = recorded_archive(folder, change, newest)
    passphrase = settings_for().passphrase
    trust = trust_of(passphrase, given.trust)
    archives = Archives.open([str(signed.archive.folder)], folder / "kept", Deadline(60, "deadline"))
    proven = check_proof(make_proof(archives, CHECKPOINT, trust)[1], trust)
    status: Any = _Status(observed_ledger=ledger)
    unproven = Unproven()
    complete = check_complete(
        archives, proven, folder / "state", passphrase, RunRead(status, read, frozenset()), unproven
    )
    return complete, unproven


def with_code(market: str, code: bytes, last_modified: int | None = None) -> Callable[[Entries], None]:
    """A market has other code."""

    def change(entries: Entries) -> None:
        entry = entries[instance_key(market)]
        data = decode_contract_data(entry.data)
        instance = instance_of(data)._replace(wasm_hash=code)
        written = encode_contract_data(data._replace(value=(scval.CONTRACT_INSTANCE, instance)))
        entries[instance_key(market)] = replace_entry(entry, written, last_modified)

    return change


def replace_entry(entry: RawEntry, data: bytes, last_modified: int | None = None) -> RawEntry:
    return RawEntry(data, last_modified or entry.last_modified, entry.live_until)


def record_key(entries: Entries, market: str) -> bytes:
    """The key of the record of a market in a factory."""
    end = variant_key(STRANGER, "Contracts", address(market))[40:]
    return next(key for key in entries if key[40:] == end)


def copied(market: str, *, whole: bool = False) -> Callable[[Entries], None]:
    """A stranger's contract has the code and the instance of a market; the ``whole`` of its storage, if wanted."""
    own, other = (b"\0\0\0\6" + encode_address(contract) for contract in (market, STRANGER))

    def change(entries: Entries) -> None:
        for key in [key for key in entries if key.startswith(own) and (whole or key == instance_key(market))]:
            data = decode_contract_data(entries[key].data)._replace(contract=STRANGER)
            entries[other + key[len(own) :]] = replace_entry(entries[key], encode_contract_data(data))

    return change


def test_a_run_of_all_markets_is_complete(tmp_path: Path) -> None:
    """All seven are in the run; nothing is excluded or unproven."""
    complete, unproven = compared(tmp_path, MARKETS)

    assert (len(MARKETS), []) == (complete.markets, complete.excluded)
    assert {} == unproven.counts


@pytest.mark.parametrize("market", sorted(MARKETS))
def test_a_hidden_market(tmp_path: Path, market: str) -> None:
    """Each market of the lists, of code that these have, or that a factory has a record of, is missed."""
    with pytest.raises(RefutedError, match=f"the run left out {market} of "):
        compared(tmp_path, MARKETS - {market})


def test_a_market_of_unknown_code(tmp_path: Path) -> None:
    """A copy of Alula's market with other code, in no list: it is unproven, by name, and the run is not refuted."""

    def change(entries: Entries) -> None:
        copied(ALULA, whole=True)(entries)
        with_code(STRANGER, b"?" * 32)(entries)

    _, unproven = compared(tmp_path, MARKETS, change)

    assert {Reason.MARKETS: 1} == unproven.counts
    assert f"{STRANGER} of alula: its storage is that of a market" in unproven.names[Reason.MARKETS][0]


def test_renamed_code(tmp_path: Path) -> None:
    """A market that a factory has a record of, or that is on a list, cannot hide behind other code."""
    with pytest.raises(RefutedError, match=f"left out {BLEND_V2} of blend: a factory has a record of it"):
        compared(tmp_path, MARKETS - {BLEND_V2}, with_code(BLEND_V2, b"?" * 32))
    (tmp_path / "other").mkdir()
    with pytest.raises(RefutedError, match=f"left out {SLENDER} of slender: it has the code of a market"):
        compared(tmp_path / "other", MARKETS - {SLENDER}, with_code(SLENDER, b"?" * 32))


def test_a_forged_record(tmp_path: Path) -> None:
    """A contract that is not a factory vouches for a copy of a pool: it is excluded, and the run is not refuted."""

    def change(entries: Entries) -> None:
        copied(BLEND_V2)(entries)
        record = entries[record_key(entries, BLEND_V2)]
        forged = decode_contract_data(record.data)._replace(
            contract=STRANGER, key=(scval.VEC, ((scval.SYMBOL, "Contracts"), address(STRANGER)))
        )
        entries[variant_key(STRANGER, "Contracts", address(STRANGER))] = replace_entry(
            record, encode_contract_data(forged)
        )

    complete, unproven = compared(tmp_path, MARKETS, change)

    assert [STRANGER] == complete.excluded
    assert {} == unproven.counts


def test_a_hidden_pool_where_no_factory_is_known(tmp_path: Path) -> None:
    """A state without any known factory, as a testnet after its reset: nothing vouches, so code is enough."""

    def change(entries: Entries) -> None:
        for factory in (item.address(FACTORY) for item in network_of(settings_for().passphrase).deployments):
            if factory is not None:
                entries.pop(instance_key(factory))

    with pytest.raises(RefutedError, match=f"left out {BLEND_V2} of blend"):
        compared(tmp_path, MARKETS - {BLEND_V2}, change)


def test_a_copy_of_code_without_factories(tmp_path: Path) -> None:
    """Where a protocol has no factory, its code is enough to be a market."""
    with pytest.raises(RefutedError, match=f"left out {STRANGER} of slender: it has the code of a market"):
        compared(tmp_path, MARKETS, copied(SLENDER))


def test_a_tombstoned_pool(tmp_path: Path) -> None:
    """A pool whose instance is gone from the state is not a market, though its factory keeps the record."""
    complete, unproven = compared(tmp_path, MARKETS - {BLEND_V2}, newest=[DEAD + instance_key(BLEND_V2)])

    assert (len(MARKETS) - 1, {}) == (complete.markets, unproven.counts)


def test_a_market_that_is_newer_than_the_run(tmp_path: Path) -> None:
    """It is unproven: neither code nor record was there, as far as the checkpoint says."""

    def change(entries: Entries) -> None:
        key = record_key(entries, BLEND_V2)
        entries[key] = replace_entry(entries[key], entries[key].data, CHECKPOINT - 5)

    _, unproven = compared(tmp_path, MARKETS - {BLEND_V2}, change, ledger=CHECKPOINT - 10)

    assert {Reason.MARKETS: 1} == unproven.counts
    assert "after the run" in unproven.names[Reason.MARKETS][0]
    (tmp_path / "later").mkdir()
    with pytest.raises(RefutedError, match="since ledger 65000058, and the run is of 65000060"):
        compared(tmp_path / "later", MARKETS - {BLEND_V2}, change, ledger=CHECKPOINT - 3)


@pytest.mark.parametrize(("market", "archived"), [(SLENDER, False), (K2, True)])
def test_an_archive_run_finds_copies_of_code(tmp_path: Path, market: str, *, archived: bool) -> None:
    """A stranger's contract with the code of a market is read, or named as unread or absent: the run is complete."""

    def change(entries: Entries) -> None:
        copied(market)(entries)
        if archived:
            key = instance_key(STRANGER)
            entries[key] = replace(entries[key], live_until=CHECKPOINT - 1)

    _, given = recorded_archive(tmp_path, change)
    run(settings_for(tmp_path / "out"), archive=given)
    arguments = ["verify", str(tmp_path / "out"), "--archive", given.uris[0], "--trust", str(given.trust)]
    result = CliRunner().invoke(main, [*arguments, "--complete", "--allow-unproven", "statements,changes"])

    assert 0 == result.exit_code, result.output
    assert "8 markets of them in the run" in result.output


@pytest.mark.parametrize("everything", [True, False])
def test_a_published_tree(tmp_path: Path, *, everything: bool) -> None:
    """A run of all markets verifies with exit code 0; one that read only Blend's is refuted, and passed before."""
    _, given = recorded_archive(tmp_path)
    settings = settings_for(tmp_path / "out", **({} if everything else only("blend")))
    run(settings, archive=given)
    arguments = ["verify", str(tmp_path / "out"), "--archive", given.uris[0], "--trust", str(given.trust)]
    allowed = ["--allow-unproven", "statements,changes"]
    without = CliRunner().invoke(main, arguments + allowed)
    result = CliRunner().invoke(main, [*arguments, *allowed, "--complete"])

    assert 0 == without.exit_code, without.output
    if everything:
        assert 0 == result.exit_code, result.output
        assert "7 markets of them in the run" in result.output
    else:
        assert EXIT_REFUTED == result.exit_code, result.output
        assert "the run left out" in result.output


def test_a_forged_census(tmp_path: Path) -> None:
    """A census of the run is recomputed: the true one adds nothing unproven, and one with another count is refuted."""
    _, given = recorded_archive(tmp_path)
    out = tmp_path / "out"
    settings = settings_for(out)
    run(settings, archive=given)
    census(settings, given, open_store(str(out)), Silence())
    arguments = ["verify", str(out), "--archive", given.uris[0], "--trust", str(given.trust)]
    arguments += ["--allow-unproven", "changes"]
    honest = CliRunner().invoke(main, [*arguments, "--complete"])
    unasked = CliRunner().invoke(main, arguments)
    key = out / "v1/census.json"
    document = json.loads(key.read_bytes())
    document["counts"]["other"] += 1
    document["contract_count"] += 1
    key.write_bytes(msgspec.json.encode(document))
    forged = CliRunner().invoke(main, [*arguments, "--complete"])

    assert "census" not in honest.stdout, honest.output
    assert "v1/census.json" in unasked.stdout
    assert EXIT_REFUTED == forged.exit_code, forged.output
    assert "v1/census.json is not what the checkpoint and the run give" in forged.output


def test_testnet_is_complete(real_data: Path, tmp_path: Path) -> None:
    """A run of the real checkpoint has its one market, though no list has the factory of that time."""
    folder = real_data / "archive-testnet"
    if not folder.is_dir():
        pytest.skip("archive-testnet is not in the folder of real ledger data")
    out = tmp_path / "out"
    run(settings_for(out, network__name="testnet"), archive=FromArchive((str(folder),), 9_983, None, tmp_path / "kept"))
    arguments = ["verify", str(out), "--archive", str(folder), "--complete", "--allow-unproven", "statements"]
    result = CliRunner().invoke(main, arguments)

    assert 0 == result.exit_code, result.output
    assert "294 contracts: 1 market of them in the run; excluded," in result.output
