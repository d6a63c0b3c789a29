"""nginx with the rendered rule against bare nginx that serves the same files by their paths.

`wrk` asks both for the same, in turn: the listing, filters, sizes and cursors. The server is pinned to one processor
core and `wrk` to another, where there are two.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median

from exporter.config import Settings
from exporter.tree.routes import Served, route
from tests.job_runs import run as run_job
from tests.job_runs import settings_for
from tests.serve.edge.nginx_server import free_port, running, write_main, write_rule
from tests.served_commands import serving
from tools.bench.table import Row

POOLS, URLS, CONNECTIONS = 200, 2_000, 32
ROUNDS, SECONDS = 7, 3

_WRK = """
local requests, at = {}, 0
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
  io.write(string.format("RESULT %%d %%d %%d\\n", summary.requests, summary.duration, failed))
end
"""


def run(quick: bool = False) -> list[Row]:
    """Requests a second; RuntimeError if nginx or wrk is not installed."""
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if nginx is None or shutil.which("wrk") is None:
        raise RuntimeError("nginx or wrk is not installed (Debian: apt-get install nginx-light wrk)")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        root = folder / "tree"
        with serving("localnet", "--pools", str(60 if quick else POOLS)) as url:
            assert run_job(settings_for(root, url))[0] in (0, 7)
        urls = _urls(root, 50 if quick else URLS)
        asked = {"rule": urls, "bare": [f"/{_key(root, url)}" for url in urls]}
        ports = {}
        for kind, lines in asked.items():
            (folder / kind).mkdir()
            (folder / kind / "urls").write_text("".join(f"{line}\n" for line in lines))
            (folder / kind / "wrk.lua").write_text(_WRK % (folder / kind / "urls"))
            ports[kind] = port = free_port()
            configuration = (
                write_rule(folder / kind, root, Settings(), port)
                if kind == "rule"
                else write_main(folder / kind, port, "", f'root "{root}"; types {{ application/json json; }}')
            )
            _pin(stack.enter_context(running(nginx, configuration, port)).pid, 0)
        rates: dict[str, list[float]] = {kind: [] for kind in ports}
        for number in range(1 if quick else ROUNDS):
            for kind in sorted(ports, reverse=number % 2 == 1):
                rates[kind].append(_rate(ports[kind], folder / kind / "wrk.lua", 1 if quick else SECONDS))
    ours, bare = rates["rule"], rates["bare"]
    ratios = [mine / theirs for mine, theirs in zip(ours, bare, strict=True)]
    against = f"bare nginx by path, {median(bare):,.0f}"
    return [Row(f"requests a second, {CONNECTIONS} connections, one core", f"{median(ours):,.0f}", against, ratios)]


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


def _rate(port: int, script: Path, seconds: int) -> float:
    """Requests a second."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script)]
    process = subprocess.Popen(
        [*command, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    _pin(process.pid, -1)
    output, _ = process.communicate(timeout=seconds + 60)
    match = re.search(r"RESULT (\d+) (\d+) 0$", output, re.MULTILINE)
    if match is None or not int(match[1]):
        raise RuntimeError(f"wrk did not measure, or some of its requests failed:\n{output}")
    return int(match[1]) * 1e6 / int(match[2])
