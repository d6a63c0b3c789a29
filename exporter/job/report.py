"""The run report: one JSON file that says what a run did, begun as incomplete and finished last.

A report that still says ``"complete": false`` belongs to a run that was killed. It never holds an endpoint's URL.
Next to the report of a run that ended, ``.prom`` after its name, is what monitoring systems want of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time, time
from typing import Any

from exporter.console import Console, Silence
from exporter.errors import ConfigError, without_keys
from exporter.tree.documents import EXPORTER_VERSION

REPORT_VERSION = 1


class RunLog:
    """The log of a run: to people on the console, and to the report, which is on disk before the next step begins.

    ``path`` None keeps the report in memory. Where it cannot even be begun, that is a `ConfigError`. Later on it must
    not cost the run, nor hide why that fails: ``problem`` then says what is wrong with it.
    """

    def __init__(self, path: Path | None, console: Console | None = None, **facts: Any) -> None:
        self._path, self.console = path, console or Silence()
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
    def step(self, name: str, doing: str) -> Iterator[dict[str, Any]]:
        """Time a step; what it puts into the given dict is on the console, and in the report under its name."""
        step: dict[str, Any] = {"step": name, "complete": False}
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

    def add(self, **facts: Any) -> None:
        """Put facts into the report alone."""
        self.facts.update(facts)

    def event(self, name: str, message: str, **facts: Any) -> None:
        self.console.event(name, message, **facts)

    def warning(self, message: str, **facts: Any) -> None:
        self.console.warning(message, **facts)

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
        if self._path is not None:
            self._replace(self._path.with_name(f"{self._path.name}.prom"), metrics_of(self.facts))

    def _write(self) -> None:
        if self._path is not None:
            self._replace(self._path, json.dumps(self.facts, indent=2) + "\n")

    def _replace(self, path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except (OSError, ValueError) as error:  # ValueError: a NUL
            problem = error.strerror if isinstance(error, OSError) else str(error)
            self.problem = f"output.report: cannot write {str(path)!r}: {problem}"


def metrics_of(facts: Mapping[str, Any]) -> str:
    """The report of a run that ended, in Prometheus' text format; what it does not have has no line."""
    proven: Mapping[str, int] = facts.get("proven", {})
    of_run = {
        "run_exit_code": ("How the run ended (docs/failures.md).", facts["exit_code"]),
        "run_finished_timestamp_seconds": ("When it ended.", facts["finished_at"]),
        "run_published_timestamp_seconds": ("When it was published.", facts.get("published_at")),
        "run_next_expected_timestamp_seconds": ("When the next is expected.", facts.get("next_expected_at")),
        "run_retries": ("Requests to the RPC that repeat one that failed.", facts.get("reading", {}).get("retries")),
        "proven_ledger": ("The ledger of the newest proven run.", proven.get("ledger")),
        "proven_ratio": (
            "Share of its entries that a signed checkpoint confirms.",
            round(proven["confirmed"] / proven["entries"], 4) if proven.get("entries") else None,
        ),
    }
    steps = [step for step in facts["steps"] if step["complete"]]
    lines = [
        f"{_head(name, said)}lending_{name} {value}" for name, (said, value) in of_run.items() if value is not None
    ]
    lines += [_head("run_step_seconds", "How long each step took.").rstrip()] if steps else []
    lines += [f'lending_run_step_seconds{{step="{step["step"]}"}} {step["seconds"]}' for step in steps]
    return "\n".join((*lines, ""))


def _head(name: str, text: str) -> str:
    return f"# HELP lending_{name} {text}\n# TYPE lending_{name} gauge\n"
