"""Verifying a published tree without trusting whoever published it.

docs/proofs.md, "What is proven of a published run", has the steps. What does not follow from them is named.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
import polars as pl

from exporter.audit.census import READ_OF_A_RUN, Complete, check_complete, run_read
from exporter.audit.derived_risk import is_unshown_risk, judge_risk
from exporter.audit.history_files import refuse_other_version, rows_by_ledger, written_alike
from exporter.audit.leftovers import Past, judge_leftovers
from exporter.audit.prove import Outcome, claims_of, hold_against, proof_of
from exporter.audit.published_tree import check_files
from exporter.audit.publisher_records import judge_records
from exporter.audit.rerender import EarlierRun, FetchedTree, Rerendered, fetch, files_of_run, other_version, rerender
from exporter.audit.statements import statements_of
from exporter.audit.unproven import MAX_NAME, MAX_NAMED_REASONS, Reason, Unproven
from exporter.console import Console
from exporter.deployments.listing import MarketListings
from exporter.deployments.networks import network_of
from exporter.errors import (
    CheckError,
    ConfigError,
    ExporterError,
    RefutedError,
    SourceError,
    lasting,
    pluralize,
    printable,
)
from exporter.history.export import rows_of
from exporter.history.liquidations import fault_of
from exporter.history.manifest import file_ledgers
from exporter.history.parquet import render_history
from exporter.history.rollups import holds
from exporter.job.evidence import Evidence
from exporter.job.inputs import inputs_named
from exporter.job.reading import read_again
from exporter.past.archive.archive_places import Archives, Deadline
from exporter.past.archive.checkpoint_proof import make_proof, unlisted_notice, unlisted_validators
from exporter.past.archive.stellar_proof import Trust
from exporter.past.archive.trusted_organisations import signed_by, trust_file, trust_of
from exporter.protocols.compute import Tables
from exporter.render.changes import WatchedFile, watched_values
from exporter.render.lists import render_assets
from exporter.stores.store import Clock, utc_now
from exporter.tree.decoding import decode_json
from exporter.tree.documents import EXPORTER_VERSION, Census, HistoryFile, Proof, timestamp
from exporter.tree.families import (
    CENSUS,
    CHANGES,
    CHANGES_TABLE,
    HISTORY_MANIFEST_KEY,
    HISTORY_PREFIX,
    PROOFS,
    RISK,
    RISK_TABLE,
    RUN,
    RUN_FILES,
    STATUS_KEY,
    TRUST,
    VERIFIER,
)
from exporter.tree.run_listing import ledger_of
from exporter.tree.values import SkipReason
from exporter.tree.verifier import verifier_file

_DOCUMENTS = {
    *(STATUS_KEY, HISTORY_MANIFEST_KEY, PROOFS.template, CENSUS.template, VERIFIER.template, TRUST.template),
}
"""The keys of documents that are judged by themselves."""

EARLIER_RUNS = 5
"""How many of the newest earlier runs are repeated, unless the caller says how many."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The state of a tree that is verified; times in unix seconds.

    ``signed`` counts organisations. ``earlier_runs`` follow from their evidence: ``covered_history_rows`` of the
    ``history_rows`` that there are before the run. ``statements`` are what only the publisher can say, and ``waiting``
    counts files of earlier runs that the sweep will remove. ``complete`` is None where that was not asked for.
    """

    run_id: str
    ledger: int
    close_time: int
    age_seconds: int
    checkpoint: int
    signed_ledger: int
    signed: int
    entries: int
    confirmed: int
    files: int
    repeated: int
    earlier_runs: list[str]
    history_rows: int
    covered_history_rows: int
    trust: Trust
    unproven: Unproven
    statements: list[str]
    waiting: int
    complete: Complete | None = None

    def lines(self) -> list[str]:
        trust, days = self.trust, (datetime.now(UTC).date() - self.trust.date).days
        closed = f"closed at {timestamp(self.close_time)}, {lasting(self.age_seconds)} ago"
        return [
            f"run {self.run_id}: ledger {self.ledger} {closed}",
            f"{self.signed} of {len(trust.organisations)} organisations signed ledger {self.signed_ledger}, where "
            f"{trust.needed} must; it proves checkpoint {self.checkpoint}",
            f"{self.confirmed} of {self.entries} entries of ledger {self.ledger} are proven",
            f"{self.repeated} of {self.files} files follow from the run's evidence and the history, byte for byte",
            f"{self.covered_history_rows} of {self.history_rows} earlier rows of the history follow from the evidence "
            f"of {pluralize(len(self.earlier_runs), 'run')}",
            *([] if self.complete is None else [self.complete.line()]),
            f"stated by the publisher, who alone can know: {'; '.join(self._stated())}",
            f"trusted: {', '.join(trust.organisations)} (a list of {trust.date}, {days} days old: {trust.source})",
        ]

    def _stated(self) -> list[str]:
        shown = [printable(text)[:MAX_NAME] for text in self.statements[:MAX_NAMED_REASONS]]
        more = len(self.statements) - MAX_NAMED_REASONS
        return [*shown, f"and {more} more"] if more > 0 else shown

    def as_dict(self) -> dict[str, object]:
        apart = ("close_time", "signed_ledger", "trust", "unproven", "complete")
        return {name: getattr(self, name) for name in self.__slots__ if name not in apart} | {
            "ledger_close_time": timestamp(self.close_time),
            "trusted": len(self.trust.organisations),
            "needed": self.trust.needed,
            "markets": None if self.complete is None else self.complete.markets,
        }


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
    """Verify the published tree at a URI. Raises `RefutedError`, `SourceError`, `ConfigError`.

    Buckets come from ``archives``, or those of the trusted organisations; ``trust`` is their list, None for the known
    ones. ``full`` looks every entry up in all buckets, ``complete`` compares the markets with all contracts of the
    checkpoint. Reading archives ends after ``deadline`` seconds; what an earlier run lacks by then is not covered.
    """
    with tempfile.TemporaryDirectory() as folder:
        verification = _Verification(uri, console, Path(folder), complete=complete, full=full)
        verification.repeat(verification.checked(), earlier)
        verification.prove(archives, trust, deadline)
        verification.compare_all_contracts()
        verification.judge_risk()
        verification.judge_the_rest()
        return verification.result(now)


class _Verification:
    """The steps of verifying a tree, in their order. Each adds what it cannot prove to ``unproven``.

    Attributes:
        tree: the fetched tree, from `repeat` on.
        made: how the run's files compare with what its inputs give, from `repeat` on.
        repeated: the earlier runs that follow from their evidence, from `repeat` on.
        evidence: the run's evidence, decoded, from `repeat` on.
        trusted: the trusted organisations, from `prove` on.
        archives: the opened archives, from `prove` on.
        outcome: what the comparison with the checkpoint gave, from `prove` on.
        all_contracts: the comparison with all contracts of the checkpoint; None if nobody asked for it.
        statements: what only the publisher can say.
        rows: the rows of the history before the run, from `judge_the_rest` on; ``rows_left`` of them follow from no
            evidence.
        waiting: how many files of earlier runs the sweep will remove, from `judge_the_rest` on.
    """

    tree: FetchedTree
    made: Rerendered
    repeated: RepeatedRuns
    evidence: Evidence
    trusted: Trust
    archives: Archives
    outcome: Outcome
    rows: int
    rows_left: int
    waiting: int

    def __init__(self, uri: str, console: Console, folder: Path, *, complete: bool, full: bool) -> None:
        self._uri, self._console, self._folder = uri, console, folder
        self._complete, self._full = complete, full
        self.unproven = Unproven()
        self.all_contracts: Complete | None = None
        self.statements: list[str] = []

    def checked(self) -> str:
        """Check the tree's files; gives the id of the published run. Raises `RefutedError`, `ConfigError`."""
        with self._console.step("check", "checking the tree") as facts, refuting():
            summary = check_files(self._uri)
            facts.update(files=sum(summary.files.values()))
        if (why := other_version(summary)) is not None:
            raise ConfigError(
                f"{self._uri}: {why}, so its files cannot be compared; verify it with that version of the exporter"
            )
        return summary.run_id

    def repeat(self, run_id: str, earlier: int) -> None:
        """Repeat the run with this id and at most ``earlier`` earlier ones from their evidence.

        Raises `RefutedError` if a file differs, and `SourceError` if another run was published meanwhile.
        """
        with self._console.step("repeat", "repeating runs from their evidence") as facts, refuting():
            self.tree = tree = asyncio.run(fetch(self._uri, self._folder, earlier))
            if tree.status.run_id != run_id:
                raise SourceError(f"run {tree.status.run_id} was published after {run_id} was checked; verify again")
            claims_of(tree.evidence)  # it is within bounds, before anything else reads it
            self.repeated = repeat_earlier(tree)
            self.made = rerender(tree)
            for key, why in self.made.different.items():
                raise CheckError(f"{key} {why}")
            self.unproven.update(judge_inputs(tree, self.repeated))
            for key, (lost, why) in self.made.dependent.items():
                self.unproven.add(Reason.CHANGES if lost == "watched" else Reason.HISTORY, [f"{key} ({why})"])
            self.unproven.add(Reason.LIBRARIES, [*self.made.recoded, *self.repeated.recoded])
            self.evidence = Evidence.decode(tree.evidence, tree.status.evidence_key)
            self.statements += statements_of(tree, self.evidence)
            self.unproven.add(Reason.STATEMENTS, _transitions(tree))
            self.unproven.add(Reason.STATEMENTS, evidence_words(self.evidence))
            facts.update(files=self.made.same, earlier_runs=len(self.repeated.covered))

    def prove(self, archives: Sequence[str], trust: Path | None, deadline: float) -> None:
        """Compare the evidence with the network's checkpoints, which validators signed.

        An earlier run whose archives cannot be read is left out. Raises `RefutedError`, `SourceError`, `ConfigError`.
        """
        tree, covered = self.tree, self.repeated.covered
        network = tree.status.network
        self.trusted = trust_of(network, trust)
        self.unproven.add(Reason.STATEMENTS, checker_words(tree.records, network, trust))
        with self._console.step("prove", "comparing the evidence with the network's checkpoint") as facts:
            buckets = self._folder / "buckets"
            places = archives or self.trusted.archives
            self.archives = Archives.open(places, buckets, Deadline(deadline, "--deadline"))
            hold = partial(_hold, tree, self.trusted, self.archives, self.unproven, self._full)
            self.outcome = hold(tree.status.run_id, tree.evidence)
            for run in tree.earlier:
                if run.ledger in covered:
                    try:
                        hold(run.run_id, run.evidence)
                    except SourceError as error:
                        del covered[run.ledger]
                        tree.left_out[run.run_id] = str(error)
            held = {tree.status.run_id, *covered.values()}
            others = (proof.run_id for proof in tree.proofs if proof.run_id not in held)
            self.unproven.add(Reason.EARLIER, (f"{PROOFS.template}: the proof of run {run_id}" for run_id in others))
            self.unproven.add(Reason.STATEMENTS, notice_words(self.evidence, self.archives, self.trusted))
            facts.update(checkpoint=self.outcome.proven.ledger, confirmed=self.outcome.confirmed)

    def compare_all_contracts(self) -> None:
        """Compare the markets with all contracts of the checkpoint, if that was asked for."""
        tree = self.tree
        if self._complete:
            with self._console.step("complete", "checking all contracts of the checkpoint") as facts:
                read = run_read(asyncio.run(files_of_run(tree, READ_OF_A_RUN)), self._uri)
                proven, folder = self.outcome.proven, self._folder / "state"
                network = tree.status.network
                self.all_contracts = check_complete(self.archives, proven, folder, network, read, self.unproven)
                facts.update(markets=self.all_contracts.markets)
        census = tree.records.get(CENSUS.template)
        if census is not None and not _is_census_of(census, self.all_contracts):
            self.unproven.add(Reason.STATEMENTS, [CENSUS.template])

    def judge_risk(self) -> None:
        """Judge the risk that the run shows, and name risk documents that it does not show."""
        tree = self.tree
        if tree.risk is not None:
            with self._console.step("risk", "judging the risk that the run shows"):
                judged = judge_risk(
                    tree, self.evidence, self.archives, self.trusted, self._folder, complete=self._complete
                )
                self.unproven.add(Reason.STATEMENTS, judged)
        unshown = (key for key in sorted(tree.keys or ()) if is_unshown_risk(key, tree.status))
        self.unproven.add(Reason.STATEMENTS, unshown)

    def judge_the_rest(self) -> None:
        """Name what no earlier step covers: earlier rows of the history, other files, the publisher's records."""
        tree, unproven = self.tree, self.unproven
        left = dict(uncovered(tree, self.repeated.covered))
        self.rows = sum(count for _, count in uncovered(tree, ()))
        self.rows_left = sum(left.values())
        unproven.add(Reason.HISTORY, (f"{key} ({rows} rows)" for key, rows in left.items()))
        unproven.add(Reason.HISTORY, _liquidations(tree))
        unproven.add(Reason.EARLIER, (f"run {run_id}: {why}" for run_id, why in tree.left_out.items()))
        self.waiting = _judge_rest(tree, self.made, self.repeated, self.trusted, unproven)
        own = next((file.key for file in tree.files.under(HISTORY_PREFIX) if file_ledgers(file.key) is not None), "")
        newest = max((file.last_ledger for file in tree.history.files), default=0)
        for record, name in judge_records(tree.publisher_records, tree.status, self.made.state, own, newest):
            if record is None:
                self.statements.append(name)
            else:
                unproven.add(record, [name])

    def result(self, now: Clock) -> Verified:
        """The state of the tree after all steps."""
        tree, proven = self.tree, self.outcome.proven
        close_time = proven.closed[tree.status.observed_ledger]
        return Verified(
            run_id=tree.status.run_id,
            ledger=tree.status.observed_ledger,
            close_time=close_time,
            age_seconds=max(int(now().timestamp()) - close_time, 0),
            checkpoint=proven.ledger,
            signed_ledger=proven.signed_ledger,
            signed=signed_by(proven, self.trusted),
            entries=self.outcome.entries,
            confirmed=self.outcome.confirmed,
            files=len(tree.files),
            repeated=self.made.same,
            earlier_runs=list(self.repeated.covered.values()),
            history_rows=self.rows,
            covered_history_rows=self.rows - self.rows_left,
            trust=self.trusted,
            unproven=self.unproven,
            statements=self.statements,
            waiting=self.waiting,
            complete=self.all_contracts,
        )


@contextmanager
def refuting() -> Iterator[None]:
    """A fault of the tree refutes it."""
    try:
        yield
    except CheckError as error:
        raise RefutedError(str(error)) from None


def refuse_old(verified: Verified, max_age: int | None) -> None:
    """Raise `SourceError` where the ledger of what was verified closed more than this many seconds ago."""
    if max_age is not None and verified.age_seconds > max_age:
        raise SourceError(
            f"ledger {verified.ledger} closed {lasting(verified.age_seconds)} ago, and --max-age is "
            f"{lasting(max_age)}; verify a newer run"
        )


def _is_census_of(data: bytes, found: Complete | None) -> bool:
    """Whether a tree's census is the one of the run and its checkpoint. Raises `RefutedError` for a wrong one."""
    if found is None:
        return False
    try:
        theirs = decode_json(data, Census)
    except msgspec.DecodeError as error:
        raise RefutedError(f"{CENSUS.template} cannot be understood: {error}") from None
    if (theirs.run_id, theirs.checkpoint) != (found.census.run_id, found.census.checkpoint):
        return False
    if theirs != found.census:
        raise RefutedError(f"{CENSUS.template} is not what the checkpoint and the run give")
    return True


def _hold(
    tree: FetchedTree, trust: Trust, archives: Archives, unproven: Unproven, full: bool, run_id: str, evidence: bytes
) -> Outcome:
    """Hold the evidence of a run against its checkpoint. Raises `RefutedError`, `ArchiveError`, `NotProvableError`."""
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
            found = proof_of(run_id, claim.evidence_key, proof, outcome, trust, utc_now)
            unproven.add(Reason.STATEMENTS, check_proof_claims(claim, found))
    return outcome


@dataclass(slots=True)
class RepeatedRuns:
    """Earlier runs that were repeated from their evidence.

    Attributes:
        covered: those whose rows the history has, by ledger.
        pages: the pages that each gives, by run.
        watched: the values by which the run after each finds changes, by run.
        alike: by the key of a file of the history whether it has the bytes that this machine's libraries give.
    """

    covered: dict[int, str] = field(default_factory=dict)
    pages: dict[str, Collection[str]] = field(default_factory=dict)
    watched: dict[str, WatchedFile] = field(default_factory=dict)
    alike: dict[str, bool] = field(default_factory=dict)

    @property
    def recoded(self) -> list[str]:
        return [key for key, alike in self.alike.items() if not alike]


def repeat_earlier(tree: FetchedTree) -> RepeatedRuns:
    """Repeat runs. Raises `RefutedError`, and `CheckError` where a file of the history is not what its rows give."""
    repeated = RepeatedRuns()
    for run in tree.earlier:
        try:
            tables, made = _repeat_rows(run)
            file, data = _file_of(tree, run.ledger)
            refuse_other_version(data)
        except ExporterError as error:
            tree.left_out[run.run_id] = str(error)
            continue
        if file.key not in repeated.alike:
            repeated.alike[file.key] = written_alike(data, file, tree.status.network)
        published = rows_of(data, file).filter(pl.col("observed_ledger") == run.ledger).sort("market", "pool")
        if not published.equals(made):
            raise RefutedError(
                f"{file.key}: the rows of ledger {run.ledger} do not follow from the evidence of {run.run_id}"
            )
        repeated.covered[run.ledger] = run.run_id
        repeated.watched[run.run_id] = watched = WatchedFile.of(watched_values(tables))
        sizes, default = run.settings.page_sizes, run.settings.default_page_size
        pages = render_assets(tables.pools, tables.markets, sizes, default, tables.ledger)
        repeated.pages[run.run_id] = frozenset((watched.file.key, *(page.key for page in pages)))
    return repeated


def judge_inputs(tree: FetchedTree, repeated: RepeatedRuns) -> Unproven:
    """What nobody vouches for of the watched values and of the history that the run went on from.

    Raises `RefutedError` if the run before watched other values than those that the run was compared with.
    """
    unproven, status = Unproven(), tree.status
    previous = None if status.previous_run_id is None else repeated.watched.get(status.previous_run_id)
    named = inputs_named(tree.manifest.inputs, "watched")
    since = f"{CHANGES.template}: those since the run before"
    if not named:
        if status.previous_run_id is not None or tree.changes.data or tree.history.now:
            unproven.add(Reason.CHANGES, [f"{since}, with which the run was not compared"])
    elif previous is None:
        unproven.add(Reason.CHANGES, [f"{since}, which was not repeated"])
    elif previous.file.key != named[0].key:
        if tree.watched is not None and tree.watched.values.exporter_version == EXPORTER_VERSION:
            raise RefutedError(
                f"{named[0].key}: the run was compared with these values, and the evidence of the run before, "
                f"{status.previous_run_id}, gives others"
            )
        unproven.add(Reason.CHANGES, [f"{since}, of which another version made the values"])
    earlier = (item for item in tree.changes.data if item.observed_ledger < status.observed_ledger)
    unproven.add(Reason.CHANGES, (f"{item.title} (ledger {item.observed_ledger})" for item in earlier))
    if tree.earlier_rows.num_rows:
        rows = pluralize(tree.earlier_rows.num_rows, "change")
        unproven.add(Reason.CHANGES, [f"{CHANGES_TABLE.template}: {rows} that earlier runs found"])
    unproven.add(Reason.HISTORY, (f"{key} ({why})" for key, why in tree.history.gone.items()))
    unproven.add(
        Reason.HISTORY, (f"{key} ({rows} rows that the run lacks)" for key, rows in tree.history.later.items())
    )
    held = [(file.first_ledger, file.last_ledger) for file in tree.history.now]
    lost = (
        file.key
        for file in tree.history.files
        if not any(first <= file.first_ledger and file.last_ledger <= last for first, last in held)
    )
    unproven.add(Reason.HISTORY, (f"{key} (the run went on from it, and the history lacks it)" for key in lost))
    return unproven


def _repeat_rows(run: EarlierRun) -> tuple[Tables, pl.DataFrame]:
    """The tables of an earlier run, and its rows as the history has them. Raises `ExporterError`."""
    claims_of(run.evidence)  # it is within bounds
    evidence = Evidence.decode(run.evidence, run.evidence_key)
    if evidence.ledger != run.ledger:
        raise SourceError(f"its evidence is of ledger {evidence.ledger}")
    tables = read_again(evidence)[0].tables()
    part = render_history(
        tables.pools,
        observed_ledger=tables.ledger,
        ledger_close_time=tables.close_time,
        network=evidence.passphrase,
    )
    return tables, rows_of(part.file.data, part.entry).sort("market", "pool")


def _file_of(tree: FetchedTree, ledger: int) -> tuple[HistoryFile, bytes]:
    """The file of the history that has a ledger now. Raises `SourceError`."""
    file = next((file for file in tree.history.now if file.first_ledger <= ledger <= file.last_ledger), None)
    if file is None:
        raise SourceError("the history has no rows of its ledger")
    return file, (tree.folder / file.key).read_bytes()


def uncovered(tree: FetchedTree, covered: Collection[int]) -> Iterator[tuple[str, int]]:
    """The files of the history with rows of earlier ledgers that are not covered, and how many."""
    for file in tree.history.now:
        counts = rows_by_ledger((tree.folder / file.key).read_bytes())
        earlier = {ledger: count for ledger, count in counts.items() if ledger < tree.status.observed_ledger}
        rows = sum(count for ledger, count in earlier.items() if ledger not in covered)
        if rows:
            yield file.key, rows


def _liquidations(tree: FetchedTree) -> Iterator[str]:
    """The table of auctions and bad debt: no entry proves what its events say. Raises `RefutedError`."""
    if (file := tree.history_manifest.liquidations) is not None:
        if (fault := fault_of(tree.liquidations, file)) is not None:
            raise RefutedError(f"{file.key} {fault}")
        yield f"{file.key} ({file.rows} rows, which come from events that nothing here proves)"


def _transitions(tree: FetchedTree) -> Iterator[str]:
    for item in tree.history_manifest.transitions:
        yield f"{HISTORY_MANIFEST_KEY}: transitions of {item.protocol}"


def notice_words(evidence: Evidence, archives: Archives, trust: Trust) -> Iterator[str]:
    """The notices of the run that do not follow from what the archives have.

    A run from an archive says how many validators its list of trust lacks. That follows where these archives show as
    many to the same list: each archive has what its own node saw.
    """
    if evidence.notices:
        seen = unlisted_validators(archives, evidence.ledger, trust)
        shown = {unlisted_notice(count, trust.date) for count in range(1, seen + 1)}
        yield from (f"notice: {notice}" for notice in evidence.notices if notice not in shown)


def evidence_words(evidence: Evidence) -> Iterator[str]:
    """The parts of evidence, but for notices, that are not an entry and follow from none. Raises `RefutedError`."""
    network = network_of(evidence.passphrase)
    if evidence.contracts:
        found = {
            (reading.protocol, label, role, address)
            for reading in read_again(evidence)[0].protocols
            for (label, role), address in reading.contracts.items()
        }
        for item in evidence.contracts:
            if (item.protocol, item.label, item.role, item.address) not in found:
                yield f"contract: {item.role} {item.address} of {item.protocol} {item.label} follows from no entry"
    if not evidence.has_all_contracts:
        yield "looked: the run read a part of the ledger's contracts"
    yield from _skipped_words(evidence, evidence.listings(network.deployments))
    if evidence.lists_compared != bool(network.deployments):
        denied = "" if evidence.lists_compared else "not "
        yield f"looked: the run says that it did {denied}compare the lists of known contracts"
    if not evidence.lists_compared:
        return
    tried = {(candidate.protocol, candidate.address) for candidate in evidence.candidates}
    for deployment in network.deployments:
        for address in deployment.markets:
            if (deployment.protocol, address) not in tried:
                yield f"candidate: {address} of {deployment.protocol}, a known market, was not looked for"


def _skipped_words(evidence: Evidence, listings: MarketListings) -> Iterator[str]:
    """The listed markets that the operator excludes. Raises `RefutedError` for any other listed one that was skipped.

    A run always reads what is listed, whatever its budget, and excludes only what its configuration names.
    """
    for skipped in evidence.skipped:
        what = f"{skipped.market} of {skipped.protocol}"
        excluded = skipped.market in evidence.excluded
        if (skipped.reason is SkipReason.EXCLUDED) is not excluded:
            said = "names it" if excluded else "does not name it"
            raise RefutedError(
                f"the evidence says that {what} was skipped ({skipped.reason}), and its list of what is excluded {said}"
            )
        if listings.is_listed(skipped.protocol, skipped.market):
            if not excluded:
                raise RefutedError(
                    f"the evidence says that {what} was skipped ({skipped.reason}), and a run reads every listed market"
                )
            yield f"skipped: {what}, a listed market, was not read ({skipped.reason})"


def check_proof_claims(claimed: Proof, found: Proof) -> Iterator[str]:
    """Compare a published proof with what was found; gives what was not looked up. Raises `RefutedError`."""
    where = f"{PROOFS.template}: run {claimed.run_id}"
    for name in (
        "entries",
        "calls",
        "checkpoint",
        *("organisations_signed", "organisations_trusted", "organisations_needed"),
    ):
        if (claim := getattr(claimed, name)) != (expected := getattr(found, name)):
            raise RefutedError(f"{where}: expected {name} {expected} but found {claim}")
    most = found.confirmed + found.not_looked_up
    confirmed = f"{where}: {claimed.confirmed} confirmed entries"
    if claimed.confirmed > most:
        raise RefutedError(f"{confirmed} are claimed of {claimed.entries}, and at most {most} can be")
    deeper = claimed.not_looked_up - found.not_looked_up  # what a lookup of more buckets finds, it adds to these
    for name in ("changed_since", "confirmed", "short_lived", "absent"):
        less = getattr(found, name) - getattr(claimed, name)
        if less * deeper < 0 or (less != 0 and deeper == 0) or (name == "changed_since" and less):
            raise RefutedError(f"{where}: expected {name} {getattr(found, name)} but found {getattr(claimed, name)}")
    if claimed.confirmed > found.confirmed:
        yield f"{confirmed}, of which {found.confirmed} were looked up here; --full looks up all"


def checker_words(found: Mapping[str, bytes], network: str, trust: Path | None) -> Iterator[str]:
    """The tree's verifier and list of organisations, where they are not those that are in use here."""
    for key, own in {VERIFIER.template: verifier_file(), TRUST.template: trust_file(network, trust)[0]}.items():
        if key in found and found[key] != own:
            digests = [sha256(data).hexdigest() for data in (found[key], own)]
            yield f"{key} has the SHA-256 {digests[0]}, and the one in use here {digests[1]}"


def _judge_rest(tree: FetchedTree, made: Rerendered, repeated: RepeatedRuns, trust: Trust, unproven: Unproven) -> int:
    """Name the files that no run lists; gives how many wait for the sweep."""
    if tree.keys is None:
        unproven.add(Reason.UNLISTED, ["whatever else is there: this tree cannot be listed"])
    unproven.add(Reason.UNLISTED, tree.strangers)
    rest = sorted(set(tree.keys or ()) - _known(tree, made))
    past = Past(tree.uri, tree.status.network, repeated.pages, tree.history_manifest.files, trust)
    left = judge_leftovers(past, rest)
    for reason, key in left.named:
        unproven.add(reason, [key])
    return left.waiting


def _known(tree: FetchedTree, made: Rerendered) -> set[str]:
    """The keys of all files that are compared, judged by themselves, or left out with a reason of their own."""
    history = tree.history_manifest
    known = {file.key for file in tree.files} | _DOCUMENTS | tree.publisher_records.keys() | made.bucket_pages
    known |= {family.key(run_id=tree.status.run_id) for family in (RUN, RUN_FILES)}
    known |= {file.key for file in history.files}
    known |= {proof.proof_key for proof in tree.proofs}
    if all(holds(entry, history) for entry in history.rollups):  # then the check has recomputed all of them
        known |= {entry.key for entry in history.rollups}
    if history.liquidations is not None:
        known.add(history.liquidations.key)
    known |= {key for key in tree.keys or () if RISK.pattern.fullmatch(key)} | {RISK_TABLE.template}
    return known
