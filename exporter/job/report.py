"""The run report: one JSON file that says what a run did, begun as incomplete and finished last.

A report that still says ``"complete": false`` belongs to a run that was killed. It never holds an endpoint's URL.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time, time
from typing import Any

from exporter.console import Console
from exporter.errors import ConfigError, without_keys
from exporter.tree.documents import EXPORTER_VERSION

REPORT_VERSION = 1


class RunReport:
    """A report under way; every change is on disk before the next step begins. ``path`` None keeps it in memory.

    Where it cannot even be begun, that is a `ConfigError`. Later on it must not cost the run, nor hide why that fails:
    ``problem`` then says what is wrong with it.
    """

    def __init__(self, path: Path | None, **facts: Any) -> None:
        self._path = path
        self.problem: str | None = None
        self._began = monotonic()
        self.facts: dict[str, Any] = {
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
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Time a step; what it puts into the given dict is in the report under its name."""
        step: dict[str, Any] = {"step": name, "complete": False}
        self.facts["steps"].append(step)
        self._write()
        began, processor = monotonic(), process_time()
        try:
            yield step
            step["complete"] = True
        finally:
            step["seconds"] = round(monotonic() - began, 3)
            step["processor_seconds"] = round(process_time() - processor, 3)

    def add(self, **facts: Any) -> None:
        self.facts.update(facts)

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return round(monotonic() - self._began, 3)

    def finish(self, exit_code: int, message: str | None = None) -> None:
        """The last word: the exit code, and what went wrong if anything did."""
        self.facts.update(
            complete=True,
            exit_code=exit_code,
            message=None if message is None else without_keys(message),
            finished_at=int(time()),
            seconds=self.seconds,
        )
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(json.dumps(self.facts, indent=2) + "\n", encoding="utf-8")
            temporary.replace(self._path)
        except (OSError, ValueError) as error:  # ValueError: a NUL
            problem = error.strerror if isinstance(error, OSError) else str(error)
            self.problem = f"output.report: cannot write {str(self._path)!r}: {problem}"


class RunLog:
    """What a run says: to people on the console, and to the report. A step and its facts go to both."""

    def __init__(self, console: Console, report: RunReport) -> None:
        self.console, self.report = console, report

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[dict[str, Any]]:
        with self.report.step(name) as reported, self.console.step(name, doing) as facts:
            yield facts
            reported.update(facts)

    def add(self, **facts: Any) -> None:
        """Put facts into the report alone."""
        self.report.add(**facts)

    def event(self, name: str, message: str, **facts: Any) -> None:
        self.console.event(name, message, **facts)

    def warning(self, message: str, **facts: Any) -> None:
        self.console.warning(message, **facts)
