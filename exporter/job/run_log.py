"""The log of a run: lines on the console, and the run report, one JSON file that says what it did.

The report has ``"complete": false`` until the run ends. Then a file with ``.prom`` after the report's name has the
metrics for monitoring systems. A report that goes into a pipe, a device or standard output is written once, at the end,
without such a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time, time
from typing import Any, Unpack

from exporter.console import Console, Silence
from exporter.errors import CheckError, ConfigError, LostRaceError, StoreError, without_keys
from exporter.job.run_metrics import metrics_of, published_times
from exporter.job.run_report import JsonObject, RunReport
from exporter.publishing.published_state import PublishedTimes
from exporter.tree.documents import EXPORTER_VERSION
from exporter.user_files import is_written_into, write_text

REPORT_VERSION = 1


class RunLog:
    """The log of a run: lines on the console, and the report, which is on disk before the next step begins.

    Without a ``path`` the report stays in memory. If the report cannot be written at the beginning, `ConfigError` is
    raised. If it fails later, the run goes on and ``problem`` says what is wrong.
    """

    def __init__(self, path: Path | None, console: Console | None = None, **facts: Unpack[RunReport]) -> None:
        self._path, self.console = path, console or Silence()
        self.problem: str | None = None
        self._began = monotonic()
        self.facts: RunReport = {
            "report_version": REPORT_VERSION,
            "complete": False,
            "exporter_version": EXPORTER_VERSION,
            "started_at": int(time()),
            "steps": [],
            **facts,
        }
        self._write()
        if self.problem is not None:
            raise ConfigError(self.problem)

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[JsonObject]:
        """Time a step. What the step puts into the dict goes to the console and into the report."""
        step: JsonObject = {"step": name, "complete": False}
        self.facts["steps"].append(step)
        self._write()
        began, processor = monotonic(), process_time()
        try:
            with self.console.step(name, doing) as facts:
                yield facts
            step.update(facts, complete=True)
        finally:
            step["seconds"] = round(monotonic() - began, 3)
            step["processor_seconds"] = round(process_time() - processor, 3)

    def add(self, **facts: Unpack[RunReport]) -> None:
        """Put facts into the report."""
        self.facts.update(facts)

    def event(self, name: str, message: str, **facts: Any) -> None:
        """Print a message. In JSON logs it has the event's name and the facts."""
        self.console.event(name, message, **facts)

    def warning(self, message: str, **facts: Any) -> None:
        """Print a warning. In JSON logs it has the facts."""
        self.console.warning(message, **facts)

    @contextmanager
    def optional(self, lost: str) -> Iterator[None]:
        """Run a part that the run can do without. If the output fails it, a warning says what is ``lost``."""
        try:
            yield
        except (StoreError, CheckError, LostRaceError) as error:
            self.warning(f"{lost}: {error}")

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return round(monotonic() - self._began, 3)

    def finish(self, exit_code: int, message: str | None = None) -> None:
        """Complete the report, and write the metrics next to it."""
        self.add(
            complete=True,
            exit_code=exit_code,
            message=None if message is None else without_keys(message),
            finished_at=int(time()),
            seconds=self.seconds,
        )
        self._write()
        if self._path is not None and not is_written_into(self._path):
            metrics = self._path.with_name(f"{self._path.name}.prom")
            earlier = PublishedTimes() if "published_at" in self.facts else published_times(metrics)
            self._replace(metrics, metrics_of({**earlier, **self.facts}))

    def _write(self) -> None:
        # A pipe or a device cannot be replaced, so it gets the report once, at the end.
        if self._path is not None and (self.facts["complete"] or not is_written_into(self._path)):
            self._replace(self._path, json.dumps(self.facts, indent=2) + "\n")

    def _replace(self, path: Path, text: str) -> None:
        try:
            write_text(path, text, "output.report")
        except (ConfigError, BrokenPipeError) as error:
            self.problem = str(error)
