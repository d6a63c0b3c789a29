"""Proving and verifying published runs: honest trees, trees that were altered consistently, and a real testnet's."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from io import BytesIO
from os import mkfifo
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from exporter import __version__
from exporter.audit import history_files, input_history
from exporter.audit import prove as prove_module
from exporter.audit.check import check_tree
from exporter.audit.earlier_runs import repeat_earlier
from exporter.audit.evidence_claims import unproven_evidence
from exporter.audit.evidence_proof import hold_against
from exporter.audit.fetched_tree import fetch
from exporter.audit.prove import prove
from exporter.audit.published_tree import check_files
from exporter.audit.rerender import rerender
from exporter.audit.verify import verify_tree
from exporter.cli import main
from exporter.config import load
from exporter.console import Silence
from exporter.deployments.networks import NETWORKS, network_of
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import ArchiveError, CheckError, ExitCode, RefutedError
from exporter.job.evidence import Evidence
from exporter.ledger.source import RawEntry
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from exporter.past.archive import stellar_proof
from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.past.archive.checkpoint_proof import NotProvableError
from exporter.protocols.base import Candidate
from exporter.publishing.proof_list import published_proofs
from exporter.publishing.sweep_state import record_replaced
from exporter.render.openapi import VERSION_FIELD
from exporter.stores import held_store, open_store
from exporter.stores.memory import MemoryStore
from exporter.stores.store import utc_now
from exporter.tree.documents import ChangeList, SkippedMarket, timestamp
from exporter.tree.families import OPENAPI_KEY, STATUS_KEY
from exporter.tree.run_listing import RunListing
from exporter.tree.values import SkipReason
from tests.audit.signed_runs import CHECKPOINT, TIME, SignedNetwork, keys_named
from tests.audit.trees import Files, change, read, seal, write
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V2
from tests.past.archive.archive_snapshot import archive_snapshot
from tests.past.archive.simulated_archive import PASSPHRASE, trust_document, validators
from tests.past.archive.test_checkpoint import POOL
from tests.publishing.held import compact_history
from tests.snapshot_files import write_snapshot

pytestmark = pytest.mark.usefixtures("without_pages")

CONTRACT = "CCVUGW4ME72W6ZTYJBOJ2NYKKNMFJR5OHBWS62TV5KZR2SSR2ZLXCREY"
BEFORE = (60, 100, 124)
"""Ledgers of earlier runs. The archive has no checkpoint for the first."""

DAY_BEFORE = (60, 62)
"""Ledgers of runs that the archive says nothing of, so that they may have closed a day earlier."""

Entries = dict[bytes, RawEntry]


class Trees(SignedNetwork):
    """A signed network with an archive of its checkpoint, and trees of runs at several of its ledgers."""

    def command(self, name: str, out: Path, *more: str) -> Result:
        options = ["--archive", str(self.archive), "--trust", str(self.trust)]
        return CliRunner().invoke(main, [name, str(out), *options, *more])

    def verify(self, out: Path, *more: str) -> Result:
        return self.command("verify", out, *more)

    def lying(self, ledger: int, name: bytes) -> Entries:
        """The entries of a ledger, in which the first entry of a name has the value of the second."""
        entries = self.state[ledger]
        first, second = keys_named(entries, name)[:2]
        data = entries[first].data[: len(first) + 4] + entries[second].data[len(second) + 4 :]
        return entries | {first: replace(entries[first], data=data)}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return Trees(tmp_path_factory.mktemp("trees"), BEFORE[0])


@pytest.fixture(scope="module")
def single(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("single") / "out"
    trees.publish(out, CHECKPOINT)
    trees.command("prove", out)
    return out


@pytest.fixture(scope="module")
def several(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("several") / "out"
    for ledger in (*BEFORE, CHECKPOINT):
        trees.publish(out, ledger)
    trees.command("prove", out)
    return out


@pytest.fixture
def out(single: Path, tmp_path: Path) -> Path:
    shutil.copytree(single, tmp_path / "out")
    return tmp_path / "out"


def forge(tree: Path, folder: Path, change: Callable[[Files], object]) -> Path:
    """A copy of a tree with other files, and every digest that names them."""
    files = read(tree)
    change(files)
    seal(files)
    return write(files, folder)


def expect(result: Result, code: int, *said: str) -> None:
    """A command ended with this code and printed these texts."""
    assert code == result.exit_code, result.output
    for text in said:
        assert text in result.output, result.output


def names(result: Result, reason: str) -> str:
    """The line of a reason, or nothing."""
    return next((line for line in result.output.splitlines() if line.startswith(f"not proven ({reason})")), "")


def proofs_of(out: Path) -> Any:
    return json.loads((out / "v1/proofs.json").read_bytes())


def evidence_of(out: Path) -> bytes:
    key: str = json.loads((out / "v1/system/status.json").read_bytes())["evidence_key"]
    return (out / key).read_bytes()


def test_an_honest_tree_of_one_run(trees: Trees, single: Path) -> None:
    """All entries are proven, nothing but the results of calls is not, and to prove it again adds nothing."""
    (proof,) = proofs_of(single)["proofs"]
    result = trees.verify(single)

    expect(result, ExitCode.UNPROVEN, "ledger 127 closed at 2023-11-14T22:15:27Z, ", "4 of 4 organisations signed")
    expect(result, ExitCode.UNPROVEN, f"{proof['entries']} of {proof['entries']} entries of ledger 127 are proven")
    assert ["calls"] == re.findall(r"not proven \((\w+)\)", result.output)
    assert re.search(r"(\d+) of \1 files follow from the run's evidence", result.output)
    assert (proof["entries"], 0, 0) == (proof["confirmed"], proof["changed_since"], proof["not_looked_up"])
    assert f"{proof['calls']} results" in names(result, "calls")
    expect(trees.verify(single, "--allow-unproven", "calls"), ExitCode.DONE)
    expect(trees.command("prove", single), ExitCode.DONE, "nothing to do: every run that can be proven is proven")


def test_a_run_older_than_allowed_ends_with_3(trees: Trees, single: Path) -> None:
    """A run older than what is allowed ends with 3, after all that was found is printed."""
    expect(
        trees.verify(single, "--max-age", "90m"),
        ExitCode.SOURCE,
        " entries of ledger 127 are proven",
        "and --max-age is",
    )
    expect(trees.verify(single, "--max-age", "soon"), 2, "'soon' is not a duration; write")


def test_an_honest_tree_of_several_runs(trees: Trees, several: Path) -> None:
    """Earlier runs are repeated and proven; what has no checkpoint, or is beyond the bound, is named."""
    result, bounded = trees.verify(several), trees.verify(several, "--earlier", "1")

    expect(result, ExitCode.UNPROVEN, "8 of 12 earlier rows of the history follow from the evidence of 2 runs")
    assert "60.parquet (4 rows)" in names(result, "history")
    assert "run 60-" in names(result, "earlier")
    assert "" == names(result, "changes")
    expect(bounded, ExitCode.UNPROVEN, "4 of 12 earlier rows", "only the newest 1 earlier runs are repeated")


def test_a_reader_needs_the_published_verifier_alone(trees: Trees, single: Path) -> None:
    """The program that is published with the tree says the same, from the files that the list of proofs names."""
    listed = proofs_of(single)
    (proof,) = listed["proofs"]
    command = [sys.executable, "-I", listed["verifier"], proof["proof_key"], "--trust", listed["trust"]]
    command += ["--entries", proof["evidence_key"], "--archive", str(trees.archive)]
    ended = subprocess.run(command, cwd=single, check=False, capture_output=True, text=True)

    assert (9, "") == (ended.returncode, ended.stderr)
    assert f"proven: {proof['confirmed']} of {proof['entries']} entries of ledger 127" in ended.stdout
    assert f"not proven: {proof['calls']} are results of calls, which nothing proves: 'C" in ended.stdout


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        (
            {"entries": 1, "checkpoint": 191, "observed_ledger": 126, "evidence_key": "v1/evidence/x.jsonl.gz"},
            [
                "v1/proofs.json: $.proofs[0].entries is 1, but its parts",
                "proves ledger 127, signed by 4 of 4 organisations where 3 must, which is not what v1/proofs.json says",
                "is of ledger 126, but names run 127-",
                "evidence_key is v1/evidence/x",
            ],
        ),
        ({"organisations_signed": 3}, ["signed by 4 of 4 organisations where 3 must"]),
        (
            {"proof_key": f"v1/proofs/{'0' * 64}.json"},
            ["which is not that of its digest", f"v1/proofs/{'0' * 64}.json: is missing, though v1/proofs"],
        ),
        ({"run_id": 7}, ["v1/proofs.json: does not decode as ProofList"]),
    ],
)
def test_the_check_looks_at_proofs(out: Path, changes: dict[str, object], said: list[str]) -> None:
    """The list of proofs says what its files say, and what the run has; a good one has no fault."""
    listed = proofs_of(out)
    listed["proofs"][0] |= changes
    (out / "v1" / "proofs.json").write_bytes(json.dumps(listed, separators=(",", ":")).encode())

    if not said:
        assert 1 == check_files(str(out)).documents["ProofList"]
        return
    with pytest.raises(CheckError) as caught:
        check_files(str(out))
    assert [] == [text for text in said if text not in str(caught.value)], caught.value


def test_the_check_finds_a_damaged_proof(out: Path) -> None:
    """A proof file of other bytes is named, and one that the organisations of the tree's own list did not sign."""
    (file,) = (out / "v1" / "proofs").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"ledger":127', b'"ledger":128'))
    (out / "v1" / "verifier" / "trust.json").write_bytes(trust_document(validators(5)))

    with pytest.raises(CheckError, match=r"its content has the digest") as caught:
        check_files(str(out))
    assert "proves nothing" in str(caught.value)


def test_a_run_between_checkpoints(trees: Trees, tmp_path: Path) -> None:
    """Entries that are unchanged at the next checkpoint are confirmed; the rest is the RPC's word, and counted."""
    out = tmp_path / "out"
    trees.publish(out, BEFORE[-1])
    trees.command("prove", out)
    listed = proofs_of(out)
    (proof,) = listed["proofs"]
    result = trees.verify(out)

    assert CHECKPOINT == proof["checkpoint"]
    assert 0 < proof["changed_since"] < proof["confirmed"]
    assert proof["entries"] == proof["confirmed"] + proof["changed_since"] + proof["not_looked_up"]
    expect(result, ExitCode.UNPROVEN)
    assert f"{proof['changed_since']} entries" in names(result, "changed")
    proof |= {"confirmed": proof["entries"], "changed_since": 0, "not_looked_up": 0}
    (out / "v1/proofs.json").write_bytes(msgspec.json.encode(listed))
    expect(trees.verify(out), ExitCode.REFUTED, "confirmed entries are claimed of")


def test_a_published_proof_that_claims_something_else(trees: Trees, out: Path) -> None:
    """The counts of a proof are those that follow from it."""
    listed = proofs_of(out)
    listed["proofs"][0]["calls"] += 1
    (out / "v1/proofs.json").write_bytes(msgspec.json.encode(listed))

    expect(trees.verify(out), ExitCode.REFUTED, "expected calls")


def test_an_rpc_that_lies_in_one_entry(trees: Trees, tmp_path: Path) -> None:
    """One false entry of the newest or an earlier run is found: nothing is proven, and both commands end with 8."""
    out, key = tmp_path / "out", keys_named(trees.state[CHECKPOINT], b"ResData")[0]
    trees.publish(out, CHECKPOINT, trees.lying(CHECKPOINT, b"ResData"))
    for command in ("prove", "verify"):
        expect(trees.command(command, out), ExitCode.REFUTED, f"the entry {key.hex()[:120]}", "has another value")
    assert not (out / "v1" / "proofs.json").exists()

    trees.publish(tmp_path / "earlier", BEFORE[-1], trees.lying(BEFORE[-1], b"ResConfig"))
    trees.publish(tmp_path / "earlier", CHECKPOINT)
    result = trees.verify(tmp_path / "earlier")
    expect(result, ExitCode.REFUTED)
    assert re.search(r"run 124-\w+: the entry .* has another value", result.output)


def test_prove_holds_no_lock_while_it_downloads(trees: Trees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process can publish until the proofs are there; a run that is swept meanwhile gets none."""
    out, own = tmp_path / "out", hold_against
    trees.publish(out, CHECKPOINT)

    def while_others_publish(*given: Any, **options: Any) -> Any:
        with open_store(str(out)).exclusive():
            for path in (out / "v1" / "runs").iterdir():
                path.unlink()
        return own(*given, **options)

    monkeypatch.setattr(prove_module, "hold_against", while_others_publish)

    assert [] == prove(open_store(str(out)), [str(trees.archive)], trees.trust, Silence()).added
    assert not (out / "v1" / "proofs.json").exists()


def test_damaged_evidence_of_one_run_costs_the_proof_of_that_run(trees: Trees, tmp_path: Path) -> None:
    """The other run is proven, the damaged file is named, and the command ends with 10."""
    out = tmp_path / "out"
    trees.publish(out, BEFORE[-1])
    trees.publish(out, CHECKPOINT)
    status = json.loads((out / "v1/system/status.json").read_bytes())
    damaged = out / status["evidence_key"]
    damaged.write_bytes(b"damaged")

    expect(trees.command("prove", out), ExitCode.STORE, damaged.name, "missing or damaged")
    assert [BEFORE[-1]] == [proof["observed_ledger"] for proof in proofs_of(out)["proofs"]]


@pytest.mark.slow
def test_runs_that_were_undone(trees: Trees, tmp_path: Path) -> None:
    """Runs that a later run undid are not proven and refute nothing, also if the later one is of the same ledger."""
    out, wrong = tmp_path / "out", trees.lying(100, b"ResData")
    trees.publish(out, 100, wrong, since=TIME - 86_400)
    trees.publish(out, 100, replaced_ledger=100)
    trees.publish(out, CHECKPOINT)

    expect(trees.command("prove", out), ExitCode.UNPROVEN)
    assert [CHECKPOINT, 100] == [proof["observed_ledger"] for proof in proofs_of(out)["proofs"]]
    verified = trees.verify(out)
    expect(verified, ExitCode.UNPROVEN, "4 of 4 earlier rows of the history follow from the evidence of 1 run")
    assert "a run with --replace-ledger undid it" in names(verified, "earlier")


def test_what_a_record_says_was_undone(trees: Trees, several: Path, tmp_path: Path) -> None:
    """A run is left out, and needs no proof, if the record names the file of another run as the successor of its own.

    A joined file in its place says nothing of the kind.
    """
    out = tmp_path / "out"
    shutil.copytree(several, out)
    (out / "v1/proofs.json").unlink()
    day = "history/pools/date=2023-11-14/"
    joined, later = f"{day}100-124-{'0' * 12}.parquet", f"{day}{CHECKPOINT}.parquet"
    left_out, proven = [], []
    for by in (joined, later):
        store = open_store(str(out))
        record_replaced(store, {f"{day}124.parquet": by}, utc_now())
        tree = asyncio.run(fetch(str(out), tmp_path / by[-9:], 5))
        left_out.append([run_id.partition("-")[0] for run_id in tree.left_out])
        proving = MemoryStore(store)
        with pytest.raises(ArchiveError, match="0000003f"):  # what can be proven is added before
            prove(proving, [str(trees.archive)], trees.trust, Silence())
        proven.append([proof.observed_ledger for proof in published_proofs(proving)])

    assert [[], ["124"]] == left_out
    assert [[127, 124, 100], [127, 100]] == proven


def test_prove_waits_for_a_run_that_publishes(trees: Trees, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`prove` adds its proofs when the other process is done. If that goes on, `prove` ends with 5 and adds nothing."""
    (out / "v1/proofs.json").unlink()
    now, publisher = 0.0, ExitStack()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    publisher.enter_context(open_store(str(out)).exclusive())
    monkeypatch.setattr(held_store, "monotonic", lambda: now)
    monkeypatch.setattr(held_store, "sleep", sleep)
    expect(trees.command("prove", out), ExitCode.LOST_RACE, "another process is publishing")
    assert 45 <= now <= 60
    monkeypatch.setattr(held_store, "sleep", lambda _: publisher.close())
    trees.command("prove", out)

    assert 1 == len(proofs_of(out)["proofs"])


def test_a_tree_that_was_tampered_with(out: Path) -> None:
    """A changed byte of any file is refused, before anything is asked of the archives."""
    page = out / "v1" / "markets.json"
    page.write_bytes(page.read_bytes().replace(b'"v2"', b'"v9"'))
    result = CliRunner().invoke(main, ["verify", str(out), "--archive", "/nowhere"])

    expect(result, ExitCode.REFUTED, "v1/markets.json: ")


def invent(document: dict[str, Any]) -> None:
    """Put a change of ledger 124 into the list."""
    change = {
        **dict.fromkeys(("pool", "unit", "takes_effect")),
        "id": "urn:uuid:00000000-0000-0000-0000-000000000124",
        "kind": "status",
        "market": BLEND_V2,
        "title": "Invented: frozen",
        "before": "active",
        "after": "frozen",
        "observed_ledger": BEFORE[-1],
        "ledger_close_time": timestamp(TIME + BEFORE[-1]),
        "previous_ledger": BEFORE[-2],
        "listed": True,
    }
    decoded = msgspec.convert(document | {"data": [change, *document["data"]]}, ChangeList)
    document["data"] = msgspec.to_builtins(decoded)["data"]


def test_an_invented_change(trees: Trees, several: Path, tmp_path: Path) -> None:
    """Changes that an earlier run says are counted by their titles; a run's own follow from its evidence."""
    trees.publish(tmp_path / "first", BEFORE[-1])
    older = forge(tmp_path / "first", tmp_path / "older", lambda files: change(files, "v1/changes.json", invent))
    trees.publish(older, CHECKPOINT)
    counted = trees.verify(older)
    own = forge(several, tmp_path / "own", lambda files: change(files, "v1/changes.json", invent))

    expect(trees.verify(own), ExitCode.REFUTED, "does not follow from the run's evidence")
    expect(counted, ExitCode.UNPROVEN)
    said = "1 changes were found by runs that were not repeated: Invented: frozen (ledger 124)"
    assert said in names(counted, "changes")


def evidence_at(out: Path, ledger: int) -> Path:
    (listing,) = (out / "v1/runs").glob(f"{ledger}-*.parquet")
    keys = [file.key for file in RunListing.from_parquet(listing.read_bytes())]
    return out / next(key for key in keys if key.startswith("v1/evidence/"))


@pytest.mark.parametrize("gone", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["damaged", "gone"])
def test_the_run_before_without_evidence(trees: Trees, several: Path, tmp_path: Path, gone: bool) -> None:
    """An earlier run whose evidence is gone or damaged covers neither rows nor changes, although there are none."""
    out = tmp_path / "out"
    shutil.copytree(several, out)
    path = evidence_at(out, BEFORE[-1])
    path.write_bytes(b"\x1f\x8bdamaged")
    if gone:
        path.unlink()
    result = trees.verify(out)

    assert gone or f"{path.relative_to(out)} does not have the digest that is stated for it" in names(result, "earlier")
    expect(result, ExitCode.UNPROVEN, "4 of 12 earlier rows of the history follow from the evidence of 1 run")
    assert "v1/changes.json: those since the run before" in names(result, "changes")


def watched_at(out: Path, ledger: int) -> Path:
    (listing,) = (out / "v1/runs").glob(f"{ledger}-*.parquet")
    keys = [file.key for file in RunListing.from_parquet(listing.read_bytes())]
    return out / next(key for key in keys if key.startswith("v1/watched/"))


def with_watched(tree: Path, folder: Path, other: Path | None) -> Path:
    """A copy of a tree whose run says that it was compared with the values of this file; None: with none."""

    def forged(files: Files) -> None:
        manifest_key = json.loads(files[STATUS_KEY])["manifest_key"]
        named = json.loads(files[manifest_key])["inputs"]
        inputs = [item for item in named if item["name"] != "watched"]
        if other is not None:
            digest = sha256(other.read_bytes()).hexdigest()
            inputs.insert(1, {"name": "watched", "key": other.relative_to(tree).as_posix(), "sha256": digest})
        change(files, manifest_key, lambda manifest: manifest.update(inputs=inputs))

    return forge(tree, folder, forged)


def test_a_run_that_was_compared_with_another(trees: Trees, several: Path, tmp_path: Path) -> None:
    """Values of a run that is not the one before are refused; without any, nobody knows what changed since."""
    older = trees.verify(with_watched(several, tmp_path / "older", watched_at(several, BEFORE[-2])))
    none = trees.verify(with_watched(several, tmp_path / "none", None))

    expect(older, ExitCode.REFUTED)
    expect(none, ExitCode.UNPROVEN)
    assert "those since the run before, with which the run was not compared" in names(none, "changes")


def test_watched_values_that_are_gone(trees: Trees, several: Path, tmp_path: Path) -> None:
    """If the watched values are lost, the previous run's evidence gives them. Without that, changes are unproven."""
    out = tmp_path / "out"
    shutil.copytree(several, out)
    watched_at(out, BEFORE[-1]).unlink()
    derived, looked = trees.verify(out), check_tree(str(out))
    evidence_at(out, BEFORE[-1]).unlink()
    gone, looked_again = asyncio.run(fetch(str(out), tmp_path / "fetched", 0)), check_tree(str(out))

    expect(derived, ExitCode.UNPROVEN)
    assert "" == names(derived, "changes")
    assert (None, looked.rerendered) == (looked_again.not_rerendered, looked_again.rerendered)  # nothing had changed
    assert "and the evidence of the run before does not give it" in "".join(gone.gone["watched"].values())


def test_earlier_runs_that_cannot_be_repeated(several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence of another ledger, rows of another version, and evidence that is too large leave a run out, by name."""
    tree = asyncio.run(fetch(str(several), tmp_path, 1))
    (run,) = tree.earlier

    def why(**changes: Any) -> str:
        other = replace(tree, earlier=[replace(run, **changes)], left_out={})
        repeat_earlier(other)
        return other.left_out[run.run_id]

    assert "its evidence is of ledger 127" == why(evidence=tree.evidence)
    monkeypatch.setattr(history_files, "EXPORTER_VERSION", "0")
    assert "and this is 0" in why()
    monkeypatch.setattr(stellar_proof, "MAX_ENTRIES_BYTES", 10_000)
    assert "more than 10,000 bytes" in why()


def test_a_forged_history_with_honest_evidence(trees: Trees, several: Path, tmp_path: Path) -> None:
    """Rows that do not follow from the evidence of their run are a contradiction."""
    out = tmp_path / "out"
    trees.publish(out, BEFORE[-1], trees.lying(BEFORE[-1], b"ResData"))
    trees.publish(out, CHECKPOINT)
    for file in (out / "v1/runs").glob("124-*"):
        file.unlink()
    for folder in ("runs", "evidence"):
        for file in (several / "v1" / folder).iterdir():
            if not file.name.startswith("127-"):
                shutil.copy(file, out / "v1" / folder)

    said = "124.parquet: the rows of ledger 124 do not follow from the evidence of 124-"
    expect(trees.verify(out), ExitCode.REFUTED, said)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("notices", ["All is well"], ExitCode.REFUTED),
        pytest.param("next_expected_at", "2023-11-14T00:00:00Z", ExitCode.REFUTED, marks=pytest.mark.slow),
        pytest.param("market_pools_cap", 10_001, ExitCode.REFUTED, marks=pytest.mark.slow),
        ("next_expected_at", "2031-01-01T00:00:00Z", ExitCode.UNPROVEN),
    ],
)
def test_words_of_the_status(trees: Trees, single: Path, tmp_path: Path, field: str, value: object, code: int) -> None:
    """Facts must follow from the evidence; a promise is printed, and must be of a later time."""
    out = forge(single, tmp_path, lambda files: change(files, STATUS_KEY, lambda status: status.update({field: value})))

    said = "a newer run is expected at 2031" if code == ExitCode.UNPROVEN else field
    expect(trees.verify(out), code, said)


def test_a_tree_of_another_version(trees: Trees, single: Path, tmp_path: Path) -> None:
    """Another version may render otherwise: the tree is neither refuted nor proven, and that version can verify it."""

    def other(files: Files) -> None:
        change(files, OPENAPI_KEY, lambda document: document["info"].update({VERSION_FIELD: "0.0.1"}))
        files["llms.txt"] += b"\n"

    said = f"version 0.0.1 wrote it, and this is {__version__}, so its files cannot be compared; verify it with that"
    expect(trees.verify(forge(single, tmp_path, other)), ExitCode.CONFIG, said)


def test_files_next_to_the_run(trees: Trees, out: Path) -> None:
    """Another verifier or list of organisations is named with its digest, a file of nobody by its name."""
    changed = {"stellar_proof.py": b"#", "trust.json": b" "}
    for name, more in changed.items():
        path = out / "v1/verifier" / name
        path.write_bytes(path.read_bytes() + more + b"\n")
    (out / "state/known-markets.unreadable-0123456789abcdef.memory").write_text("damaged")
    for key in ("state/history-buckets-page.html", "history/page.html", "robots.txt"):
        (out / key).write_text("<script>alert(1)</script>")
    result = trees.verify(out)

    expect(result, ExitCode.UNPROVEN)
    for name in changed:
        digest = sha256((out / "v1/verifier" / name).read_bytes()).hexdigest()
        assert f"v1/verifier/{name} has the SHA-256 {digest}" in names(result, "statements")
    assert (
        "4 files are in no run: history/page.html, robots.txt, state/history-buckets-page.html, "
        "state/known-markets.unreadable-0123456789abcdef.memory"
    ) in names(result, "unlisted")


def test_files_that_no_key_names(trees: Trees, out: Path) -> None:
    """A server serves them all the same, so each is named: links, devices, names that are no keys, files of nobody."""
    (out / "page.html").symlink_to("/etc/hostname")
    (out / "v1/linked").symlink_to("/etc")
    (out / "v1/my page.html").write_text("<script>alert(1)</script>")
    (out / ".well-known").mkdir()
    (out / ".well-known/x.html").write_text("<script>alert(1)</script>")
    mkfifo(out / "v1/pipe")
    (out / "v1/best.json").write_text("{}")
    result = trees.verify(out)
    line = names(result, "unlisted")

    expect(result, ExitCode.UNPROVEN)
    for name in ("page.html (a link)", "v1/linked (a link)", "v1/my page.html", ".well-known/x.html", "v1/best.json"):
        assert name in line
    assert "v1/pipe (no regular file)" in line


def test_an_invented_liquidations_table_refutes_the_tree(trees: Trees, out: Path) -> None:
    """A table of another form refutes the tree, wherever it is named; one that nothing names is a file of nobody."""
    stream = BytesIO()
    pq.write_table(pa.table({"bad_debt": [10**18]}), stream)
    path, key = out / "v1/history.json", "history/liquidations.parquet"
    (out / key).write_bytes(stream.getvalue())
    beside = trees.verify(out)
    manifest = json.loads(path.read_bytes())
    manifest["liquidations"] = {
        "key": key,
        "url": f"../{key}",
        "rows": 1,
        "bytes": len(stream.getvalue()),
        "sha256": sha256(stream.getvalue()).hexdigest(),
        "spans": [{"first_ledger": 1, "last_ledger": 127}],
    }
    path.write_bytes(msgspec.json.encode(manifest))

    expect(beside, ExitCode.UNPROVEN)
    assert key in names(beside, "unlisted")
    expect(trees.verify(out), ExitCode.REFUTED, key)


def test_rollups_of_another_history(trees: Trees, out: Path) -> None:
    """Rollups that the check does not recompute, because they say that the history was another, are named."""
    path = out / "v1/history.json"
    manifest = json.loads(path.read_bytes())
    manifest["rollups"][0]["source_rows"] += 1
    path.write_bytes(msgspec.json.encode(manifest))
    listed = [file["key"] for file in manifest["rollups"]]

    named = names(trees.verify(out), "unlisted")
    assert 2 == len(listed)
    assert [True, True] == [key in named for key in listed]


def test_notices_of_the_evidence(trees: Trees, single: Path, tmp_path: Path) -> None:
    """Notices that follow from no entry are named, and so is whatever else the evidence says about itself."""
    evidence = Evidence.decode(evidence_of(single), "evidence")
    forged = replace(evidence, notices=["All is well"], has_all_contracts=False)
    (tmp_path / "forged.jsonl.gz").write_bytes(forged.encode())
    values = {"network.passphrase": PASSPHRASE, "output.uri": str(tmp_path / "out"), "output.page_sizes": [1, 50]}
    run(load(None, values, environment={}).settings, snapshot=tmp_path / "forged.jsonl.gz")

    result = trees.verify(tmp_path / "out")
    expect(result, ExitCode.UNPROVEN, "2 statements are the publisher's word: looked: the run read a part")
    expect(result, ExitCode.UNPROVEN, "notice: All is well")


@pytest.mark.parametrize(
    ("reason", "excluded", "said"),
    [
        (SkipReason.POOLS, [], "was skipped (pools), and a run reads every listed market"),
        (SkipReason.FAILED, [], "was skipped (failed), and a run reads every listed market"),
        (SkipReason.EXCLUDED, [], "was skipped (excluded), and its list of what is excluded does not name it"),
        (SkipReason.TIME, [BLEND_V2], "was skipped (time), and its list of what is excluded names it"),
    ],
)
def test_evidence_that_skips_a_listed_market(single: Path, reason: SkipReason, excluded: list[str], said: str) -> None:
    """Listed markets are always read, so no budget is a reason; only what the operator excludes is left out."""
    evidence = Evidence.decode(evidence_of(single), "evidence")
    forged = replace(evidence, skipped=[SkippedMarket(BLEND_V2, "blend", reason)], excluded=excluded)

    with pytest.raises(RefutedError, match=re.escape(said)):
        list(unproven_evidence(forged))


def test_what_is_excluded_and_configured_is_stated(trees: Trees, single: Path, tmp_path: Path) -> None:
    """The operator's exclusions and own markets are printed; a listed market that is excluded is not proven, too."""
    evidence = Evidence.decode(evidence_of(single), "evidence")
    forged = replace(evidence, excluded=[CONTRACT])
    (tmp_path / "forged.jsonl.gz").write_bytes(forged.encode())
    values = {"network.passphrase": PASSPHRASE, "output.uri": str(tmp_path / "out"), "output.page_sizes": [1, 50]}
    run(load(None, values, environment={}).settings, snapshot=tmp_path / "forged.jsonl.gz")
    skipped = replace(evidence, skipped=[SkippedMarket(BLEND_V2, "blend", SkipReason.EXCLUDED)], excluded=[BLEND_V2])

    result = trees.verify(tmp_path / "out", "--allow-unproven", "calls")
    expect(result, ExitCode.DONE, f"the operator excludes {CONTRACT}")
    expect(result, ExitCode.DONE, f"the operator names the market {BLEND_V2} of blend, and lists it by that alone")
    assert [f"skipped: {BLEND_V2} of blend, a listed market, was not read (excluded)"] == list(
        unproven_evidence(skipped)
    )


def test_contracts_of_the_evidence(tmp_path: Path) -> None:
    """A contract of a deployment that the chain does not name follows from nothing; one that it names does."""
    with running(create_app(RecordedNetwork())) as url:
        settings = settings_for(tmp_path, url)
        run(settings)
    evidence = Evidence.decode(evidence_of(tmp_path), "evidence")
    deployment = next(item for item in network_of(settings.passphrase).deployments if item.protocol == "blend")
    contract = LearnedContract(protocol="blend", label=deployment.label, role="emitter", address=CONTRACT)
    forged = replace(evidence, contracts=[*evidence.contracts, contract])

    assert [] == list(unproven_evidence(evidence))
    assert [f"contract: emitter {CONTRACT} of blend {deployment.label} follows from no entry"] == list(
        unproven_evidence(forged)
    )


def test_a_network_with_lists() -> None:
    """Evidence of a known network whose run did not try the lists' markets is named, with each market left out."""
    network = NETWORKS["mainnet"]
    every = [
        Candidate(deployment.protocol, address) for deployment in network.deployments for address in deployment.markets
    ]
    honest = Evidence(network.passphrase, 127, TIME, {}, {}, every)

    for evidence, said in (
        (honest, []),
        (
            replace(honest, candidates=every[1:]),
            [f"candidate: {every[0].address} of {every[0].protocol}, a known market, was not looked for"],
        ),
        (
            replace(honest, lists_compared=False),
            ["looked: the run says that it did not compare the lists of known contracts"],
        ),
    ):
        assert said == list(unproven_evidence(evidence))


@pytest.fixture(scope="module")
def compacted_tree(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree whose runs of the day before are joined into one file."""
    out = tmp_path_factory.mktemp("compacted") / "out"
    for ledger in DAY_BEFORE:
        trees.publish(out, ledger, since=TIME - 86_400)
    trees.publish(out, CHECKPOINT)
    compact_history(open_store(str(out)))
    return out


@pytest.fixture
def compacted(compacted_tree: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(compacted_tree, tmp_path / "out"))


def remove_parts(compacted: Path) -> list[str]:
    """Remove the files that were joined into one, as a sweep does; gives their keys."""
    keys = [f"history/pools/date=2023-11-13/{ledger}.parquet" for ledger in DAY_BEFORE]
    for key in keys:
        (compacted / key).unlink()
    return keys


@pytest.mark.parametrize("gone", [pytest.param(False, marks=pytest.mark.slow), True], ids=["kept", "gone"])
def test_a_history_that_was_compacted_since(trees: Trees, compacted: Path, gone: bool) -> None:
    """The files that the run went on from are made again of the joined one, whether they are still there or not."""
    status = json.loads((compacted / STATUS_KEY).read_bytes())
    listed = RunListing.from_parquet((compacted / f"v1/runs/{status['run_id']}.parquet").read_bytes())
    if gone:
        remove_parts(compacted)
    result, looked = trees.verify(compacted), check_tree(str(compacted))

    expect(result, ExitCode.UNPROVEN)
    (joined,) = (compacted / "history/pools").rglob("60-62-*.parquet")
    assert [f"{joined.name} (8 rows)"] == re.findall(r"[^/]*rows\)", names(result, "history"))
    assert (len(list(listed)), None) == (looked.rerendered, looked.not_rerendered)


def test_inputs_that_nobody_has(trees: Trees, compacted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined rows in bytes that other libraries wrote are used, and named; so is what depends on rows that are gone."""
    parts = remove_parts(compacted)
    with monkeypatch.context() as patched:
        patched.setattr(input_history, "rewritten", lambda *_: None)
        unlike = trees.verify(compacted)
    files = read(compacted)
    change(files, "v1/history.json", lambda history: history.update(files=history["files"][-1:], rollups=[]))
    del files[next(key for key in files if "/60-62-" in key)]
    for key in ("history/daily.parquet", "history/hourly.parquet"):
        del files[key]
    lost = asyncio.run(fetch(str(write(files, tmp_path / "lost")), tmp_path / "fetched", 0))
    made = rerender(lost)

    expect(unlike, ExitCode.UNPROVEN)
    for key in parts:
        assert f"{key} (it is gone, and the rows of its ledgers in" in names(unlike, "history")
    assert parts == list(lost.history.gone)
    assert {} == made.different
    assert {"v1/evidence", "v1/pages"}.isdisjoint(key.rpartition("/")[0] for key in made.dependent)
    why = f"it depends on {parts[0]}: it is gone, and the history has no file with its ledgers"
    assert {("history", why)} == set(made.dependent.values())
    assert f"v1/assets/{BLEND_V2}/" in {key[:67] for key in made.dependent}


def test_what_no_history_excuses(compacted: Path, tmp_path: Path) -> None:
    """Even if an input is gone, a file that does not depend on the history must follow from the evidence."""
    parts = remove_parts(compacted)
    files = read(compacted)
    change(files, "v1/history.json", lambda history: history.update(files=history["files"][-1:]))
    change(files, "v1/markets.json", lambda document: document["data"][0].update(name="Forged"))
    seal(files)
    tree = asyncio.run(fetch(str(write(files, tmp_path / "forged")), tmp_path / "fetched", 0))

    assert parts == list(tree.history.gone)
    assert {"v1/markets.json": "does not follow from the run's evidence"} == rerender(tree).different


def test_a_compacted_file_with_other_rows(trees: Trees, compacted: Path) -> None:
    """A file that does not have the rows of those that it joins is refused while they are there."""
    history = json.loads((compacted / "v1/history.json").read_text())
    joined = next(file for file in history["files"] if file["first_ledger"] < file["last_ledger"])
    path = compacted / joined["key"]
    table = pq.read_table(path)
    # The rolled up files have the last run of each hour.
    first = pc.equal(table["observed_ledger"], joined["first_ledger"])
    place = table.column_names.index("symbol")
    symbols = pc.if_else(first, "FORGED", table["symbol"].cast(pa.string())).cast(table.schema.field(place).type)
    pq.write_table(table.set_column(place, table.schema.field(place), symbols), path)
    data = path.read_bytes()
    joined |= {"sha256": sha256(data).hexdigest(), "bytes": len(data)}
    (compacted / "v1/history.json").write_text(json.dumps(history, separators=(",", ":")))

    expect(
        trees.verify(compacted), ExitCode.REFUTED, f"{joined['key']} does not have the rows of the files that it joins"
    )


def test_evidence_that_is_too_large(trees: Trees, single: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that unpacks to a large one ends with 3, before anything but the bounded verifier reads it."""
    monkeypatch.setattr(stellar_proof, "MAX_ENTRIES_BYTES", 10_000)
    monkeypatch.setattr(Evidence, "decode", None)

    expect(trees.verify(single), ExitCode.SOURCE, "the entries file has more than 10,000 bytes")


@pytest.mark.slow
@pytest.mark.parametrize("ledger", [959, 9_983, 10_047])
def test_the_real_testnet_pool(testnet_archive: Path, tmp_path: Path, ledger: int) -> None:
    """A run over the archive's state is proven with all its entries; one at the newest checkpoint has to wait."""
    write_snapshot(archive_snapshot(HistoryArchive(FolderFiles(testnet_archive)), ledger), tmp_path / "snapshot.json")
    values = {
        "network.name": "testnet",
        "discovery.enabled": False,
        "output.uri": str(tmp_path / "out"),
        "markets": [{"protocol": "blend", "address": POOL}],
        "output.page_sizes": [1, 50],
    }
    run(load(None, values, environment={}).settings, snapshot=tmp_path / "snapshot.json")
    result = prove(open_store(str(tmp_path / "out")), [str(testnet_archive)], None, Silence())
    if ledger == 10_047:
        assert ["checkpoint 10047 cannot be proven yet"] == [text.partition(":")[0] for text in result.waiting.values()]
        with pytest.raises(NotProvableError, match="10047 cannot be proven yet"):
            verify_tree(str(tmp_path / "out"), [str(testnet_archive)], None, Silence())
        return
    verified = verify_tree(str(tmp_path / "out"), [str(testnet_archive)], None, Silence())

    (proof,) = result.added
    assert (proof.entries, 0, ledger) == (proof.confirmed, proof.calls, proof.checkpoint)
    assert (verified.confirmed, verified.repeated) == (proof.entries, verified.files)


def test_what_other_libraries_wrote(single: Path, trees: Trees, tmp_path: Path) -> None:
    """Evidence that another zlib packed has the right lines, and is named."""
    files = read(single)
    old = str(json.loads(files[STATUS_KEY])["evidence_key"])
    packed = gzip.compress(gzip.decompress(files.pop(old)), 9, mtime=0)
    new = f"v1/evidence/{sha256(packed).hexdigest()}.jsonl.gz"
    files[new] = packed
    change(files, STATUS_KEY, lambda status: status.update(evidence_key=new))
    del files["v1/proofs.json"]
    seal(files, new)
    result = trees.verify(write(files, tmp_path))

    expect(result, ExitCode.UNPROVEN, f"1 files have the right values, but other libraries wrote their bytes: {new}")
