"""What verifying a tree gave: the result for people and for programs."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from exporter.audit.completeness import Complete
from exporter.audit.unproven import MAX_NAME_CHARACTERS, MAX_NAMES, Unproven
from exporter.errors import SourceError, lasting, pluralize, printable
from exporter.past.archive.stellar_proof import Trust
from exporter.tree.documents import timestamp


class Verified(Struct, frozen=True):
    """The result of verifying a tree.

    Attributes:
        run_id: the published run.
        ledger: its ledger.
        close_time: when that ledger closed, in unix seconds.
        age_seconds: how long ago that was.
        checkpoint: the ledger of the checkpoint with which the evidence was compared.
        signed_ledger: the ledger whose value the validators signed, which proves the checkpoint.
        signed: the number of organisations that signed it.
        entries: the number of entries in the evidence.
        confirmed: the number of them that the checkpoint confirms.
        files: the number of files that the run lists.
        repeated: the number of them that rendering the run again gave byte for byte.
        earlier_runs: the ids of earlier runs whose rows in the history follow from their evidence.
        history_rows: the number of rows of earlier ledgers in the history.
        covered_history_rows: the number of them that follow from the evidence of ``earlier_runs``.
        trust: the trusted organisations.
        unproven: what is not proven.
        statements: what only the publisher can know.
        waiting: the number of files of earlier runs that the sweep will remove.
        complete: what comparing with all contracts gave; None if that was not asked for.
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
        """The result in lines for people."""
        trust, days = self.trust, (datetime.now(UTC).date() - self.trust.date).days
        closed = f"closed at {timestamp(self.close_time)}, {lasting(self.age_seconds)} ago"
        return [
            f"run {self.run_id}: ledger {self.ledger} {closed}",
            f"{self.signed} of {len(trust.organisations)} organisations signed ledger {self.signed_ledger}, and "
            f"{trust.needed} must; that proves checkpoint {self.checkpoint}",
            f"{self.confirmed} of {self.entries} entries of ledger {self.ledger} are proven",
            f"{self.repeated} of {self.files} files follow from the run's evidence and the history, byte for byte",
            f"{self.covered_history_rows} of {self.history_rows} earlier rows of the history follow from the evidence "
            f"of {pluralize(len(self.earlier_runs), 'run')}",
            *([] if self.complete is None else [self.complete.line()]),
            f"stated by the publisher, who alone can know: {'; '.join(self._shown_statements())}",
            f"trusted: {', '.join(trust.organisations)} (a list of {trust.date}, {days} days old: {trust.source})",
        ]

    def _shown_statements(self) -> list[str]:
        shown = [printable(text)[:MAX_NAME_CHARACTERS] for text in self.statements[:MAX_NAMES]]
        more = len(self.statements) - MAX_NAMES
        return [*shown, f"and {more} more"] if more > 0 else shown

    def as_dict(self) -> dict[str, object]:
        other_form = ("close_time", "signed_ledger", "trust", "unproven", "complete")
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in other_form} | {
            "ledger_close_time": timestamp(self.close_time),
            "trusted": len(self.trust.organisations),
            "needed": self.trust.needed,
            "markets": None if self.complete is None else self.complete.markets,
        }


def refuse_old(verified: Verified, max_age: int | None) -> None:
    """Raise `SourceError` if the verified ledger closed more than ``max_age`` seconds ago."""
    if max_age is not None and verified.age_seconds > max_age:
        raise SourceError(
            f"ledger {verified.ledger} closed {lasting(verified.age_seconds)} ago, and --max-age is "
            f"{lasting(max_age)}; verify a newer run"
        )
