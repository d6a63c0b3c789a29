"""scripts/export: one run, and what it reports to the workflow around it."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from exporter.errors import ExitCode
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.examples import sampled
from tests.workflows.scripts import call


def export(root: Path, folder: Path, **environment: str) -> tuple[int, str, str, str]:
    """Call the script; gives its exit code, what it printed, its summary, and its outputs for later steps."""
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "EXPORTER_REPORT")}
    unset = {"AWS_ENDPOINT_URL_S3": ""}  # a workflow passes on a variable that nobody has set as an empty text
    given = {"EXPORTER_PYTHON": sys.executable, "EXPORTER_NETWORK": "local", **unset}
    code, said = call(root, "export", **given | {name: str(path) for name, path in files.items()} | environment)
    written = [path.read_text() if path.is_file() else "" for path in files.values()]
    return code, said, written[1], written[0]


def test_a_run_is_published_and_reported(project_root: Path, tmp_path: Path) -> None:
    """A run leaves a tree, a summary and the exit code for later steps; the interval is the one that was given."""
    out = tmp_path / "public"
    with running(create_app(RecordedNetwork())) as url:
        code, said, summary, outputs = export(
            *(project_root, tmp_path),
            EXPORTER_OUT=str(out),
            EXPORTER_RPC_URLS=url,
            EXPORTER_REQUESTS_PER_SECOND="1000",
            EXPORTER_INTERVAL="30m",
        )
    status = json.loads((out / "v1/system/status.json").read_bytes())
    published, expected = (datetime.fromisoformat(status[name]) for name in ("generated_at", "next_expected_at"))

    assert (0, "exit-code=0\n") == (code, outputs), said
    assert "## Exit code 0: published" in summary
    assert timedelta(minutes=30) == expected - published


def test_without_an_output_it_says_what_is_missing(project_root: Path, tmp_path: Path) -> None:
    """Nothing runs if nobody has said where the tree goes."""
    code, said, _, outputs = export(project_root, tmp_path)

    assert (2, "exit-code=2\n", True) == (code, outputs, "EXPORTER_OUT is not set" in said)


def test_the_action_has_to_say_the_interval(project_root: Path, tmp_path: Path) -> None:
    """GitHub does not enforce required inputs, so the action's run does; elsewhere an interval may be left out."""
    code, said, _, outputs = export(
        project_root, tmp_path, EXPORTER_OUT=str(tmp_path), GITHUB_ACTION_PATH="x", EXPORTER_INTERVAL=""
    )

    assert (2, "exit-code=2\n", True) == (code, outputs, "interval-minutes is not set" in said)


def python_that(folder: Path, does: str) -> str:
    """A command in place of Python: it runs or proves by these shell lines, and otherwise is this Python."""
    command = folder / "python"
    command.write_text(f'#!/bin/sh\n{does}\nexec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    return str(command)


def test_a_run_that_takes_too_long_is_stopped(project_root: Path, tmp_path: Path) -> None:
    """The run is stopped at the time limit, and its summary says so."""
    python = python_that(tmp_path, '[ "$3" != run ] || exec sleep 60')
    code, _, summary, outputs = export(
        project_root, tmp_path, EXPORTER_OUT=str(tmp_path), EXPORTER_PYTHON=python, EXPORT_TIME_LIMIT="0.2s"
    )

    assert (1, "exit-code=1\n", True) == (code, outputs, "## Exit code 1" in summary)


@pytest.mark.parametrize(
    "code", sampled((code for code in ExitCode if code not in (ExitCode.REFUTED, ExitCode.UNPROVEN)), 3)
)
def test_what_follows_a_publication_follows(project_root: Path, tmp_path: Path, code: ExitCode) -> None:
    """The script ends with 0 where the run's tree, or another's, is published, and else as the run does."""
    python = python_that(tmp_path, f'[ "$3" != run ] || exit {code:d}\n[ "$3" != prove ] || exit 3')
    ended, said, summary, outputs = export(
        project_root, tmp_path, EXPORTER_OUT=str(tmp_path), EXPORTER_PYTHON=python, EXPORT_PROVE="true"
    )

    assert (0 if code.is_published or code is ExitCode.LOST_RACE else code) == ended, said
    assert f"exit-code={code:d}\n" == outputs
    assert code.meaning in summary


def test_a_summary_that_cannot_be_written_changes_nothing(project_root: Path, tmp_path: Path) -> None:
    """A published run stays one where its summary has no room."""
    python = python_that(tmp_path, '[ "$3" = run ] && exit 0\n[ "$3" = prove ] && echo 48 calls && exit 9')
    code, said, _, outputs = export(
        project_root,
        tmp_path,
        EXPORTER_OUT=str(tmp_path),
        EXPORTER_PYTHON=python,
        EXPORT_PROVE="true",
        GITHUB_STEP_SUMMARY=str(tmp_path / "missing" / "summary"),
    )

    assert (0, "exit-code=0\n", True) == (code, outputs, "there is no summary" in said)


def test_a_report_into_a_pipe_and_an_output_in_a_home(project_root: Path, tmp_path: Path) -> None:
    """A pipe stays one, and nobody waits for what went into it; ~ is left to the exporter, as in a file of settings."""
    python = python_that(tmp_path, '[ "$3" != run ] || { printf "%s" "$EXPORTER_OUT" >"${0%/*}/out"; exit 0; }')
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, said, summary, _ = export(
        project_root, tmp_path, EXPORTER_OUT="~/public", EXPORTER_PYTHON=python, EXPORTER_REPORT=str(pipe)
    )

    assert (0, True, "~/public") == (code, pipe.is_fifo(), (tmp_path / "out").read_text()), said
    assert "left no report" in summary


@pytest.mark.parametrize(("proven", "wanted"), [(8, 8), (3, 0), (9, 0)])
def test_earlier_runs_are_proven_after_a_run(project_root: Path, tmp_path: Path, proven: int, wanted: int) -> None:
    """A refuted run is the exit code of the whole; else the run is as good as before, and what is proven is shown."""
    does = f'[ "$3" = run ] && exit 0\n[ "$3" = prove ] && echo 48 calls && exit {proven}'
    python = python_that(tmp_path, does)
    code, said, summary, outputs = export(
        project_root, tmp_path, EXPORTER_OUT=str(tmp_path), EXPORTER_PYTHON=python, EXPORT_PROVE="true"
    )

    assert (wanted, f"exit-code={wanted}\n") == (code, outputs), said
    assert ("no run was proven this time (exit code 3)" in said) is (proven == 3)
    assert summary.endswith("## Proofs of earlier runs\n\n```text\n48 calls\n```\n")
