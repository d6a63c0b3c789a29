"""nginx with the rendered rule against bare nginx that serves the same files by their paths.

The server is pinned to one processor core and `wrk` to another, where there are two. Both answer the same queries: the
listing, filters, sizes and cursors.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from random import Random
from statistics import median

from exporter.config import Settings
from exporter.tree.routes import Served, route
from tests.bench.table import Row
from tests.embedded import serving
from tests.jobs import run as run_job
from tests.jobs import settings_for
from tests.serve.edge.nginx_server import free_port, running, write_main, write_rule

POOLS, URLS = 200, 2_000
ROUNDS, SECONDS = 7, 3
CONNECTIONS = 32

_WRK = """
local requests = {}
local at = 0
function init(arguments)
  for url in io.lines("%s") do requests[#requests + 1] = wrk.format("GET", url) end
end
function request()
  at = at %% #requests + 1
  return requests[at]
end
function done(summary, latency)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  local p99 = latency:percentile(99)
  io.write(string.format("RESULT %%d %%d %%d %%d\\n", summary.requests, summary.duration, p99, failed))
end
"""


def run(quick: bool = False) -> list[Row]:
    """Requests a second and processor time; RuntimeError where nginx or wrk is not installed."""
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    wrk = shutil.which("wrk")
    if nginx is None or wrk is None:
        raise RuntimeError(
            f"{'nginx' if nginx is None else 'wrk'} is not installed (Debian: apt-get install nginx-light wrk)"
        )
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        root = folder / "tree"
        with serving("localnet", "--pools", str(60 if quick else POOLS)) as url:
            code, _ = run_job(settings_for(root, url))
            assert code in (0, 7)
        urls = _urls(root, 50 if quick else URLS)
        (folder / "urls").write_text("".join(f"{url}\n" for url in urls))
        (folder / "paths").write_text("".join(f"/{_key(root, url)}\n" for url in urls))
        servers = {}
        for kind, asked in (("rule", "urls"), ("bare", "paths")):
            (folder / kind).mkdir()
            port = free_port()
            configuration = (
                write_rule(folder / kind, root, Settings(), port)
                if kind == "rule"
                else write_main(folder / kind, port, "", f'root "{root}"; types {{ application/json json; }}')
            )
            process = stack.enter_context(running(nginx, configuration, port))
            _pin(process.pid, 0)
            servers[kind] = port, process.pid, folder / asked
        loads: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in servers}
        for number in range(1 if quick else ROUNDS):
            for kind in sorted(servers, reverse=number % 2 == 1):
                loads[kind].append(_load(wrk, *servers[kind], 1 if quick else SECONDS, folder))
    ours, bare = loads["rule"], loads["bare"]
    return [
        Row(
            f"requests a second, {CONNECTIONS} connections, one core",
            f"{median(load[0] for load in ours):,.0f} (p99 {median(load[1] for load in ours):.1f} ms)",
            f"bare nginx by path, {median(load[0] for load in bare):,.0f}",
            [mine[0] / theirs[0] for mine, theirs in zip(ours, bare, strict=True)],
        ),
        Row(
            "processor time for a request",
            f"{median(load[2] for load in ours):.1f} µs",
            f"bare nginx by path, {median(load[2] for load in bare):.1f} µs",
            [mine[2] / max(theirs[2], 1e-9) for mine, theirs in zip(ours, bare, strict=True)],
            "times as much",
        ),
    ]


def _urls(root: Path, count: int) -> list[str]:
    """URLs of every kind, drawn at random."""
    drawn = Random(1)
    rows = json.loads((root / _key(root, "/v1/assets?limit=200")).read_bytes())["data"]
    urls = []
    for _ in range(count):
        row, limit = drawn.choice(rows), drawn.choice((1, 10, 20, 50, 200))
        market, token = f"market={row['market']}", f"token={row['token_address']}"
        query = drawn.choice(("", f"limit={limit}", f"{market}&limit={limit}", token, f"{market}&{token}", "cursor"))
        url = f"/v1/assets?{query}".rstrip("?")
        if query == "cursor":
            url = f"/v1/assets?limit={limit}"
            page = json.loads((root / _key(root, url)).read_bytes())
            url = url if page["next_cursor"] is None else f"/v1/assets?cursor={page['next_cursor']}"
        urls.append(url)
    return urls


def _key(root: Path, url: str) -> str:
    path, _, query = url.partition("?")
    answer = route(path, query, Settings().output.page_sizes)
    assert isinstance(answer, Served)
    return next(key for key in answer.keys if (root / key).is_file())


def _pin(pid: int, core: int) -> None:
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(pid, {sorted(os.sched_getaffinity(0))[core]})


def _load(wrk: str, port: int, pid: int, urls: Path, seconds: int, folder: Path) -> tuple[float, float, float]:
    """Requests a second, p99 in milliseconds, and the server's processor time for a request in microseconds."""
    script = folder / "wrk.lua"
    script.write_text(_WRK % urls)
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script)]
    before = _cpu_seconds(pid)
    process = subprocess.Popen(
        [*command, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    _pin(process.pid, -1)
    output, _ = process.communicate(timeout=seconds + 60)
    match = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", output)
    if match is None or int(match[4]) or not int(match[1]):
        raise RuntimeError(f"wrk did not measure, or some of its requests failed:\n{output}")
    requests, microseconds, p99, _ = map(int, match.groups())
    return requests * 1e6 / microseconds, p99 / 1000, 1e6 * (_cpu_seconds(pid) - before) / requests


def _cpu_seconds(pid: int) -> float:
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
