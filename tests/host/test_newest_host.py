"""The host of the newest protocol next to that of the archive's: the same contracts give the same."""

from __future__ import annotations

from pathlib import Path

from exporter.ledger.codec.scval_encode import address, u32
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.ledger.source import ContractCall
from exporter.past.archive.checkpoint import CheckpointState
from tests.host.blend_world import POOL, SUPPLY, USERS, balance_entry, requests
from tests.host.host_network import load_snapshot, simulated
from tests.host.machine import Machine
from tests.host.test_localnet import NOBODY, asked, code_of, tokens_of
from tests.past.archive.archive_snapshot import snapshot_of


def asked_of_the_pool(snapshot: LedgerSnapshot) -> list[ContractCall]:
    """Calls that Blend's pool understands, and others."""
    reserves = [ContractCall(POOL, "get_reserve", (address(token),)) for token in tokens_of(snapshot)]
    wrong = [(), (u32(1),), (address(NOBODY), u32(1))]
    return [
        *reserves,
        *(ContractCall(POOL, "get_reserve", arguments) for arguments in wrong),
        ContractCall(POOL, "no_such_function", ()),
    ]


def test_later_protocols_answer_the_same(program: Path, newest_program: Path, archive_state: CheckpointState) -> None:
    """Results, errors, what is restored and footprints of view functions do not depend on the protocol."""
    snapshot = snapshot_of(archive_state)
    with Machine(program) as old, Machine(newest_program) as new:
        for machine in (old, new):
            load_snapshot(machine, snapshot)
            machine.at(machine.info.after(30 * 86_400))
        assert old.protocol < new.protocol
        for call in [*asked(snapshot), *asked_of_the_pool(snapshot)]:
            before, after = simulated(old, call), simulated(new, call)

            assert (before.result, code_of(before.error)) == (after.result, code_of(after.error)), call
            if before.error is None:
                assert set(before.outcome.footprint) == set(after.outcome.footprint)
                assert set(before.restored) == set(after.restored)


def test_a_transaction_leaves_the_same_in_later_protocols(
    program: Path, newest_program: Path, archive_state: CheckpointState
) -> None:
    """Supplying writes the same entries, but for the numbers of the authorisations."""
    snapshot = snapshot_of(archive_state)
    written = []
    for path in (program, newest_program):
        with Machine(path) as machine:
            load_snapshot(machine, snapshot)
            asset = machine.call(POOL, "get_reserve_list").given()[1][0][1]
            machine.put(balance_entry(asset, USERS[0], 10**9, snapshot.ledger))
            machine.at(machine.info.after(86_400))
            user = address(USERS[0])
            call = (user, user, user, requests((SUPPLY, asset, 10**8)))
            outcome = machine.call(POOL, "submit", *call, authorised=True)
            assert outcome.error is None, outcome.message
            written.append({key: entry for key, entry in outcome.changes.items() if b"\0\0\0\x15" not in key})

    assert written[0] == written[1]
