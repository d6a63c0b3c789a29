"""Markets that a run left out: how one would hide them, or refute an honest run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.audit.completeness import Complete, check_complete
from exporter.audit.run_coverage import RunCoverage, Skipped
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.deployments import FACTORY
from exporter.deployments.listing import MarketKey
from exporter.deployments.networks import network_of
from exporter.errors import RefutedError
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import decode_contract_data, encode_contract_data, instance_key, variant_key
from exporter.ledger.codec.scval_encode import address, encode_address
from exporter.past.archive.archive_places import Archives, Deadline
from exporter.past.archive.checkpoint_proof import make_proof
from exporter.past.archive.state_index import DEAD
from exporter.past.archive.stellar_proof import check_proof
from exporter.past.archive.trusted_organisations import trust_of
from exporter.past.archive_source import FromArchive
from exporter.tables import PoolKey
from tests.audit.hidden_markets import (
    ALULA,
    K2,
    SLENDER,
    STRANGER,
    XOXNO,
    Entries,
    copied,
    record_key,
    replace_entry,
    verify,
    with_code,
)
from tests.job.recorded_archive import CHECKPOINT, recorded_archive
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V2, LISTED
from tests.past.archive.simulated_archive import SimulatedArchive

pytestmark = pytest.mark.usefixtures("without_pages")

MARKETS = frozenset(market for _, market in LISTED)


PERIDOT = dict(LISTED)["peridot"]


HUB_POOLS = frozenset(
    PoolKey(pool.market, pool.pool) for item in network_of(settings_for().passphrase).deployments for pool in item.pools
)


def compared(
    folder: Path,
    read: frozenset[str],
    change: Callable[[Entries], None] | None = None,
    newest: Sequence[bytes] = (),
    ledger: int = CHECKPOINT,
    made: tuple[SimulatedArchive, FromArchive] | None = None,
    skipped: dict[MarketKey, Skipped] | None = None,
    pools: frozenset[PoolKey] | None = None,
) -> tuple[Complete, Unproven]:
    """A run at a ledger that read these markets, compared with the archive of a changed network, or a given one."""
    signed, given = made or recorded_archive(folder, change, newest)
    passphrase = settings_for().passphrase
    trust = trust_of(passphrase, given.trust)
    archives = Archives.open([str(signed.folder)], folder / "kept", Deadline(60, "deadline"))
    proven = check_proof(make_proof(archives, CHECKPOINT, trust)[1], trust)
    known = {market: protocol for protocol, market in LISTED if market in read}
    status: Any = SimpleNamespace(run_id=f"{ledger}-0123456789ab", observed_ledger=ledger, notices=())
    unproven = Unproven()
    complete = check_complete(
        archives,
        proven,
        folder / "state",
        passphrase,
        RunCoverage(
            status,
            dict.fromkeys(read, "") | known,
            HUB_POOLS if pools is None else pools,
            frozenset(),
            {},
            skipped or {},
        ),
        unproven,
    )
    return complete, unproven


def test_pools_that_a_run_left_out(recorded: tuple[SimulatedArchive, FromArchive], tmp_path: Path) -> None:
    """A hub market of XOXNO, which no list on the chain names, is missed; one newer than the run is a reason."""
    left_out, *others = sorted(HUB_POOLS)
    for folder in ("all", "one", "same", "earlier"):
        (tmp_path / folder).mkdir()

    def without_one(folder: str, ledger: int) -> Unproven:
        return compared(tmp_path / folder, MARKETS, made=recorded, pools=frozenset(others), ledger=ledger)[1]

    assert UnprovenReason.MARKETS not in compared(tmp_path / "all", MARKETS, made=recorded)[1].counts
    with pytest.raises(RefutedError, match=f"the run left out pool {left_out.pool} of market {XOXNO}") as refused:
        without_one("one", CHECKPOINT)
    changed = int(str(refused.value).split()[-1])
    with pytest.raises(RefutedError, match=f"changed last at ledger {changed}"):
        without_one("same", changed)
    unproven = without_one("earlier", changed - 1)
    assert f"pool {left_out.pool} of market {XOXNO}" in unproven.names[UnprovenReason.MARKETS][0]
    assert "after the run" in unproven.names[UnprovenReason.MARKETS][0]


def test_a_market_without_a_list_of_its_pools(tmp_path: Path) -> None:
    """Nothing says whether the known vaults of a controller without a list are all: that is a reason, by its name."""

    def change(entries: Entries) -> None:
        del entries[variant_key(PERIDOT, "SupportedMarkets")]

    _, unproven = compared(tmp_path, MARKETS, change)

    assert [f"{PERIDOT} of peridot: it has no list of its pools"] == [
        name.partition(",")[0] for name in unproven.names[UnprovenReason.MARKETS]
    ]


@pytest.mark.parametrize("market", sorted(MARKETS))
def test_each_market_is_missed(tmp_path: Path, market: str, recorded: tuple[SimulatedArchive, FromArchive]) -> None:
    """None of the recorded ones can be left out."""
    with pytest.raises(RefutedError, match=f"the run left out {market} of "):
        compared(tmp_path, MARKETS - {market}, made=recorded)


def without_factories(entries: Entries) -> None:
    """A state without any known factory, as a testnet after its reset."""
    for factory in (item.address(FACTORY) for item in network_of(settings_for().passphrase).deployments):
        if factory is not None:
            entries.pop(instance_key(factory))


def without_factories_and_records(entries: Entries) -> None:
    """The state without factories, and without the records that these kept."""
    for factory in (item.address(FACTORY) for item in network_of(settings_for().passphrase).deployments):
        own = b"" if factory is None else b"\0\0\0\6" + encode_address(factory)
        for key in [key for key in entries if own and key.startswith(own)]:
            del entries[key]


def newer_record(entries: Entries) -> None:
    """The factory's record of Blend's market is five ledgers old."""
    key = record_key(entries, BLEND_V2)
    entries[key] = replace_entry(entries[key], entries[key].data, CHECKPOINT - 5)


@pytest.mark.parametrize(
    ("hidden", "change", "said"),
    [
        (BLEND_V2, with_code(BLEND_V2, b"?" * 32), "blend: a factory has a record of it"),
        (SLENDER, with_code(SLENDER, b"?" * 32), "slender: it has the code of a market"),
        (BLEND_V2, without_factories, "blend"),
        (BLEND_V2, without_factories_and_records, "blend: it has the code of a market"),  # nothing vouches
        (STRANGER, copied(SLENDER), "slender: it has the code of a market"),  # of a protocol without factories
        (BLEND_V2, newer_record, "blend: .* since ledger 65000058, and the run is of 65000058"),
    ],
)
def test_a_hidden_market(tmp_path: Path, hidden: str, change: Callable[[Entries], None], said: str) -> None:
    """A census misses a market that is on a list, runs code of a list, or has a factory's record."""
    with pytest.raises(RefutedError, match=f"the run left out {hidden} of {said}"):
        compared(tmp_path, MARKETS - {hidden}, change, ledger=CHECKPOINT - 5 if change is newer_record else CHECKPOINT)


def test_a_market_that_may_be_missing(tmp_path: Path) -> None:
    """A copy with unknown code, and a market that is newer than the run, are unproven by name; no run is refuted."""

    def unknown(entries: Entries) -> None:
        copied(ALULA, whole=True)(entries)
        with_code(STRANGER, b"?" * 32)(entries)

    (tmp_path / "newer").mkdir()
    _, unproven = compared(tmp_path, MARKETS, unknown)
    _, newer = compared(tmp_path / "newer", MARKETS - {BLEND_V2}, newer_record, ledger=CHECKPOINT - 6)

    assert {UnprovenReason.MARKETS: 1} == unproven.counts == newer.counts
    assert f"{STRANGER} of alula: its storage is that of a market" in unproven.names[UnprovenReason.MARKETS][0]
    assert "after the run" in newer.names[UnprovenReason.MARKETS][0]


def test_a_forged_record(tmp_path: Path) -> None:
    """A contract that is not a factory vouches for a copy of a pool: it is excluded, and the run is not refuted."""

    def change(entries: Entries) -> None:
        copied(BLEND_V2)(entries)
        record = entries[record_key(entries, BLEND_V2)]
        key = (scval.VEC, ((scval.SYMBOL, "Contracts"), address(STRANGER)))
        forged = encode_contract_data(decode_contract_data(record.data)._replace(contract=STRANGER, key=key))
        entries[variant_key(STRANGER, "Contracts", address(STRANGER))] = replace_entry(record, forged)

    complete, unproven = compared(tmp_path, MARKETS, change)

    assert ([STRANGER], {}) == (complete.excluded, unproven.counts)


def test_a_tombstoned_pool(tmp_path: Path) -> None:
    """A pool whose instance is gone from the state is not a market, though its factory keeps the record."""
    complete, unproven = compared(tmp_path, MARKETS - {BLEND_V2}, newest=[DEAD + instance_key(BLEND_V2)])

    assert (len(MARKETS) - 1, {}) == (complete.markets, unproven.counts)


@pytest.mark.parametrize(("market", "archived"), [pytest.param(SLENDER, False, marks=pytest.mark.slow), (K2, True)])
def test_an_archive_run_finds_copies_of_code(tmp_path: Path, market: str, *, archived: bool) -> None:
    """A stranger's contract with the code of a market is read, or named as unread or absent: the run is complete."""

    def change(entries: Entries) -> None:
        copied(market)(entries)
        if archived:
            key = instance_key(STRANGER)
            entries[key] = replace(entries[key], live_until=CHECKPOINT - 1)

    _, given = recorded_archive(tmp_path, change)
    run(settings_for(tmp_path / "out"), archive=given)
    result = verify(given, tmp_path / "out", "--complete")

    assert 0 == result.exit_code, result.output
    assert f"{len(LISTED) + 1} markets of them in the run" in result.output


@pytest.mark.slow
def test_testnet_is_complete(testnet_archive: Path, tmp_path: Path) -> None:
    """A run of the real checkpoint has its one market, though no list has the factory of that time."""
    given = FromArchive((str(testnet_archive),), 9_983, None, tmp_path / "kept")
    run(settings_for(tmp_path / "out", network__name="testnet"), archive=given)
    result = verify(given, tmp_path / "out", "--complete")

    assert 0 == result.exit_code, result.output
    assert "294 contracts: 1 market of them in the run; excluded," in result.output


def test_only_markets_that_are_not_listed_may_be_skipped(tmp_path: Path) -> None:
    """A market that a run says it skipped is named as not proven; a listed one refutes the run."""
    others = MARKETS - {BLEND_V2}
    for name in ("unlisted", "listed"):
        (tmp_path / name).mkdir()
    _, unproven = compared(
        tmp_path / "unlisted", others, skipped={MarketKey("blend", BLEND_V2): Skipped("pools", False)}
    )

    assert [f"{BLEND_V2} of blend: it is not listed, and the run skipped it: pools"] == unproven.names[
        UnprovenReason.MARKETS
    ]
    with pytest.raises(RefutedError, match="which is listed: excluded"):
        compared(tmp_path / "listed", others, skipped={MarketKey("blend", BLEND_V2): Skipped("excluded", True)})


def test_what_another_protocol_says_of_an_address_excuses_no_market(tmp_path: Path) -> None:
    """A run that skipped the address as a market of K2 left out the market of Blend."""
    with pytest.raises(RefutedError, match=f"the run left out {BLEND_V2} of blend"):
        compared(tmp_path, MARKETS - {BLEND_V2}, skipped={MarketKey("k2", BLEND_V2): Skipped("pools", False)})
