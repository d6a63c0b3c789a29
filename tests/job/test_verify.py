"""Proving and verifying published runs: with a recorded network's own validators and archive, and a real testnet's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Timer
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from exporter.check.published_tree import check_files
from exporter.cli import main
from exporter.config import load
from exporter.console import Silence
from exporter.errors import CheckError, LostRaceError, RefutedError
from exporter.job import prove as prove_module
from exporter.job.prove import ProveResult, prove
from exporter.job.unproven import Reason
from exporter.job.verify import Verified, verify_tree
from exporter.ledger.source import RawEntry
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.checkpoint_proof import NotProvableError
from exporter.stores import open_store
from exporter.tree.documents import ManifestFile
from exporter.tree.run_listing import RunListing
from tests.job.signed_runs import CHECKPOINT, SignedNetwork, keys_named
from tests.jobs import run
from tests.past.archive.archive_snapshot import archive_snapshot
from tests.past.archive.signed_archive import trust_document, validators
from tests.past.archive.test_checkpoint import POOL
from tests.snapshot_files import write_snapshot


class Signed(SignedNetwork):
    """A signed network that begins at a ledger, and a tree of runs at that ledger."""

    def __init__(self, folder: Path, ledger: int) -> None:
        super().__init__(folder, ledger)
        self.ledger, self.out = ledger, folder / "out"
        self.entries = self.state[ledger]

    def run(self, entries: dict[bytes, RawEntry] | None = None) -> None:
        """A run over an RPC of the network, or over one that has other entries."""
        self.publish(self.out, self.ledger, entries)

    def prove(self) -> ProveResult:
        return prove(open_store(str(self.out)), [str(self.archive)], self.trust, Silence())

    def verify(self) -> Verified:
        return verify_tree(str(self.out), [str(self.archive)], self.trust, Silence())

    def lying(self) -> tuple[bytes, dict[bytes, RawEntry]]:
        """The key of a reserve's entry, and all entries with another reserve's value there."""
        first, second = keys_named(self.entries, b"ResData")[:2]
        entry, other = self.entries[first], self.entries[second]
        forged = entry.data[: len(first) + 4] + other.data[len(second) + 4 :]
        return first, self.entries | {first: replace(entry, data=forged)}


@pytest.fixture(scope="module")
def at_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """A run at the checkpoint itself, proven."""
    made = Signed(tmp_path_factory.mktemp("verify"), CHECKPOINT)
    made.run()
    return made


def test_a_run_at_a_checkpoint(at_checkpoint: Signed) -> None:
    """Each of its entries is proven, and the whole run follows from them; to prove it again adds nothing."""
    result = at_checkpoint.prove()
    verified = at_checkpoint.verify()
    again = at_checkpoint.prove()

    (proof,) = result.added
    assert (proof.entries, 0, 0) == (proof.confirmed, proof.changed_since, proof.not_looked_up)
    assert {Reason.CALLS: proof.calls} == verified.unproven.counts
    assert verified.unproven.counts == result.unproven.counts
    assert (4, 4, 3) == (proof.organisations_signed, proof.organisations_trusted, proof.organisations_needed)
    assert (verified.repeated, verified.outcome.confirmed) == (verified.files, proof.entries)
    assert ([], {}) == (again.added, again.waiting)


def test_a_reader_needs_the_published_verifier_alone(at_checkpoint: Signed) -> None:
    """The program that is published with the tree says the same, from the files that the list of proofs names."""
    at_checkpoint.prove()
    out = at_checkpoint.out
    listed = json.loads((out / "v1" / "proofs.json").read_bytes())
    (proof,) = listed["proofs"]
    command = [
        sys.executable,
        "-I",
        str(out / listed["verifier"]),
        str(out / proof["proof_key"]),
        "--trust",
        str(out / listed["trust"]),
        "--entries",
        str(out / proof["evidence_key"]),
        "--archive",
        str(at_checkpoint.archive),
    ]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)

    assert (9, "") == (ended.returncode, ended.stderr)
    assert f"proven: {proof['confirmed']} of {proof['entries']} entries of ledger 127" in ended.stdout
    assert f"not proven: {proof['calls']} are results of calls, which nothing proves: 'C" in ended.stdout


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"entries": 1}, r"proofs\.json: \$\.proofs\[0\]\.entries is 1, but its parts"),
        ({"checkpoint": 191}, r"checkpoint is 191, which is not the one after 127"),
        ({"observed_ledger": 126}, r"is of ledger 126, but names run 127-"),
        ({"organisations_signed": 3}, r"v1/proofs/.*: proves ledger 127, signed by 4 of 4 organisations where 3 must"),
        ({"organisations_signed": 2}, r"was signed by 2 of 4"),
        ({"evidence_key": "v1/evidence/x.jsonl.gz"}, r"evidence_key is v1/evidence/x"),
        ({"proof_sha256": "0" * 64}, r"which is not that of its digest"),
        (
            {"proof_key": f"v1/proofs/{'0' * 64}.json"},
            r"v1/proofs/0+\.json: is missing, though v1/proofs",
        ),
        ({"run_id": 7}, r"proofs\.json: does not decode as ProofList"),
    ],
)
def test_the_check_looks_at_proofs(
    at_checkpoint: Signed, tmp_path: Path, changes: dict[str, object], said: str | None
) -> None:
    """The list of proofs says what its files say, and what the run has; a good one has no fault."""
    at_checkpoint.prove()
    out = tmp_path / "out"
    shutil.copytree(at_checkpoint.out, out)
    listed = json.loads((out / "v1" / "proofs.json").read_bytes())
    listed["proofs"][0] |= changes
    (out / "v1" / "proofs.json").write_bytes(json.dumps(listed, separators=(",", ":")).encode())

    if said is None:
        assert 1 == check_files(str(out)).documents["ProofList"]
        return
    with pytest.raises(CheckError, match=said):
        check_files(str(out))


def test_the_check_finds_a_damaged_proof(at_checkpoint: Signed, tmp_path: Path) -> None:
    """A proof file of other bytes is named, and one that the organisations of the tree's own list did not sign."""
    at_checkpoint.prove()
    out = tmp_path / "out"
    shutil.copytree(at_checkpoint.out, out)
    (file,) = (out / "v1" / "proofs").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"ledger":127', b'"ledger":128'))
    (out / "v1" / "verifier" / "trust.json").write_bytes(trust_document(validators(5)))

    with pytest.raises(CheckError, match=r"its content has the digest") as caught:
        check_files(str(out))
    assert "proves nothing" in str(caught.value)


def test_a_run_between_checkpoints(tmp_path: Path) -> None:
    """What is unchanged at the next checkpoint is confirmed; the rest is the RPC's word, and counted."""
    made = Signed(tmp_path, CHECKPOINT - 3)
    made.run()
    (proof,) = made.prove().added
    verified = made.verify()

    assert CHECKPOINT == proof.checkpoint
    assert 0 < proof.changed_since < proof.confirmed
    assert proof.entries == proof.confirmed + proof.changed_since + proof.not_looked_up
    assert proof.changed_since == verified.unproven.counts[Reason.CHANGED]


def test_an_rpc_that_lies_in_one_entry(tmp_path: Path) -> None:
    """It is found out by the entry, nothing is proven, and both commands end with 8."""
    made = Signed(tmp_path, CHECKPOINT)
    key, entries = made.lying()
    made.run(entries)

    with pytest.raises(RefutedError, match=rf"run 127-.*: the entry {key.hex()[:120]}.* has another value"):
        made.prove()
    assert not (made.out / "v1" / "proofs.json").exists()
    for command in ("prove", "verify"):
        options = [command, str(made.out), "--archive", str(made.archive), "--trust", str(made.trust)]
        ended = CliRunner().invoke(main, options)
        assert 8 == ended.exit_code, ended.output
        assert "has another value" in ended.output


def test_prove_holds_no_lock_while_it_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process can publish until the proofs are there; a run that is swept meanwhile gets none."""
    made = Signed(tmp_path, CHECKPOINT)
    made.run()
    store, own = open_store(str(made.out)), prove_module.hold_against

    def while_others_publish(*given: Any, **options: Any) -> Any:
        with open_store(str(made.out)).exclusive():
            for path in (made.out / "v1" / "runs").iterdir():
                path.unlink()
        return own(*given, **options)

    monkeypatch.setattr(prove_module, "hold_against", while_others_publish)

    assert [] == prove(store, [str(made.archive)], made.trust, Silence()).added
    assert not (made.out / "v1" / "proofs.json").exists()


def test_prove_waits_for_a_run_that_publishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It adds its proofs when the other process is done; where that goes on, it ends with 5 and adds nothing."""
    made = Signed(tmp_path, CHECKPOINT)
    made.run()
    monkeypatch.setattr(prove_module, "LOCK_PAUSE_SECONDS", 0.1)
    with open_store(str(made.out)).exclusive(), pytest.raises(LostRaceError, match="another process is publishing"):
        made.prove()
    other = ExitStack()
    other.enter_context(open_store(str(made.out)).exclusive())
    Timer(0.3, other.close).start()

    assert 1 == len(made.prove().added)


def test_what_does_not_follow_from_the_evidence(at_checkpoint: Signed, tmp_path: Path) -> None:
    """A tree whose files agree with each other, but not with their evidence, is refused by the first such file."""
    other = Signed(tmp_path, CHECKPOINT)
    other.run(other.lying()[1])
    status = json.loads((other.out / "v1" / "system" / "status.json").read_bytes())
    honest = json.loads((at_checkpoint.out / "v1" / "system" / "status.json").read_bytes())
    manifest = json.loads((other.out / status["manifest_key"]).read_bytes())
    listed = RunListing.from_parquet((other.out / manifest["files_key"]).read_bytes())
    evidence = (at_checkpoint.out / honest["evidence_key"]).read_bytes()
    (other.out / honest["evidence_key"]).write_bytes(evidence)
    files = [file for file in listed if file.key != status["evidence_key"]]
    files.append(ManifestFile(honest["evidence_key"], "page", len(evidence), sha256(evidence).hexdigest()))
    listed = RunListing.of(files)
    run_id, parquet = listed.run_id(127), listed.parquet
    manifest |= {
        "run_id": run_id,
        "files_key": f"v1/runs/{run_id}.parquet",
        "files_sha256": sha256(parquet).hexdigest(),
        "bytes": listed.size[1],
    }
    (other.out / manifest["files_key"]).write_bytes(parquet)
    content = msgspec.json.encode(manifest)
    status |= {
        "run_id": run_id,
        "manifest_key": f"v1/runs/{run_id}.json",
        "manifest_sha256": sha256(content).hexdigest(),
        "evidence_key": honest["evidence_key"],
    }
    (other.out / status["manifest_key"]).write_bytes(content)
    (other.out / "v1" / "system" / "status.json").write_bytes(msgspec.json.encode(status))

    with pytest.raises(RefutedError, match=r"does not follow from the run's evidence|is not among the run's files"):
        other.verify()


def test_a_tree_that_was_tampered_with(tmp_path: Path) -> None:
    """A changed byte of any file is refused, before anything is asked of the archives."""
    made = Signed(tmp_path, CHECKPOINT)
    made.run()
    page = made.out / "v1" / "markets.json"
    page.write_bytes(page.read_bytes().replace(b'"v2"', b'"v9"'))

    with pytest.raises(RefutedError, match=r"v1/markets\.json"):
        verify_tree(str(made.out), ["/nowhere"], made.trust, Silence())


@pytest.mark.parametrize(
    "ledger", [pytest.param(959, marks=pytest.mark.slow), 9_983, pytest.param(10_047, marks=pytest.mark.slow)]
)
def test_the_real_testnet_pool(real_data: Path, tmp_path: Path, ledger: int) -> None:
    """A run over the archive's state is proven with all its entries; one at the newest checkpoint has to wait."""
    archive = real_data / "archive-testnet"
    if not archive.is_dir():
        pytest.skip("archive-testnet is not in the folder of real ledger data")
    write_snapshot(archive_snapshot(HistoryArchive(FolderFiles(archive)), ledger), tmp_path / "snapshot.json")
    values = {
        "network.name": "testnet",
        "discovery.enabled": False,
        "output.uri": str(tmp_path / "out"),
        "markets": [{"protocol": "blend", "address": POOL}],
        "output.page_sizes": [1, 50],
    }
    run(load(None, values, environment={}).settings, snapshot=tmp_path / "snapshot.json")
    result = prove(open_store(str(tmp_path / "out")), [str(archive)], None, Silence())
    if ledger == 10_047:
        assert ["checkpoint 10047 cannot be proven yet"] == [text.partition(":")[0] for text in result.waiting.values()]
        with pytest.raises(NotProvableError, match="10047 cannot be proven yet"):
            verify_tree(str(tmp_path / "out"), [str(archive)], None, Silence())
        return
    verified = verify_tree(str(tmp_path / "out"), [str(archive)], None, Silence())

    (proof,) = result.added
    assert (proof.entries, 0, ledger) == (proof.confirmed, proof.calls, proof.checkpoint)
    assert (verified.outcome.confirmed, verified.repeated) == (proof.entries, verified.files)
