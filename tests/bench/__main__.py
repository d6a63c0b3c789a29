"""The command behind `scripts/bench`: runs benchmarks, prints their figures, fails when a target is missed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from tests.bench import (
    backfill,
    buckets,
    decode,
    edge,
    folders,
    history,
    job,
    lake,
    math,
    one_ledger,
    publish,
    render,
    round_trips,
    soak,
    startup,
)
from tests.bench.timing import Finding, Spread

BENCHMARKS: dict[str, Callable[[bool], list[Finding]]] = {
    "decode": decode.run,
    "math": math.run,
    "render": render.run,
    "one-ledger": one_ledger.run,
    "round-trips": round_trips.run,
    "startup": startup.run,
    "job": job.run,
    "largest": job.largest,
    "folders": folders.run,
    "history": history.run,
    "buckets": buckets.run,
    "backfill": backfill.run,
    "lake": lake.run,
    "edge": edge.run,
    "publish": publish.run,
    "soak": soak.run,
}


def describe(finding: Finding) -> str:
    """A figure in words: whether its target is reached, the median and spread, and the facts behind it."""
    value, unit, target = finding.value, finding.unit, finding.target
    verdict = "      " if target is None else "pass  " if finding.passed else "MISSED"
    line = f"{verdict} {number(value.median)} {unit}{_spread(value)}"
    if target is not None:
        line += f"; target: at {'least' if target.at_least else 'most'} {number(target.bound)}"
    lines = [f"  {finding.title}", f"    {line}"]
    facts = [f"{name.replace('_', ' ')} {value}" for name, value in finding.facts.items() if value != ""]
    if facts:
        lines.append(f"           {', '.join(facts)}")
    return "\n".join(lines)


def _spread(value: Spread) -> str:
    if value.count == 1 or value.low == value.high:
        return ""
    return f" ({number(value.low)} to {number(value.high)} in {value.count})"


def number(value: float) -> str:
    """Three digits, more where they stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def versions() -> dict[str, str]:
    """What the figures depend on besides this project; nothing that names a machine."""
    from importlib.metadata import version

    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "polars": version("polars"),
        "stellar-sdk": version("stellar-sdk"),
        "cores": str(os.cpu_count()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that are named, or all of them; the exit code is 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs; the figures mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into a file, too")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    began = perf_counter()
    figures: dict[str, list[dict[str, object]]] = {}
    missed = []
    about = versions()
    print(", ".join(f"{name} {text}" for name, text in about.items()), flush=True)
    for name in options.names or BENCHMARKS:
        print(f"\n{name}", flush=True)
        findings = BENCHMARKS[name](options.quick)
        if options.quick:
            findings = [replace(finding, target=None) for finding in findings]
        for finding in findings:
            print(describe(finding), flush=True)
        missed += [f"{name}: {finding.title}" for finding in findings if not finding.passed]
        figures[name] = [asdict(finding) | {"passed": finding.passed} for finding in findings]
        if options.json is not None:
            document = {"about": about, "quick": options.quick, "figures": figures}
            options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    verdict = (
        "tiny sizes, no target was judged" if options.quick else "missed:" if missed else "all targets are reached"
    )
    print(f"\n{perf_counter() - began:.0f} s; {verdict}")
    for line in missed:
        print(f"  {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
