"""templates/monitoring: rules and a dashboard over the metrics that a run really has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter.job.report import metrics_of
from exporter.render.run_documents import render_metrics
from tests.render.test_changes import pool, tables

FOLDER = Path(__file__).parents[2] / "templates" / "monitoring"


FACTS = {
    "exit_code": 7,
    "finished_at": 30,
    "published_at": 20,
    "next_expected_at": 1820,
    "reading": {"retries": 1},
    "proven": {"ledger": 5, "entries": 8, "confirmed": 6},
    "steps": [
        {"step": "read", "complete": True, "seconds": 2.5},
        {"step": "publish", "complete": True, "seconds": 3.0},
        {"step": "sweep", "complete": False, "seconds": 9.0},
    ],
}
RUN = metrics_of(FACTS)


def promtool(*arguments: str, given: bytes = b"") -> None:
    """Run Prometheus' own tool; skip where it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    ran = subprocess.run([program, *arguments], cwd=FOLDER, input=given, capture_output=True, timeout=60, check=False)
    assert 0 == ran.returncode, (ran.stdout + ran.stderr).decode()


def test_every_metric_exists() -> None:
    """What alert rules and the dashboard ask for are names in a run's metrics."""
    asked = re.findall(r"lending_\w+", (FOLDER / "alerts.yml").read_text())
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        asked += re.findall(r"lending_\w+", panel["targets"][0]["expr"])
    text = render_metrics(tables(7, [pool(price_timestamp=5, price_reason="valid")])).data.decode() + RUN

    assert set() == set(asked) - set(re.findall(r"^# TYPE (\w+) gauge$", text, re.MULTILINE))


def test_the_oldest_price_is_that_of_a_valid_one() -> None:
    """Prices that a market does not accept do not count; without a valid one there is no line."""
    rows = [
        pool("CA", price_timestamp=90, price_reason="valid"),
        pool("CB", price_timestamp=80, price_reason="valid"),
        pool("CC", price_timestamp=1, price_reason="stale"),
    ]

    assert "lending_run_oldest_price_timestamp_seconds 80\n" in render_metrics(tables(7, rows)).data.decode()
    assert "oldest_price" not in render_metrics(tables(7, rows[2:])).data.decode()


def test_a_run_says_how_it_went() -> None:
    """How it ended, when it was published, its retries, steps and the newest proof; of a failed run what there is."""
    assert {
        "lending_run_exit_code 7",
        "lending_run_finished_timestamp_seconds 30",
        "lending_run_published_timestamp_seconds 20",
        "lending_run_next_expected_timestamp_seconds 1820",
        "lending_run_retries 1",
        "lending_proven_ledger 5",
        "lending_proven_ratio 0.75",
        'lending_run_step_seconds{step="read"} 2.5',
        'lending_run_step_seconds{step="publish"} 3.0',
    } == {line for line in RUN.splitlines() if not line.startswith("#")}
    failed = metrics_of({"exit_code": 3, "finished_at": 30, "steps": []})
    assert ["lending_run_exit_code 3", "lending_run_finished_timestamp_seconds 30"] == [
        line for line in failed.splitlines() if not line.startswith("#")
    ]


def test_promtool_accepts_them() -> None:
    """Prometheus' own tool takes the metrics, and the rules, which fire and are silent as alerts_test.yml says."""
    promtool("check", "metrics", given=render_metrics(tables(7, [pool(price_timestamp=5, price_reason="valid")])).data)
    promtool("check", "metrics", given=RUN.encode())
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")
