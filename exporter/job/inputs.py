"""Everything that the bytes of a run follow from. A run, a snapshot's run, `check` and `verify` differ in where it is.

The run's manifest names the files among them by their digests (`RunInputs.named`), and the settings. It is no file of
the list that the run's id is made of, and no page names it, so nothing here depends on itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from exporter.config import Settings
from exporter.history.series import Series
from exporter.protocols.compute import Tables
from exporter.render.changes import WatchedFile
from exporter.tree.documents import HistoryFile, InputName, RunChange, RunInput, RunSettings
from exporter.tree.files import RenderedFile


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs of a run.

    Attributes:
        settings: those that change bytes. Others say where a run reads and writes, and how long it waits.
        evidence: the file of everything that the numbers come from.
        tables: the numbers, which follow from the evidence, with the risk document that is shown next to them.
        history: the files of the history before the run, ascending.
        series: the histories that these files give. Rendering carries them on, so they serve for one run only.
        watched: the values of the run before, by which changes are found; None where nothing is compared.
        earlier_changes: the changes that earlier runs found, newest first. The list of changes repeats them; no other
            file has them, so they are the publisher's word.
        earlier_rows: the rows of earlier runs in the table of all changes, likewise.
    """

    settings: RunSettings
    evidence: RenderedFile
    tables: Tables
    history: Sequence[HistoryFile]
    series: Series
    watched: WatchedFile | None
    earlier_changes: Sequence[RunChange]
    earlier_rows: pa.Table

    def named(self) -> list[RunInput]:
        """The files among the inputs, as the manifest names them."""
        shown = self.tables.risk
        risk = [] if shown is None else [RunInput("risk", shown.key, shown.sha256)]
        watched = [] if self.watched is None else [_named("watched", self.watched.file)]
        history = (RunInput("history", file.key, file.sha256) for file in self.history)
        return [_named("evidence", self.evidence), *risk, *watched, *history]


def run_settings(settings: Settings) -> RunSettings:
    """The settings that change the bytes of a run."""
    output = settings.output
    return RunSettings(
        settings.passphrase, sorted(output.page_sizes), output.default_page_size, output.market_pools_cap
    )


def inputs_named(inputs: Iterable[RunInput], name: InputName) -> list[RunInput]:
    """The inputs with a name, in their order."""
    return [item for item in inputs if item.name == name]


def _named(name: InputName, file: RenderedFile) -> RunInput:
    return RunInput(name, file.key, file.sha256)
