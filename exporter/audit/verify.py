"""Verifies a published tree without trusting its publisher.

docs/proofs.md, "What is proven of a published run", describes the steps. What they do not prove is named.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from exporter.audit.check import other_version
from exporter.audit.completeness import Complete, check_complete
from exporter.audit.derived_risk import is_unshown_risk, judge_risk
from exporter.audit.earlier_runs import RepeatedRuns, earlier_rows, judge_inputs, repeat_earlier
from exporter.audit.evidence_claims import unproven_evidence, unproven_notices
from exporter.audit.evidence_proof import Outcome, check_proof_claims, claims_of, hold_against, proof_of
from exporter.audit.fetched_tree import FetchedTree, fetch, files_of_run
from exporter.audit.private_files import judge_private_files
from exporter.audit.published_tree import check_files
from exporter.audit.rerender import Rerendered, rerender
from exporter.audit.run_coverage import KEYS_OF_READING, coverage_of
from exporter.audit.statements import statements_of
from exporter.audit.unlisted_files import judge_unlisted_files
from exporter.audit.unproven import Unproven, UnprovenReason
from exporter.audit.verified import Verified
from exporter.console import Console
from exporter.errors import CheckError, ConfigError, RefutedError, SourceError
from exporter.history.liquidations_table import table_fault
from exporter.history.manifest import file_ledgers
from exporter.job.evidence import Evidence
from exporter.past.archive.archive_places import Archives, Deadline
from exporter.past.archive.checkpoint_proof import make_proof
from exporter.past.archive.stellar_proof import Trust
from exporter.past.archive.trusted_organisations import signed_by, trust_file, trust_of
from exporter.stores.store import Clock, utc_now
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Census
from exporter.tree.families import CENSUS, HISTORY_FILES_PREFIX, HISTORY_MANIFEST_KEY, PROOFS, TRUST, VERIFIER
from exporter.tree.run_listing import ledger_of
from exporter.tree.verifier import verifier_file

EARLIER_RUNS = 5
"""Number of the newest earlier runs that are repeated by default."""


def verify_tree(
    uri: str,
    archives: Sequence[str],
    trust: Path | None,
    console: Console,
    *,
    full: bool = False,
    complete: bool = False,
    deadline: float = 300.0,
    earlier: int = EARLIER_RUNS,
    now: Clock = utc_now,
) -> Verified:
    """Verify the published tree at a URI.

    Args:
        uri: a folder, s3://BUCKET/PREFIX, or the http(s) URL of a tree's root.
        archives: the history archives to read; without any, those of the trusted organisations.
        trust: the file with the list of trusted organisations; None for the list in this package.
        console: what shows the steps.
        full: whether every entry is looked up in all archive buckets, and not only in the newest.
        complete: whether the markets are compared with all contracts of the checkpoint.
        deadline: after how many seconds reading archives ends. An earlier run that is not proven by then does not count
            as covered.
        earlier: how many of the newest earlier runs are repeated.
        now: the clock.

    Raises `RefutedError` if something contradicts the tree, `SourceError` if the tree or the archives cannot be read,
    and `ConfigError` if another version wrote the tree, or an argument is not accepted.
    """
    with tempfile.TemporaryDirectory() as folder:
        verification = _Verification(uri, console, Path(folder), complete=complete, full=full)
        repeated = verification.repeat(verification.checked(), earlier)
        compared = verification.compare_with_checkpoints(repeated, archives, trust, deadline)
        all_contracts = verification.compare_all_contracts(repeated.tree, compared)
        verification.judge_risk(repeated, compared)
        rest = verification.judge_the_rest(repeated, compared)
        return verification.result(repeated, compared, all_contracts, rest, now)


class _Repeated(NamedTuple):
    """A fetched tree whose runs were repeated.

    Attributes:
        tree: the tree.
        evidence: the run's evidence, decoded.
        made: how the run's files compare with what its inputs give.
        earlier: the earlier runs that follow from their evidence.
    """

    tree: FetchedTree
    evidence: Evidence
    made: Rerendered
    earlier: RepeatedRuns


class _Compared(NamedTuple):
    """What comparing the evidence with the network's checkpoints gave.

    Attributes:
        trusted: the trusted organisations.
        archives: the opened archives.
        outcome: the result for the published run.
    """

    trusted: Trust
    archives: Archives
    outcome: Outcome


class _Rest(NamedTuple):
    """What there is besides the run.

    Attributes:
        rows: the number of rows in the history before the run.
        uncovered_rows: the number of them that follow from no evidence.
        waiting: the number of files of earlier runs that the sweep will remove.
    """

    rows: int
    uncovered_rows: int
    waiting: int


class _Verification:
    """The steps of verifying a tree, in their order.

    Attributes:
        unproven: what is not proven. Each step adds to it.
        statements: what only the publisher can know.
    """

    def __init__(self, uri: str, console: Console, folder: Path, *, complete: bool, full: bool) -> None:
        self._uri, self._console, self._folder = uri, console, folder
        self._complete, self._full = complete, full
        self.unproven = Unproven()
        self.statements: list[str] = []

    def checked(self) -> str:
        """Check the tree's files, and return the id of the published run.

        Raises `RefutedError` if they have faults, and `ConfigError` if another version wrote them.
        """
        with self._console.step("check", "checking the tree") as facts, refuting():
            summary = check_files(self._uri)
            facts.update(files=sum(summary.files.values()))
        if (why := other_version(summary)) is not None:
            raise ConfigError(
                f"{self._uri}: {why}, so its files cannot be compared; verify it with that version of the exporter"
            )
        return summary.run_id

    def repeat(self, run_id: str, earlier: int) -> _Repeated:
        """Repeat the run with this id and at most ``earlier`` earlier ones from their evidence.

        Raises `RefutedError` if a file differs, and `SourceError` if another run was published meanwhile.
        """
        with self._console.step("repeat", "repeating runs from their evidence") as facts, refuting():
            tree = asyncio.run(fetch(self._uri, self._folder, earlier))
            if tree.status.run_id != run_id:
                raise SourceError(f"run {tree.status.run_id} was published after {run_id} was checked; verify again")
            claims_of(tree.evidence)  # raises an error for evidence beyond the bounds, before anything else reads it
            earlier_runs = repeat_earlier(tree)
            made = rerender(tree)
            for key, why in made.different.items():
                raise CheckError(f"{key} {why}")
            self.unproven.update(judge_inputs(tree, earlier_runs))
            for key, (lost, why) in made.dependent.items():
                reason = UnprovenReason.CHANGES if lost == "watched" else UnprovenReason.HISTORY
                self.unproven.add(reason, [f"{key} ({why})"])
            self.unproven.add(UnprovenReason.LIBRARIES, [*made.recoded, *earlier_runs.recoded])
            evidence = Evidence.decode(tree.evidence, tree.status.evidence_key)
            self.statements += statements_of(tree, evidence)
            self.unproven.add(UnprovenReason.STATEMENTS, _transitions(tree))
            self.unproven.add(UnprovenReason.STATEMENTS, unproven_evidence(evidence))
            facts.update(files=made.same, earlier_runs=len(earlier_runs.covered))
        return _Repeated(tree, evidence, made, earlier_runs)

    def compare_with_checkpoints(
        self, repeated: _Repeated, archives: Sequence[str], trust: Path | None, deadline: float
    ) -> _Compared:
        """Compare the evidence with the network's checkpoints, which validators signed.

        An earlier run whose checkpoint cannot be read is left out. Raises `RefutedError` if a checkpoint contradicts a
        run, `SourceError` if that of the published run cannot be read, and `ConfigError` if nobody is trusted.
        """
        tree, covered = repeated.tree, repeated.earlier.covered
        network = tree.status.network
        trusted = trust_of(network, trust)
        self.unproven.add(UnprovenReason.STATEMENTS, other_verifiers(tree.companions, network, trust))
        with self._console.step("prove", "comparing the evidence with the network's checkpoint") as facts:
            buckets = self._folder / "buckets"
            opened = Archives.open(archives or trusted.archives, buckets, Deadline(deadline, "--deadline"))
            compare = partial(_compare_with_checkpoint, tree, trusted, opened, self.unproven, self._full)
            outcome = compare(tree.status.run_id, tree.evidence)
            for run in tree.earlier:
                if run.ledger in covered:
                    try:
                        compare(run.run_id, run.evidence)
                    except SourceError as error:
                        del covered[run.ledger]
                        tree.left_out[run.run_id] = str(error)
            compared = {tree.status.run_id, *covered.values()}
            others = (proof.run_id for proof in tree.proofs if proof.run_id not in compared)
            self.unproven.add(
                UnprovenReason.EARLIER, (f"{PROOFS.only_key}: the proof of run {run_id}" for run_id in others)
            )
            self.unproven.add(UnprovenReason.STATEMENTS, unproven_notices(repeated.evidence, opened, trusted))
            facts.update(checkpoint=outcome.proven.ledger, confirmed=outcome.confirmed)
        return _Compared(trusted, opened, outcome)

    def compare_all_contracts(self, tree: FetchedTree, compared: _Compared) -> Complete | None:
        """Compare the markets with all contracts of the checkpoint. None if that was not asked for."""
        all_contracts = None
        if self._complete:
            with self._console.step("complete", "checking all contracts of the checkpoint") as facts:
                coverage = coverage_of(asyncio.run(files_of_run(tree, KEYS_OF_READING)), self._uri)
                all_contracts = check_complete(
                    compared.archives,
                    compared.outcome.proven,
                    self._folder / "state",
                    tree.status.network,
                    coverage,
                    self.unproven,
                )
                facts.update(markets=all_contracts.markets)
        census = tree.companions.get(CENSUS.only_key)
        if census is not None and not _is_census_of(census, all_contracts):
            self.unproven.add(UnprovenReason.STATEMENTS, [CENSUS.only_key])
        return all_contracts

    def judge_risk(self, repeated: _Repeated, compared: _Compared) -> None:
        """Judge the risk that the run shows, and name risk documents that it does not show."""
        tree, evidence = repeated.tree, repeated.evidence
        if tree.risk is not None:
            with self._console.step("risk", "judging the risk that the run shows"):
                judged = judge_risk(
                    tree, evidence, compared.archives, compared.trusted, self._folder, complete=self._complete
                )
                self.unproven.add(UnprovenReason.STATEMENTS, judged)
        unshown = (key for key in sorted(tree.keys or ()) if is_unshown_risk(key, tree.status))
        self.unproven.add(UnprovenReason.STATEMENTS, unshown)

    def judge_the_rest(self, repeated: _Repeated, compared: _Compared) -> _Rest:
        """Name what no earlier step covers: earlier rows of the history, other files, the private files."""
        tree, unproven = repeated.tree, self.unproven
        covered = repeated.earlier.covered
        rows = uncovered_rows = 0
        for earlier in earlier_rows(tree):
            missing = earlier.not_of(covered)
            rows += earlier.not_of(())
            uncovered_rows += missing
            if missing:
                unproven.add(UnprovenReason.HISTORY, [f"{earlier.key} ({missing} rows)"])
        unproven.add(UnprovenReason.HISTORY, _liquidations(tree))
        unproven.add(UnprovenReason.EARLIER, (f"run {run_id}: {why}" for run_id, why in tree.left_out.items()))
        waiting = judge_unlisted_files(tree, repeated.made, repeated.earlier, compared.trusted, unproven)
        history_keys = (file.key for file in tree.files.under(HISTORY_FILES_PREFIX))
        run_file = next((key for key in history_keys if file_ledgers(key) is not None), "")
        newest = max((file.last_ledger for file in tree.history.files), default=0)
        made = repeated.made
        for reason, text in judge_private_files(
            tree.private_files, tree.status, made.state, made.older, run_file, newest
        ):
            if reason is None:
                self.statements.append(text)
            else:
                unproven.add(reason, [text])
        return _Rest(rows, uncovered_rows, waiting)

    def result(
        self, repeated: _Repeated, compared: _Compared, all_contracts: Complete | None, rest: _Rest, now: Clock
    ) -> Verified:
        """What all steps gave."""
        tree, outcome = repeated.tree, compared.outcome
        proven = outcome.proven
        close_time = proven.closed[tree.status.observed_ledger]
        return Verified(
            run_id=tree.status.run_id,
            ledger=tree.status.observed_ledger,
            close_time=close_time,
            age_seconds=max(int(now().timestamp()) - close_time, 0),
            checkpoint=proven.ledger,
            signed_ledger=proven.signed_ledger,
            signed=signed_by(proven, compared.trusted),
            entries=outcome.entries,
            confirmed=outcome.confirmed,
            files=len(tree.files),
            repeated=repeated.made.same,
            earlier_runs=list(repeated.earlier.covered.values()),
            history_rows=rest.rows,
            covered_history_rows=rest.rows - rest.uncovered_rows,
            trust=compared.trusted,
            unproven=self.unproven,
            statements=self.statements,
            waiting=rest.waiting,
            complete=all_contracts,
        )


@contextmanager
def refuting() -> Iterator[None]:
    """Turn a `CheckError`, which is a fault of the tree, into a `RefutedError`."""
    try:
        yield
    except CheckError as error:
        raise RefutedError(str(error)) from None


def _is_census_of(data: bytes, completeness: Complete | None) -> bool:
    """Whether the tree's census is the one of the run and its checkpoint.

    False if it is of another run or checkpoint, or if nothing was compared. Raises `RefutedError` if it is wrong.
    """
    if completeness is None:
        return False
    try:
        theirs = decode_json(data, Census)
    except msgspec.DecodeError as error:
        raise RefutedError(f"{CENSUS.only_key} cannot be understood: {error}") from None
    if (theirs.run_id, theirs.checkpoint) != (completeness.census.run_id, completeness.census.checkpoint):
        return False
    if theirs != completeness.census:
        raise RefutedError(f"{CENSUS.only_key} is not what the checkpoint and the run give")
    return True


def _compare_with_checkpoint(
    tree: FetchedTree, trust: Trust, archives: Archives, unproven: Unproven, full: bool, run_id: str, evidence: bytes
) -> Outcome:
    """Compare the evidence of a run with its checkpoint. ``unproven`` gets what is not proven.

    Raises `RefutedError` if the checkpoint contradicts it, `ArchiveError` if archives cannot be read, and
    `NotProvableError` if there is no checkpoint yet.
    """
    proof = tree.proof_files.get(run_id)
    if proof is None:
        proof = make_proof(archives, ledger_of(run_id), trust)[1]
    try:
        outcome = hold_against(proof, evidence, trust, archives, full=full)
    except RefutedError as error:
        raise RefutedError(f"run {run_id}: {error}") from None
    unproven.update(outcome.unproven)
    for claim in tree.proofs:
        if claim.run_id == run_id:
            own_proof = proof_of(run_id, claim.evidence_key, proof, outcome, trust, utc_now)
            unproven.add(UnprovenReason.STATEMENTS, check_proof_claims(claim, own_proof))
    return outcome


def _liquidations(tree: FetchedTree) -> Iterator[str]:
    """The table of liquidations as unproven, because no entry proves the events that it has.

    Raises `RefutedError` if the table is malformed.
    """
    if (file := tree.history_manifest.liquidations) is not None:
        if (fault := table_fault(tree.liquidations, file)) is not None:
            raise RefutedError(f"{file.key} {fault}")
        yield f"{file.key} ({file.rows} rows, which come from events that nothing here proves)"


def _transitions(tree: FetchedTree) -> Iterator[str]:
    """The counts of transitions in the history's manifest, which nothing proves."""
    for item in tree.history_manifest.transitions:
        yield f"{HISTORY_MANIFEST_KEY}: transitions of {item.protocol}"


def other_verifiers(companions: Mapping[str, bytes], network: str, trust: Path | None) -> Iterator[str]:
    """The tree's verifier and its list of organisations, if they are not the ones that are in use here."""
    for key, own in {VERIFIER.only_key: verifier_file(), TRUST.only_key: trust_file(network, trust)[0]}.items():
        if key in companions and companions[key] != own:
            digests = [sha256(data).hexdigest() for data in (companions[key], own)]
            yield f"{key} has the SHA-256 {digests[0]}, and the one in use here {digests[1]}"
