"""The benchmarks themselves: each runs at a tiny size, and what it finds is judged and told as it is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.timing import Finding, Spread, Target


@pytest.mark.slow
@pytest.mark.parametrize("name", bench.BENCHMARKS)
def test_benchmark_runs(name: str) -> None:
    """At a tiny size a benchmark gives finite figures, and its own comparison of results holds."""
    findings = bench.BENCHMARKS[name](True)

    assert len(findings) > 0
    assert [] == [finding.title for finding in findings if not math.isfinite(finding.value.median)]
    assert [] == [finding.title for finding in findings if finding.value.median < 0]


def test_missed_target_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One missed target among reached ones makes the exit code 1, is named, and stands in the JSON file."""
    good = Finding("good", Spread.of([11.0]), "times as fast", Target(10))
    bad = Finding("bad", Spread.of([3.0, 2.0, 9.0]), "s", Target(2.5, at_least=False), {"why": "slow"})
    monkeypatch.setattr(bench, "BENCHMARKS", {"one": lambda _: [good], "two": lambda _: [bad]})

    assert 0 == bench.main(["one"])
    assert 1 == bench.main(["--json", str(tmp_path / "figures.json")])

    printed = capsys.readouterr().out
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert "MISSED 3 s (2 to 9 in 3); target: at most 2.5" in printed
    assert "  two: bad" in printed.splitlines()
    assert [True, False] == [figures["one"][0]["passed"], figures["two"][0]["passed"]]


def test_unknown_benchmark_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no benchmark is told with those there are."""
    with pytest.raises(SystemExit) as caught:
        bench.main(["nonsense"])

    assert 2 == caught.value.code
    assert "'nonsense'; there are decode, math" in capsys.readouterr().err
