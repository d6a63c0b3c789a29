"""The commands as a user calls them: exit codes, messages, what is on which stream."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.protocols.protocol_facts import recorded_pools
from tests.served_commands import PROJECT_ROOT, serving


def exporter(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with a clean environment and a bound on time."""
    return subprocess.run(
        [sys.executable, "-m", "exporter", *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT_ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_demo_then_serve(tmp_path: Path) -> None:
    """A demo leaves a tree that serve previews, with query parameters and problem documents."""
    made = exporter("demo", "--out", "public", "--past", "0d", cwd=tmp_path)
    assert 0 == made.returncode, made.stderr
    assert 0 == json.loads((tmp_path / "run-report.json").read_text())["exit_code"]
    assert re.search(rf"\npublished \S+ at \d+, {recorded_pools()} pools, \d+ unpriced, \d+\.\d s\n", made.stderr), (
        made.stderr
    )
    assert f"{shlex.quote(sys.executable)} -m exporter serve --out public" in made.stderr
    with serving("serve", "--out", "public", cwd=tmp_path) as url:
        with urllib.request.urlopen(f"{url}/v1/assets?limit=17", timeout=10) as answer:
            page = json.load(answer)
        with urllib.request.urlopen(f"{url}/v1/assets?cursor={page['next_cursor']}", timeout=10) as answer:
            following = json.load(answer)
        assert (10, 20) == (len(page["data"]), len(page["data"] + following["data"]))
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/v1/assets?limit=-1", timeout=10)
        with caught.value as problem:
            assert (400, "application/problem+json") == (problem.code, problem.headers["content-type"])


SECRET = "k3y-0f-an-0perator"
BAD_SNAPSHOTS = {
    "": "it is not JSON",
    "{}": "sequence_number|protocol_version",
    "[1, 2]": "object",
    '{"protocol_version": 22, "sequence_number": -5}': "sequence_number|timestamp|network_id",
}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run",), 2, r"network\.rpc_urls.*--snapshot"),
        (("run", "--config", "bad.toml"), 2, r"network\.max_in_flight"),
        (("run", "--nonsense"), 2, "--nonsense"),
        (("serve", "--out", "nothing"), 2, "exporter demo"),
        (("serve", "--out", f"s3://bucket/{SECRET}"), 2, "serve shows a folder"),
        *(
            (("run", "--snapshot", f"bad{number}.json"), 3, f"bad{number}.json.*({said})")
            for number, said in enumerate(BAD_SNAPSHOTS.values())
        ),
    ],
)
def test_what_is_refused(
    arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is as documented, the message names the thing and what to do, and repeats no secret."""
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("[network]\nmax_in_flight = 0\n")
    for number, content in enumerate(BAD_SNAPSHOTS):
        Path(f"bad{number}.json").write_text(content)

    result = CliRunner().invoke(main, arguments)

    assert code == result.exit_code, result.output
    assert re.search(said, result.stderr), result.stderr
    assert SECRET not in result.output
    assert "Traceback" not in result.output
    report = Path("run-report.json")
    assert not report.exists() or code == json.loads(report.read_text())["exit_code"]


def test_what_cron_keeps_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet run prints only that an RPC is dead, or why it failed; the key in its URL is in no output and report."""
    dead, fast = f"https://user:{SECRET}@127.0.0.1:9/{SECRET}?k={SECRET}", {"EXPORTER_REQUESTS_PER_SECOND": "1000"}
    monkeypatch.chdir(tmp_path)
    with running(create_app(RecordedNetwork())) as url:
        command = ["run", "--quiet", "--rpc-url", dead, "--rpc-url", url, "--network", "local"]
        quiet = CliRunner().invoke(main, command, env=fast)
    assert (tmp_path / "public" / "index.html").exists()
    assert (0, "") == (quiet.exit_code, quiet.stdout), quiet.stderr
    assert re.fullmatch(
        r"\S+Z warning: the RPC 127.0.0.1:9 gave no usable answer, but another one did, so nothing is lost: "
        r"connect \(\d+ times\)\n",
        quiet.stderr,
    ), quiet.stderr
    failed = CliRunner().invoke(main, ["run", "--quiet", "--network", "local"], env={"EXPORTER_RPC_URLS": dead})
    assert 3 == failed.exit_code
    assert re.fullmatch(r"\S+Z error: no usable answer to .*; the last published run stays\n", failed.stderr), (
        failed.stderr
    )
    report = (tmp_path / "run-report.json").read_text()
    assert SECRET not in quiet.stderr + failed.output + report
    assert "127.0.0.1" in report


def supplied(folder: Path) -> dict[tuple[str, str], int]:
    rows = json.loads((folder / "v1" / "pools" / "index.json").read_bytes())["data"]
    return {(row["market"], row["pool"]): int(row["total_supplied"]) for row in rows}


@pytest.mark.slow
def test_markets_go_on_where_the_earlier_demo_left_them(tmp_path: Path) -> None:
    """A first demo has changes; a second neither goes back to the recorded amounts nor jumps."""
    command = ["demo", "--out", str(tmp_path / "public"), "--past", "1d", "--report", str(tmp_path / "report.json")]
    first = CliRunner().invoke(main, command)
    before = supplied(tmp_path / "public")
    first_changes = json.loads((tmp_path / "public/v1/changes.json").read_bytes())["data"]
    second = CliRunner().invoke(main, command)
    after = supplied(tmp_path / "public")

    assert (0, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert [*2 * ["resumed"], *2 * ["configuration"]] == [change["kind"] for change in first_changes]
    assert before.keys() == after.keys()
    assert [] == [place for place, amount in before.items() if not 0.5 < after[place] / amount < 2]
