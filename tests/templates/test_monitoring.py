"""templates/monitoring: rules and a dashboard over the metrics that a run really has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from exporter.cli import main
from exporter.errors import ExitCode
from exporter.job.run_log import RunLog
from exporter.job.run_metrics import metrics_of
from exporter.job.run_report import RunReport
from exporter.render.run_documents import render_metrics
from tests.failure_drill import INTERVAL_MINUTES, Drill, Outcome, documented, outcomes
from tests.job_runs import NOW
from tests.render.compared import pool, tables

PUBLISHED = [code for code in ExitCode if code.is_published]
FOLDER = Path(__file__).parents[2] / "templates" / "monitoring"


FACTS: RunReport = {
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


def require_promtool() -> str:
    """Prometheus' own tool; skip where it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    return program


def promtool(*arguments: str | Path, given: bytes = b"") -> None:
    program = require_promtool()
    ran = subprocess.run([program, *arguments], cwd=FOLDER, input=given, capture_output=True, timeout=60, check=False)
    assert 0 == ran.returncode, (ran.stdout + ran.stderr).decode()


def test_every_metric_exists() -> None:
    """Alert rules and the dashboard ask only for names in a run's metrics."""
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


STEP_MINUTES, HOURS = 5, 5
RUN_STEPS = INTERVAL_MINUTES // STEP_MINUTES
TIMES = ("lending_run_published_timestamp_seconds", "lending_run_next_expected_timestamp_seconds")
OF_TREE = ("lending_run_ledger", "lending_unpriced_ratio", "lending_pools_unread")
"""The metrics that rules ask for, except the ages of ledger and price: the drill's network has its own time."""


def state_of(run: Outcome) -> dict[str, float]:
    """The metrics that a monitor has after a run; times count from when the first run was published."""
    text = run.metrics + run.published_metrics
    state = {name: float(value) for name, value in re.findall(r"^(lending_\w+) (\S+)$", text, re.MULTILINE)}
    state = {name: value for name, value in state.items() if name in (*TIMES, *OF_TREE, "lending_run_exit_code")}
    return state | {name: state[name] - NOW.timestamp() for name in TIMES if name in state}


def series_of(good: dict[str, float], failing: dict[str, float], *, publishing: bool) -> list[dict[str, str]]:
    """The metrics that a monitor scrapes: a good run, and from the next one on runs that all end in the same way.

    With ``publishing`` each of these is published.
    """
    found = []
    for name in sorted(good.keys() | failing.keys()):
        values = []
        for step in range(HOURS * 60 // STEP_MINUTES + 1):
            number = step // RUN_STEPS
            value = (good if number == 0 else failing).get(name)
            if value is not None and name in TIMES and publishing:
                value += number * INTERVAL_MINUTES * 60  # by the drill's clock all runs are at one time
            values.append("_" if value is None else f"{value:g}")
        found.append({"series": name, "values": " ".join(values)})
    return found


def firing(alerts: dict[str, float]) -> list[dict[str, Any]]:
    """The alerts that fire shortly before and after each of their times after the first failure, and at the end."""
    first = INTERVAL_MINUTES
    times = {HOURS * 60 - STEP_MINUTES, *(first + hours * 60 + by for hours in alerts.values() for by in (-5, 5))}
    return [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{int(time)}m",
            "exp_samples": [
                {"labels": f'{{alertname="{alert}"}}', "value": 1}
                for alert, hours in sorted(alerts.items())
                if first + hours * 60 <= time
            ],
        }
        for time in sorted(times)
    ]


def killed(report: Path) -> None:
    """The report is begun, and nobody ends it."""
    RunLog(report)


def misconfigured(report: Path) -> None:
    """A variable that is not understood ends the run before it begins."""
    ran = CliRunner().invoke(main, ["run", "--report", str(report)], env={"EXPORTER_INTERVAL": "zzz"})
    assert ExitCode.CONFIG == ran.exit_code, ran.output


def left_by(good: Outcome, fail: Callable[[Path], None], folder: Path) -> Outcome:
    """The metrics of a run that ends before it reads anything; ``good`` is the run before it."""
    drill = Drill(folder / "out", "", folder / "run-report.json")
    drill.metrics.write_text(good.metrics)
    fail(drill.report)
    return replace(good, metrics=drill.metrics.read_text())


@pytest.mark.slow
def test_each_failure_of_the_drill_fires_its_alert(tmp_path: Path) -> None:
    """Runs that fail as the drill makes them fail fire the alerts of docs/failures.md, at the times that it says.

    A run that cannot even leave metrics is seen by `LendingLate` alone.
    """
    require_promtool()
    pages, tests, (good, failures) = documented(), [], outcomes()
    unseen = {
        "a kill": left_by(good, killed, tmp_path),
        "a variable that is not understood": left_by(good, misconfigured, tmp_path),
    }
    for name, failure in {**failures, **unseen}.items():
        alerts = {"LendingLate": 0.5} if name in unseen else pages[name].alerts
        publishing = name not in unseen and pages[name].code in PUBLISHED
        tests.append(
            {
                "name": name,
                "interval": f"{STEP_MINUTES}m",
                "input_series": series_of(state_of(good), state_of(failure), publishing=publishing),
                "promql_expr_test": firing(alerts),
            }
        )
    path = tmp_path / "drill.yml"
    rules = {"rule_files": [str(FOLDER / "alerts.yml")], "evaluation_interval": f"{STEP_MINUTES}m", "tests": tests}
    path.write_bytes(msgspec.json.encode(rules))  # JSON is YAML

    promtool("test", "rules", path)
