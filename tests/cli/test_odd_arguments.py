"""Arguments that mean nothing end a command with a documented code and a sentence, never with a bug's traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.errors import ExitCode

LONG = "x" * 5000
"""A name for which the system gives an error other than "not found", as it does for a folder of another user."""

REFUSED = {
    ExitCode.CONFIG: [
        ["backfill", "--lake", LONG],
        ["backfill", "--lake", "http://"],
        ["backfill", "--lake", ".", "--from", "100", "--to", "50"],
        ["backfill", "--lake", "https://["],
        ["backfill", "--lake", "https://a:99999/"],
        ["backfill", "--lake", "s3://bucket/../x"],
        ["backfill", "--lake", "s3://a b"],
        ["backfill", "--lake", ".", "--lake-config", "x\udcff"],
        ["census", "--archive", "https://["],
        ["localnet", "--fail-rate", "nan"],
        ["localnet", "--port", "0", "--host", "\u202e"],
        ["serve", "--out", LONG],
        ["serve", "--out", ".", "--port", "0", "--host", "x\udcff"],
    ],
    ExitCode.SOURCE: [
        *(["check", LONG], ["history", "list", LONG], ["status", LONG], ["verify", LONG]),
        ["census", "--archive", LONG],
    ],
    ExitCode.STORE: [
        ["backfill", "--lake", ".", "--changes", LONG],
        ["census", "--archive", ".", "--bucket-cache", "/dev/null"],
        ["census", "--archive", ".", "--bucket-cache", LONG],
    ],
}
"""Commands, by the code with which they end."""


@pytest.mark.parametrize(
    ("code", "arguments"),
    [(code, arguments) for code, commands in REFUSED.items() for arguments in commands],
    ids=lambda value: ascii(value)[:60],
)
def test_an_odd_argument_is_named(
    code: ExitCode, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends with the documented code and one sentence."""
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(main, arguments)

    assert code == result.exit_code, result.output
    assert "a bug" not in result.output
    assert "rror: " in result.output.splitlines()[-1]


def test_a_path_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    """A name on disk need not be UTF-8: what cannot be written to standard output is escaped."""
    result = CliRunner().invoke(main, ["plan", "--out", str(tmp_path / "x\udcff")])

    assert ExitCode.CONFIG != result.exit_code
    assert "a bug" not in result.output
