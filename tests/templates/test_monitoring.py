"""templates/monitoring: rules and a dashboard over the metrics that a run really has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from exporter.render.metrics import render_metrics
from tests.render.test_changes import pool, tables

FOLDER = Path(__file__).parents[2] / "templates" / "monitoring"


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
    text = render_metrics(tables(7, [pool(price_timestamp=5, price_reason="valid")])).data.decode()

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


def test_promtool_accepts_the_metrics() -> None:
    """Prometheus' own parser and linter have nothing to say about the file."""
    promtool("check", "metrics", given=render_metrics(tables(7, [pool(price_timestamp=5, price_reason="valid")])).data)


def test_rules_fire_when_they_should() -> None:
    """The rules are accepted, and fire and stay silent in the cases of alerts_test.yml."""
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")
