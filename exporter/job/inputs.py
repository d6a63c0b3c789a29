"""The inputs of a run: everything that the bytes of its files follow from.

`run`, `run --snapshot`, `check` and `verify` render the same inputs; they only take them from different places. The
run's manifest states the settings, and names each input that is a file by its digest (`RunInputs.named`). The run's id
is a hash of the other files and no page names the manifest, so no input depends on its own result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from msgspec import Struct

from exporter.config import Settings
from exporter.history.series import Series
from exporter.protocols.compute import Tables
from exporter.render.watched_values import WatchedFile
from exporter.tree.documents import HistoryFile, InputName, RunChange, RunInput, RunSettings
from exporter.tree.files import RenderedFile


class RunInputs(Struct, frozen=True):
    """The inputs of a run.

    Attributes:
        settings: the settings that change bytes. The other settings say where a run reads and writes, and how long it
            waits.
        evidence: the file of everything that the numbers come from.
        tables: the numbers, which follow from the evidence, and the risk document that is shown next to them.
        history: the history's files from before the run, oldest first.
        series: the histories that follow from these files. Rendering extends them, so they serve for one run only.
        watched: the values that the previous run watched. A change is a difference from them. None if this run is not
            compared with another.
        earlier_changes: the changes that earlier runs found, newest first. The list of changes repeats them. No other
            file has them, so they are the publisher's word.
        earlier_rows: the rows that earlier runs wrote into the table of all changes; the publisher's word, too.
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
        """The inputs that are files, as the manifest names them."""
        inputs = [_run_input("evidence", self.evidence)]
        if self.tables.risk is not None:
            inputs.append(RunInput("risk", self.tables.risk.key, self.tables.risk.sha256))
        if self.watched is not None:
            inputs.append(_run_input("watched", self.watched.file))
        inputs += [RunInput("history", file.key, file.sha256) for file in self.history]
        return inputs


def run_settings(settings: Settings) -> RunSettings:
    """The settings that change the bytes of a run."""
    output = settings.output
    return RunSettings(
        settings.passphrase,
        sorted(output.page_sizes),
        output.default_page_size,
        output.market_pools_cap,
        output.public_url,
    )


def inputs_named(inputs: Iterable[RunInput], name: InputName) -> list[RunInput]:
    """The inputs that have this name, in their order."""
    return [item for item in inputs if item.name == name]


def _run_input(name: InputName, file: RenderedFile) -> RunInput:
    return RunInput(name, file.key, file.sha256)
