"""The commands as a user calls them: exit codes, messages, what is on which stream."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def exporter(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with a clean environment and a bound on time."""
    return subprocess.run(
        [sys.executable, "-m", "exporter", *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_demo_then_serve(tmp_path: Path) -> None:
    """A demo leaves a tree that serve previews, with query parameters and problem documents."""
    made = exporter("demo", "--out", "public", "--pools", "12", cwd=tmp_path)
    assert 0 == made.returncode, made.stderr
    assert json.loads((tmp_path / "run-report.json").read_text())["exit_code"] == 0
    assert f"{shlex.quote(sys.executable)} -m exporter serve --out public" in made.stderr
    server = subprocess.Popen(
        [sys.executable, "-m", "exporter", "serve", "--out", "public", "--port", "0"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        url = re.search(r"http://\S+", line)
        assert url is not None, line
        with urllib.request.urlopen(f"{url[0]}v1/assets?limit=5", timeout=10) as answer:
            page = json.load(answer)
        with urllib.request.urlopen(f"{url[0]}v1/assets?cursor={page['next_cursor']}", timeout=10) as answer:
            following = json.load(answer)
        assert (5, 5) == (len(page["data"]), len(following["data"]))
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url[0]}v1/assets?limit=-1", timeout=10)
        with caught.value as problem:
            assert (400, "application/problem+json") == (problem.code, problem.headers["content-type"])
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=20)


def test_no_rpc(tmp_path: Path) -> None:
    """A run with nothing to read from ends with code 2 and says how to give it something."""
    result = exporter("run", cwd=tmp_path)

    assert 2 == result.returncode
    assert "network.rpc_urls" in result.stderr
    assert "--snapshot" in result.stderr
    assert json.loads((tmp_path / "run-report.json").read_text())["exit_code"] == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("{}", "sequence_number|protocol_version"),
        ("[1, 2]", "object"),
        ('{"protocol_version": 22, "sequence_number": -5}', "sequence_number|timestamp|network_id"),
    ],
)
def test_garbage_snapshot(tmp_path: Path, content: str, said: str) -> None:
    """A snapshot file that is none ends with code 3 and names the file and the fault."""
    (tmp_path / "bad.json").write_text(content)

    result = exporter("run", "--snapshot", "bad.json", cwd=tmp_path)

    assert 3 == result.returncode, result.stderr
    assert re.search(f"bad.json.*({said})", result.stderr), result.stderr
    assert "Traceback" not in result.stderr


def test_secret_in_a_url_is_never_told(tmp_path: Path) -> None:
    """An endpoint that cannot be reached is named by its host; its key is in no output and no report."""
    secret = "k3y-0f-an-0perator"
    result = exporter(
        "run",
        "--log-format",
        "json",
        cwd=tmp_path,
        EXPORTER_RPC_URLS=f"https://user:{secret}@127.0.0.1:9/{secret}?k={secret}",
    )

    assert 3 == result.returncode
    assert "127.0.0.1" in result.stderr
    report = (tmp_path / "run-report.json").read_text()
    assert secret not in result.stderr + result.stdout + report
    assert "127.0.0.1" in report


def test_plan_touches_nothing(tmp_path: Path) -> None:
    """A plan prints the settings with their origins on standard output, and leaves the folder empty."""
    result = exporter("plan", "--out", "there", cwd=tmp_path, EXPORTER_RPC_URLS="https://rpc.example/secret")

    assert 0 == result.returncode, result.stderr
    assert 'output.uri = "there"   # command line' in result.stdout
    assert "rpc.example" in result.stdout
    assert "secret" not in result.stdout
    assert [] == list(tmp_path.iterdir())


def test_bad_configuration(tmp_path: Path) -> None:
    """A bad configuration file ends with code 2 and names the key."""
    (tmp_path / "exporter.toml").write_text("[network]\nmax_in_flight = 0\n")

    result = exporter("run", "--config", "exporter.toml", cwd=tmp_path)

    assert 2 == result.returncode
    assert "network.max_in_flight" in result.stderr


def test_usage(tmp_path: Path) -> None:
    """An unknown option ends with code 2."""
    assert 2 == exporter("run", "--nonsense", cwd=tmp_path).returncode


def test_serve_without_a_folder(tmp_path: Path) -> None:
    """Serving a folder that is not there ends with code 2 and says how to make one."""
    result = exporter("serve", "--out", "nothing", cwd=tmp_path)

    assert 2 == result.returncode
    assert "exporter demo" in result.stderr


def test_serve_of_a_bucket(tmp_path: Path) -> None:
    """Serving a bucket ends with code 2 and says that a folder is served; the URI is not repeated."""
    result = exporter("serve", "--out", "s3://bucket/secret", cwd=tmp_path)

    assert (2, False) == (result.returncode, "secret" in result.stderr)
    assert "serve shows a folder" in result.stderr


def test_localnet_and_run(tmp_path: Path) -> None:
    """A run against `exporter localnet` in a process of its own publishes its pools; a second one has nothing to do."""
    server = subprocess.Popen(
        [sys.executable, "-m", "exporter", "localnet", "--port", "0", "--pools", "8"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = re.search(r"http://\S+", server.stdout.readline())
        assert url is not None
        codes = [
            exporter(
                *("run", "--network", "local", "--rpc-url", url[0], "--out", "public"),
                cwd=tmp_path,
                EXPORTER_REQUESTS_PER_SECOND="1000",
            ).returncode
            for _ in range(2)
        ]
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=20)

    assert [0, 0] == codes
    assert (tmp_path / "public" / "index.html").exists()


def test_help_is_quick(tmp_path: Path) -> None:
    """Help imports nothing heavy, so it is there at once."""
    times = []
    for _ in range(3):
        began = time.monotonic()
        assert 0 == exporter("--help", cwd=tmp_path).returncode
        times.append(time.monotonic() - began)

    assert min(times) < 0.4
