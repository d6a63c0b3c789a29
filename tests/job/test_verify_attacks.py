"""Trees that were altered consistently: what `exporter verify` makes of each."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.config import load
from exporter.deployments.networks import NETWORKS, network_of
from exporter.discovery.known_markets import LearnedContract
from exporter.errors import EXIT_DONE, EXIT_REFUTED, EXIT_SOURCE, EXIT_UNPROVEN
from exporter.job.evidence import Evidence
from exporter.job.publisher_statements import evidence_words
from exporter.ledger.source import RawEntry
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols.base import Candidate
from exporter.publishing.compaction import compact_history
from exporter.render.feeds import render_feeds
from exporter.stores import open_store
from exporter.tree.documents import ChangeList, ManifestFile, timestamp
from exporter.tree.families import kind_of
from exporter.tree.run_listing import RunListing
from tests.job.signed_runs import CHECKPOINT, TIME, SignedNetwork, keys_named
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V2
from tests.past.archive.simulated_archive import PASSPHRASE

CONTRACT = "CCVUGW4ME72W6ZTYJBOJ2NYKKNMFJR5OHBWS62TV5KZR2SSR2ZLXCREY"
BEFORE = (60, 100, 124)
"""Ledgers of earlier runs. The archive has no checkpoint for the first."""

DAY_BEFORE = (60, 62)
"""Ledgers of runs that the archive says nothing of, so that they may have closed a day earlier."""


class Trees(SignedNetwork):
    """A signed network with an archive of its checkpoint, and trees of runs at several of its ledgers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, BEFORE[0])

    def command(self, name: str, out: Path, *more: str) -> Result:
        options = [name, str(out), "--archive", str(self.archive), "--trust", str(self.trust), *more]
        return CliRunner().invoke(main, options)

    def verify(self, out: Path, *more: str) -> Result:
        return self.command("verify", out, *more)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return Trees(tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="module")
def single(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run at the checkpoint, proven."""
    out = tmp_path_factory.mktemp("single") / "out"
    trees.publish(out, CHECKPOINT)
    trees.command("prove", out)
    return out


@pytest.fixture(scope="module")
def several(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs at all ledgers, those that can be proven."""
    out = tmp_path_factory.mktemp("several") / "out"
    for ledger in (*BEFORE, CHECKPOINT):
        trees.publish(out, ledger)
    trees.command("prove", out)
    return out


class Forger:
    """Changes files of a copy of a tree, and then every digest that names them."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.out = folder / "forged"
        shutil.copytree(tree, self.out)
        self.status = json.loads((self.out / "v1/system/status.json").read_bytes())
        self.manifest = json.loads((self.out / self.status["manifest_key"]).read_bytes())
        listed = RunListing.from_parquet((self.out / self.manifest["files_key"]).read_bytes())
        self.files = {file.key: file for file in listed}

    def put(self, key: str, data: bytes) -> None:
        (self.out / key).parent.mkdir(parents=True, exist_ok=True)
        (self.out / key).write_bytes(data)
        self.files[key] = ManifestFile(key, kind_of(key).value, len(data), sha256(data).hexdigest())

    def edit(self, key: str, change: Callable[[bytes], bytes]) -> None:
        before = (self.out / key).read_bytes()
        after = change(before)
        assert before != after
        self.put(key, after)

    def edit_json(self, key: str, change: Callable[[Any], None]) -> None:
        document = json.loads((self.out / key).read_bytes())
        change(document)
        self.put(key, msgspec.json.encode(document))

    def seal(self) -> Path:
        """Write the listing, the manifest and the status; gives the tree."""
        for key in (self.status["manifest_key"], self.manifest["files_key"]):
            (self.out / key).unlink()
        listed = RunListing.of(list(self.files.values()))
        run_id, parquet = listed.run_id(self.status["observed_ledger"]), listed.parquet
        count, size = listed.size
        self.manifest |= {
            "run_id": run_id,
            "files_key": f"v1/runs/{run_id}.parquet",
            "files_sha256": sha256(parquet).hexdigest(),
            "file_count": count,
            "bytes": size,
        }
        (self.out / self.manifest["files_key"]).write_bytes(parquet)
        content = msgspec.json.encode(self.manifest)
        proofs = self.out / "v1/proofs.json"
        if proofs.exists():
            proofs.write_bytes(proofs.read_bytes().replace(self.status["run_id"].encode(), run_id.encode()))
        self.status |= {
            "run_id": run_id,
            "manifest_key": f"v1/runs/{run_id}.json",
            "manifest_sha256": sha256(content).hexdigest(),
        }
        (self.out / self.status["manifest_key"]).write_bytes(content)
        (self.out / "v1/system/status.json").write_bytes(msgspec.json.encode(self.status))
        return self.out


def names(result: Result, reason: str) -> str:
    """The line of a reason, or nothing."""
    return next((line for line in result.output.splitlines() if line.startswith(f"not proven ({reason})")), "")


def test_an_honest_tree_of_one_run(trees: Trees, single: Path) -> None:
    """Nothing but the results of calls is unproven; the ledger's close time and age are printed."""
    result = trees.verify(single)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert ["calls"] == re.findall(r"not proven \((\w+)\)", result.output)
    assert "ledger 127 closed at 2023-11-14T22:15:27Z, " in result.output
    assert EXIT_DONE == trees.verify(single, "--allow-unproven", "calls").exit_code


def test_an_honest_tree_of_several_runs(trees: Trees, several: Path) -> None:
    """Earlier runs are repeated and proven; what has no checkpoint, or is beyond the bound, is named."""
    result = trees.verify(several)
    bounded = trees.verify(several, "--earlier", "1")

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert "8 of 12 earlier rows of the history follow from the evidence of 2 runs" in result.output
    assert "60.parquet (4 rows)" in names(result, "history")
    assert "run 60-" in names(result, "earlier")
    assert "" == names(result, "changes")
    assert "4 of 12 earlier rows" in bounded.output
    assert "only the newest 1 earlier runs are repeated" in names(bounded, "earlier")


@pytest.mark.parametrize("key", ["data.html", "datapackage.json", "feed.atom"])
def test_text_that_no_evidence_gives(trees: Trees, single: Path, tmp_path: Path, key: str) -> None:
    """Pages, feeds and the data package follow from the evidence and the history; any other byte is a contradiction."""
    forger = Forger(single, tmp_path)
    change = {
        "data.html": (b"</main>", b"<script>alert(1)</script></main>"),
        "datapackage.json": (b"exact.", b"exact. Buy now."),
        "feed.atom": (b"Changes of", b"Invented changes of"),
    }[key]
    forger.edit(key, lambda data: data.replace(*change))

    result = trees.verify(forger.seal())

    assert EXIT_REFUTED == result.exit_code, result.output
    assert f"{key} does not follow from the run's evidence" in result.output


def change_of(ledger: int, before: int, market: str) -> dict[str, object]:
    """An invented change."""
    return {
        "id": f"urn:uuid:00000000-0000-0000-0000-{ledger:012}",
        "kind": "status",
        "market": market,
        "pool": None,
        "title": "Invented: frozen",
        "before": "active",
        "after": "frozen",
        "unit": None,
        "takes_effect": None,
        "observed_ledger": ledger,
        "ledger_close_time": timestamp(TIME + ledger),
        "previous_ledger": before,
    }


def forge_changes(forger: Forger, item: dict[str, Any]) -> None:
    """Put a change into the list, and render the feeds of it."""
    forger.edit_json("v1/changes.json", lambda document: document["data"].insert(0, item))
    changes = msgspec.json.decode((forger.out / "v1/changes.json").read_bytes(), type=ChangeList)
    for feed in render_feeds(changes, PASSPHRASE, timestamp(TIME // 86_400 * 86_400)):
        forger.put(feed.key, feed.data)


def test_an_invented_change(trees: Trees, several: Path, tmp_path: Path) -> None:
    """Two runs give what changed between them; what earlier ones say is counted by its title."""
    own, older = Forger(several, tmp_path / "own"), Forger(several, tmp_path / "older")
    forge_changes(own, change_of(CHECKPOINT, BEFORE[-1], BLEND_V2))
    forge_changes(older, change_of(BEFORE[-1], BEFORE[-2], BLEND_V2))

    refuted, counted = trees.verify(own.seal()), trees.verify(older.seal())

    assert EXIT_REFUTED == refuted.exit_code, refuted.output
    assert "does not follow from the run's evidence" in refuted.output
    assert EXIT_UNPROVEN == counted.exit_code, counted.output
    assert "1 changes were found by runs that were not repeated: Invented: frozen (ledger 124)" in names(
        counted, "changes"
    )


def test_changes_without_the_run_before(trees: Trees, several: Path, tmp_path: Path) -> None:
    """Where the evidence of the run before is gone, its changes are not covered, although there are none."""
    out = tmp_path / "out"
    shutil.copytree(several, out)
    drop_evidence(out, BEFORE[-1])

    result = trees.verify(out)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert "v1/changes.json: those since the run before" in names(result, "changes")


def drop_evidence(out: Path, *ledgers: int) -> None:
    """Remove the evidence of the runs at these ledgers."""
    for ledger in ledgers:
        (listing,) = (out / "v1/runs").glob(f"{ledger}-*.parquet")
        for file in RunListing.from_parquet(listing.read_bytes()):
            if file.key.startswith("v1/evidence/"):
                (out / file.key).unlink()


def multiplied(entries: dict[bytes, RawEntry]) -> dict[bytes, RawEntry]:
    """Entries with the b_supply of every reserve times 1,000."""
    forged = dict(entries)
    for key in keys_named(entries, b"ResData"):
        entry = entries[key]
        if (at := entry.data.find(b"b_supply")) >= 0:
            start = at + len(b"b_supply") + 4  # behind the kind of the value
            supply = int.from_bytes(entry.data[start : start + 16], "big", signed=True) * 1_000
            data = entry.data[:start] + supply.to_bytes(16, "big", signed=True) + entry.data[start + 16 :]
            forged[key] = replace(entry, data=data)
    assert forged != entries
    return forged


@pytest.fixture(scope="module")
def forged_history(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs with supplies times 1,000, then an honest one; only that is proven."""
    out = tmp_path_factory.mktemp("forged") / "out"
    for ledger in BEFORE:
        trees.publish(out, ledger, multiplied(trees.state[ledger]))
    trees.publish(out, CHECKPOINT)
    return out


def test_a_forged_history_with_its_evidence(trees: Trees, forged_history: Path) -> None:
    """Forged entries that changed before the checkpoint are named: nobody can prove them, or the contrary."""
    result = trees.verify(forged_history)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert base64.b64encode(keys_named(trees.state[BEFORE[-1]], b"ResData")[0])[:30].decode() in names(
        result, "changed"
    )


def test_a_forged_history_with_entries_that_are_proven(trees: Trees, tmp_path: Path) -> None:
    """The evidence of an earlier run is held against its checkpoint, too."""
    entries = trees.state[BEFORE[-1]]
    first, second = keys_named(entries, b"ResConfig")[:2]
    data = entries[first].data[: len(first) + 4] + entries[second].data[len(second) + 4 :]
    trees.publish(tmp_path / "out", BEFORE[-1], entries | {first: replace(entries[first], data=data)})
    trees.publish(tmp_path / "out", CHECKPOINT)

    result = trees.verify(tmp_path / "out")

    assert EXIT_REFUTED == result.exit_code, result.output
    assert re.search(r"run 124-\w+: the entry .* has another value", result.output)


def test_a_forged_history_without_evidence(trees: Trees, forged_history: Path, tmp_path: Path) -> None:
    """Its rows are counted as not covered, by file."""
    out = tmp_path / "out"
    shutil.copytree(forged_history, out)
    drop_evidence(out, *BEFORE)

    result = trees.verify(out)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert "0 of 12 earlier rows of the history follow from the evidence of 0 runs" in result.output
    for ledger in BEFORE:
        assert f"{ledger}.parquet (4 rows)" in names(result, "history")


def test_a_forged_history_with_honest_evidence(
    trees: Trees, forged_history: Path, several: Path, tmp_path: Path
) -> None:
    """Rows that do not follow from the evidence of their run are a contradiction."""
    out = tmp_path / "out"
    shutil.copytree(forged_history, out)
    for folder in ("runs", "evidence"):
        for file in (several / "v1" / folder).iterdir():
            if not file.name.startswith("127-"):
                shutil.copy(file, out / "v1" / folder)
    for file in (out / "v1/runs").glob("124-*"):
        if not (several / "v1/runs" / file.name).exists():
            file.unlink()

    result = trees.verify(out)

    assert EXIT_REFUTED == result.exit_code, result.output
    assert "124.parquet: the rows of ledger 124 do not follow from the evidence of 124-" in result.output


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("network_name", "mainnet", EXIT_REFUTED),
        ("notices", ["All is well"], EXIT_REFUTED),
        ("proof_checkpoint", 191, EXIT_REFUTED),
        ("next_expected_at", "2031-01-01T00:00:00Z", EXIT_UNPROVEN),
    ],
)
def test_words_of_the_status(trees: Trees, single: Path, tmp_path: Path, field: str, value: object, code: int) -> None:
    """What the evidence gives must be so; a promise is counted."""
    forger = Forger(single, tmp_path)
    forger.status[field] = value

    result = trees.verify(forger.seal())

    assert code == result.exit_code, result.output
    assert field in result.output


def test_a_claim_of_the_list_of_proofs(trees: Trees, tmp_path: Path) -> None:
    """A run of which not all is proven cannot have all entries confirmed."""
    out = tmp_path / "out"
    trees.publish(out, BEFORE[-1])
    trees.command("prove", out)
    listed = json.loads((out / "v1/proofs.json").read_bytes())
    (proof,) = listed["proofs"]
    proof |= {"confirmed": proof["entries"], "changed_since": 0, "not_looked_up": 0}
    (out / "v1/proofs.json").write_bytes(msgspec.json.encode(listed))

    result = trees.verify(out)

    assert EXIT_REFUTED == result.exit_code, result.output
    assert "entries are claimed to be confirmed" in result.output


@pytest.mark.parametrize("name", ["stellar_proof.py", "trust.json"])
def test_another_verifier(trees: Trees, single: Path, tmp_path: Path, name: str) -> None:
    """The tree's copies are named with their digests where they are not those in use."""
    out = tmp_path / "out"
    shutil.copytree(single, out)
    path = out / "v1/verifier" / name
    path.write_bytes(path.read_bytes().replace(b'"a test"', b'"A test"') + b"\n")

    result = trees.verify(out)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    digest = sha256(path.read_bytes()).hexdigest()
    assert f"v1/verifier/{name} has the SHA-256 {digest}" in names(result, "statements")


def test_notices_of_the_evidence(trees: Trees, single: Path, tmp_path: Path) -> None:
    """Notices that no entry gives are named, and what else the evidence says of itself, in a tree that has them."""
    status = json.loads((single / "v1/system/status.json").read_bytes())
    evidence = Evidence.decode((single / status["evidence_key"]).read_bytes(), "evidence")
    forged = replace(evidence, notices=["All is well"], whole=False)
    (tmp_path / "forged.jsonl.gz").write_bytes(forged.encode())
    values = {"network.passphrase": PASSPHRASE, "output.uri": str(tmp_path / "out"), "output.page_sizes": [1, 50]}
    run(load(None, values, environment={}).settings, snapshot=tmp_path / "forged.jsonl.gz")

    result = trees.verify(tmp_path / "out")

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert "2 statements are the publisher's word: notice: All is well, looked: the run read a part" in result.output


def test_contracts_of_the_evidence(tmp_path: Path) -> None:
    """A contract of a deployment that the chain does not name follows from nothing; one that it names does."""
    with running(create_app(RecordedNetwork())) as url:
        settings = settings_for(tmp_path, url)
        run(settings)
    status = json.loads((tmp_path / "v1/system/status.json").read_bytes())
    evidence = Evidence.decode((tmp_path / status["evidence_key"]).read_bytes(), "evidence")
    deployment = next(item for item in network_of(settings.passphrase).deployments if item.protocol == "blend")
    contract = LearnedContract(protocol="blend", label=deployment.label, role="emitter", address=CONTRACT)
    forged = replace(evidence, contracts=[*evidence.contracts, contract])

    assert [] == list(evidence_words(evidence, settings))
    assert [f"contract: emitter {CONTRACT} of blend {deployment.label} follows from no entry"] == list(
        evidence_words(forged, settings)
    )


def test_files_of_nobody(trees: Trees, single: Path, tmp_path: Path) -> None:
    """A file that is not a run's is counted by its name, as an operator may have added it; our own records are not."""
    out = tmp_path / "out"
    shutil.copytree(single, out)
    (out / "robots.txt").write_text("User-agent: *\n")
    (out / "state/known-markets.unreadable-0123456789abcdef.memory").write_text("damaged")
    for key in ("state/history-buckets-page.html", "history/page.html"):
        (out / key).write_text("<script>alert(1)</script>")

    result = trees.verify(out)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert "3 files are in no run: history/page.html, robots.txt, state/history-buckets-page.html" in names(
        result, "unlisted"
    )


@pytest.mark.slow
def test_a_history_that_was_compacted_since(trees: Trees, tmp_path: Path) -> None:
    """The page of the history is derived as it was; once the replaced files are gone, it is named."""
    out = tmp_path / "out"
    for ledger in DAY_BEFORE:
        trees.publish(out, ledger, since=TIME - 86_400)
    trees.publish(out, CHECKPOINT)
    compact_history(open_store(str(out)))
    kept = trees.verify(out)
    for ledger in DAY_BEFORE:
        (out / f"history/pools/date=2023-11-13/{ledger}.parquet").unlink()
    gone = trees.verify(out)

    assert EXIT_UNPROVEN == kept.exit_code, kept.output
    assert "data.html" not in kept.output
    assert "2023-11-13/60.parquet (4 rows), history/pools/date=2023-11-13/62.parquet (4 rows)" in names(kept, "history")
    assert EXIT_UNPROVEN == gone.exit_code, gone.output
    assert "data.html (it shows files of the history that are gone)" in names(gone, "history")


@pytest.mark.parametrize(("age", "code"), [("1d", EXIT_SOURCE), ("90", EXIT_SOURCE), ("99999d", EXIT_UNPROVEN)])
def test_age(trees: Trees, single: Path, age: str, code: int) -> None:
    """A run older than what is allowed ends with 3, after all that was found is printed."""
    result = trees.verify(single, "--max-age", age)

    assert code == result.exit_code, result.output
    assert " entries of ledger 127 are proven" in result.output
    assert (code == EXIT_SOURCE) is ("and --max-age is" in result.output)


def test_an_age_that_cannot_be_read(trees: Trees, single: Path) -> None:
    """The message says what is expected."""
    result = trees.verify(single, "--max-age", "soon")

    assert 2 == result.exit_code
    assert "expected minutes, or a duration such as 30m, 2h or 1d, but found 'soon'" in result.output


def test_a_network_with_lists() -> None:
    """Evidence of a known network whose run did not look where the lists say is named, with each market left out."""
    network = NETWORKS["mainnet"]
    settings = load(None, {"network.name": "mainnet"}, environment={}).settings
    every = [
        Candidate(deployment.protocol, address) for deployment in network.deployments for address in deployment.markets
    ]
    honest = Evidence(network.passphrase, 127, TIME, {}, {}, every)
    left_out = replace(honest, candidates=every[1:])

    assert [] == list(evidence_words(honest, settings))
    assert [f"candidate: {every[0].address} of {every[0].protocol}, a known market, was not looked for"] == list(
        evidence_words(left_out, settings)
    )
    assert ["looked: the run did not compare the lists of known contracts"] == list(
        evidence_words(replace(honest, listed=False), settings)
    )


def test_evidence_of_an_earlier_run_that_cannot_be_read(trees: Trees, several: Path, tmp_path: Path) -> None:
    """It covers nothing, and the rest is verified as before."""
    out = tmp_path / "out"
    shutil.copytree(several, out)
    (listing,) = (out / "v1/runs").glob(f"{BEFORE[-1]}-*.parquet")
    key = next(file.key for file in RunListing.from_parquet(listing.read_bytes()) if "/evidence/" in file.key)
    (out / key).write_bytes(b"\x1f\x8bdamaged")

    result = trees.verify(out)

    assert EXIT_UNPROVEN == result.exit_code, result.output
    assert f"{key} does not have the digest of its name" in names(result, "earlier")
    assert "4 of 12 earlier rows of the history follow from the evidence of 1 run" in result.output
