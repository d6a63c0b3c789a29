"""Input in the wrong place gets one line, exit code 2, nothing of a key, and never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.errors import StoreError

KEY = "SECRETKEY1234567890"
URL = f"https://user:{KEY}@rpc.example.org/v2/{KEY}/plainsecret?token={KEY}"


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


def assert_refused(result: Result) -> None:
    """The command ended with 2, and shows no part of the URL but its host."""
    assert 2 == result.exit_code, result.output
    assert result.stderr
    assert KEY not in result.output
    assert "plainsecret" not in result.output


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


COMMANDS = [("run", "--rpc-url"), ("check",), ("status",), ("history", "list"), ("edge", "cloudflare", "--origin")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/x", "https://xn--a.example/", "https://[::1/x"])
def test_hosts_and_ports_that_cannot_be(command: tuple[str, ...], url: str) -> None:
    """Ports out of range and invalid host names are refused before anything is asked."""
    result = invoke(*command, url)

    assert 2 == result.exit_code, result.output
    assert 1 == len(result.stderr.splitlines())


@pytest.mark.parametrize("text", ["a = " + "[" * 5_000 + "]" * 5_000, "a = " + "{a=" * 5_000 + "1" + "}" * 5_000])
def test_deeply_nested_configuration(text: str) -> None:
    """A deeply nested configuration is refused in one line."""
    Path("deep.toml").write_text(text)
    result = invoke("run", "--config", "deep.toml")

    assert 2 == result.exit_code
    assert "deep.toml nests too deeply" in result.stderr
    assert 1 == len(result.stderr.splitlines())


PLACES = [
    *(f"run --{name} URL" for name in ("network", "snapshot", "config", "out", "log-format")),
    "run --report URL --network local --rpc-url http://127.0.0.1:1",
    *("run URL", "run --URL", "URL", "check URL", "check URL --sample URL", "status URL", "status . --max-age URL"),
    *("history list URL", "history URL", "backfill URL", "edge URL", "edge cloudflare --origin URL"),
    *("serve --out URL", "serve --port URL", "localnet --host URL", "localnet --snapshot URL", "localnet --pools URL"),
]


@pytest.mark.parametrize("arguments", PLACES)
def test_url_in_the_wrong_place(arguments: str) -> None:
    """No part of the URL but its host is shown, wherever it was put."""
    assert_refused(invoke(*(word.replace("URL", URL) for word in arguments.split())))


@pytest.mark.parametrize(
    "line",
    [
        f'network.name = "{URL}"',
        f'network = "{URL}"',
        f'network.max_in_flight = "{URL}"',
        f'network.rpc_urls = ["ftp://host/{KEY}"]',
        f'output.page_sizes = ["{URL}"]',
        f'output.uri = "{URL}"',
        f'allow_unread = ["{URL}"]',
        f'"{URL}" = 1',
        f'network."{URL}" = 1',
        f'markets = [{{protocol = "{URL}", address = "x"}}]',
        f'markets = [{{protocol = "blend", address = "{URL}"}}]',
        f"x = {URL}",
        URL,
    ],
    ids=lambda line: line.replace(URL, "URL"),
)
def test_url_in_the_wrong_key(line: str) -> None:
    """A URL under a wrong key of the configuration is not repeated, neither in an error nor in the plan."""
    Path("exporter.toml").write_text(line)
    assert_refused(invoke("plan", "--config", "exporter.toml"))


@pytest.mark.parametrize("name", ["EXPORTER_NETWORK", "EXPORTER_MAX_IN_FLIGHT", "EXPORTER_REPORT", "EXPORTER_CONFIG"])
def test_url_in_an_environment_variable(name: str) -> None:
    """A URL in a wrong environment variable is not repeated in the error."""
    assert_refused(invoke("run", "--rpc-url", "http://127.0.0.1:1", **{name: URL}))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_bug_shows_no_key(monkeypatch: pytest.MonkeyPatch, log_format: str) -> None:
    """An unforeseen error ends with code 1 and its name, and neither its text nor its traceback shows a key."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"cannot handle {URL}")

    monkeypatch.setattr("exporter.job.run.try_output", fail)
    result = invoke("run", "--rpc-url", "https://rpc.example.org/x", "--log-format", log_format)

    assert 1 == result.exit_code
    assert "RuntimeError: cannot handle" in result.stderr
    report = Path("run-report.json").read_text()
    assert 1 == json.loads(report)["exit_code"]
    assert KEY not in result.output + report
    assert ("Traceback" in result.stderr) is (log_format == "text")


def test_report_that_fails_does_not_hide_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """If first the store and then the report refuses, the command ends with the store's error."""

    def refuse(*_: object, **__: object) -> None:
        Path("reports/run.json").unlink()
        Path("reports").rmdir()
        raise StoreError("v1/pages: no space left on device")

    Path("reports").mkdir()
    monkeypatch.setattr("exporter.job.run.try_output", refuse)
    options = ("--rpc-url", "http://127.0.0.1:9", "--report", "reports/run.json", "--log-format", "json")
    result = invoke("run", *options)

    assert 10 == result.exit_code
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert ["v1/pages: no space left on device"] == [line["message"] for line in lines if line["event"] == "error"]
    assert any("output.report" in line["message"] for line in lines if line["event"] == "warning")
