"""The metrics of a run for monitoring systems, made of its report; and the times that an earlier run's metrics have."""

from __future__ import annotations

import re
from pathlib import Path

from exporter.job.run_report import RunReport
from exporter.publishing.published_state import PublishedTimes
from exporter.render.site.templates import environment


def published_times(metrics: Path) -> PublishedTimes:
    """The times of the published run, from the metrics file of an earlier run. Empty if that cannot be read.

    A run that fails before it knows what is published repeats them. Without them no monitor would see that readers
    wait for a newer run.
    """
    try:
        text = metrics.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    times = PublishedTimes()
    if (published := re.search(r"^lending_run_published_timestamp_seconds (\d+)$", text, re.M)) is not None:
        times["published_at"] = int(published[1])
    if (expected := re.search(r"^lending_run_next_expected_timestamp_seconds (\d+)$", text, re.M)) is not None:
        times["next_expected_at"] = int(expected[1])
    return times


def metrics_of(facts: RunReport) -> str:
    """The report of a run that ended, in Prometheus' text format. A fact that it does not have gets no line."""
    template = environment().get_template("run_metrics.txt.j2")
    return template.render(facts=facts, proven=facts.get("proven", {}))
