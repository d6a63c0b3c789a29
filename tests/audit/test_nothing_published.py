"""Commands that judge a tree, where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.responses import Response

from exporter.cli import main
from exporter.errors import ExitCode
from exporter.localnet.server import running


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "{uri}"),
        ("check", "{uri}"),
        ("check", "{uri}", "--sample", "2"),
        ("prove", "{uri}"),
        ("census", "--archive", "{uri}", "--out", "{uri}"),
        ("status", "{uri}"),
    ],
)
def test_an_empty_folder(command: tuple[str, ...], tmp_path: Path) -> None:
    """Nothing that was published is wrong, so it is a source that cannot be read; the message names the folder."""
    done = CliRunner().invoke(main, [word.format(uri=tmp_path) for word in command])

    assert ExitCode.SOURCE == done.exit_code
    assert str(tmp_path) in done.stderr
    assert "is published there" in done.stderr


@pytest.mark.parametrize("command", ["verify", "check", "status"])
def test_a_server_without_a_tree(command: str) -> None:
    """A web server that answers 404 for the status document has no tree; neither has it a wrong one."""
    with running(Response(status_code=404)) as url:
        done = CliRunner().invoke(main, [command, url])

    assert ExitCode.SOURCE == done.exit_code
    assert "v1/system/status.json" in done.stderr
