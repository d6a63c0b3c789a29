"""nginx with the rendered rule against a FastAPI service from SQLite with the same rows, and against bare nginx.

The server is pinned to one processor core and `wrk` to another, where there are two. The same queries go to all: the
listing, filters, sizes and cursors. Bare nginx serves the same files by their paths, without a rule or a header.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from exporter.config import OutputSettings, Settings
from exporter.render.run_documents import render_tree
from exporter.stores.precompressed import PrecompressedFolderStore
from exporter.tree.read_back import render_document
from exporter.tree.routes import Served, route
from tests.bench.child import PROJECT_ROOT, environment
from tests.bench.fastapi_service import COLUMNS
from tests.bench.render import made_pools
from tests.bench.timing import Finding, Spread, Target
from tests.render.rendering import markets_frame, system_status, write
from tests.serve.edge.nginx_server import free_port, running, write_main, write_rule

POOLS = 1_000
URLS = 2_000
ROUNDS = 7
SECONDS = 3
CONNECTIONS = 32
PACKAGES = ("fastapi==0.165.0", "uvicorn[standard]==0.54.0", "orjson==3.13.0")

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


@dataclass(frozen=True, slots=True)
class Load:
    """What one round of `wrk` measured.

    Requests in a second, the 99th percentile in milliseconds, and the server's processor time for a request in
    microseconds (0 where the system does not tell it), which other work on the machine disturbs least.
    """

    per_second: float
    p99: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Contender:
    """A server that runs, and the URLs that it is asked for."""

    port: int
    pid: int
    urls: Path
    gzip: bool = False


def run(quick: bool = False) -> list[Finding]:
    """The ratios of requests in a second and of p99."""
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    wrk = shutil.which("wrk")
    if nginx is None or wrk is None:
        missing = "nginx (Debian: nginx-light)" if nginx is None else "wrk"
        return [Finding(f"skipped: {missing} is not installed", Spread.of([0.0]), "requests per second")]
    python = _python_with_fastapi(quick)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        root = folder / "tree"
        urls = _made_tree(root, folder / "pools.sqlite", 60 if quick else POOLS, 50 if quick else URLS)
        contenders = {
            "rule": _nginx(stack, nginx, folder / "rule", root, _file(folder / "urls", urls), bare=False),
            "bare": _nginx(stack, nginx, folder / "bare", root, _file(folder / "paths", _paths(root, urls)), bare=True),
        }
        contenders["rule, gzip"] = replace(contenders["rule"], gzip=True)
        store = PrecompressedFolderStore(root, durable=False)  # the others do not look for twins
        store.put_many((info.key, (root / info.key).read_bytes()) for info in list(store.list("")))
        paths = contenders["rule"].urls
        contenders["rule, twins"] = replace(
            _nginx(stack, nginx, folder / "twins", root, paths, bare=False, precompressed=True), gzip=True
        )
        if python is not None:
            port, pid = stack.enter_context(_fastapi(python, folder / "pools.sqlite"))
            theirs = _same_answers(contenders["rule"], port, urls)
            contenders["fastapi"] = Contender(port, pid, _file(folder / "theirs", theirs))
        loads = _measure(wrk, contenders, 1 if quick else ROUNDS, 1 if quick else SECONDS, folder)
    return list(_findings(loads))


def _made_tree(root: Path, database: Path, pools: int, count: int) -> list[str]:
    """Render a tree and write the same rows into a database; gives URLs of every kind, shuffled."""
    frame = made_pools(pools)
    output = Settings().output
    write(root, render_tree(frame, markets_frame(frame), output.page_sizes, output.default_page_size))
    write(root, [render_document(system_status(page_sizes=sorted(output.page_sizes)))])
    rows = []
    page = json.loads((root / f"v1/assets/limit/{max(output.page_sizes)}.json").read_bytes())
    while True:
        rows += [tuple(row[name] for name in COLUMNS) for row in page["data"]]
        if page["next_cursor"] is None:
            break
        page = json.loads((root / f"v1/pages/{page['next_cursor']}.json").read_bytes())
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"CREATE TABLE pools ({', '.join(COLUMNS)})")
        connection.executemany(f"INSERT INTO pools VALUES ({', '.join('?' * len(COLUMNS))})", rows)
        connection.execute("CREATE INDEX by_market ON pools (market)")
        connection.execute("CREATE INDEX by_token ON pools (token_address)")
        connection.execute("ANALYZE")
    return _urls(root, rows, count)


def _urls(root: Path, rows: Sequence[tuple[object, ...]], count: int) -> list[str]:
    drawn = Random(1)
    urls = []
    for _ in range(count):
        market, _, token, *_ = drawn.choice(rows)
        limit = drawn.choice((1, 10, 20, 50, 200))
        kind = drawn.choice(("", "limit", "market", "token", "both", "cursor", "cursor"))
        query = {
            "": "",
            "limit": f"?limit={limit}",
            "market": f"?market={market}&limit={limit}",
            "token": f"?token={token}",
            "both": f"?market={market}&token={token}",
            "cursor": f"?limit={limit}",
        }[kind]
        url = f"/v1/assets{query}"
        if kind == "cursor":
            page = json.loads((root / _key(root, url)).read_bytes())
            url = url if page["next_cursor"] is None else f"/v1/assets?cursor={page['next_cursor']}"
        urls.append(url)
    return urls


def _key(root: Path, url: str) -> str:
    path, _, query = url.partition("?")
    answer = route(path, query, Settings().output.page_sizes)
    assert isinstance(answer, Served)
    return next(key for key in answer.keys if (root / key).is_file())


def _paths(root: Path, urls: Sequence[str]) -> list[str]:
    return [f"/{_key(root, url)}" for url in urls]


def _file(path: Path, urls: Sequence[str]) -> Path:
    path.write_text("".join(f"{url}\n" for url in urls))
    return path


def _nginx(
    stack: contextlib.ExitStack,
    program: str,
    folder: Path,
    root: Path,
    urls: Path,
    *,
    bare: bool,
    precompressed: bool = False,
) -> Contender:
    folder.mkdir()
    port = free_port()
    if bare:
        server = f'root "{root}"; types {{ application/json json; }}'
        configuration = write_main(folder, port, "", server)
    else:
        settings = Settings(output=OutputSettings(precompressed=precompressed))
        configuration = write_rule(folder, root, settings, port)
    process = stack.enter_context(running(program, configuration, port))
    _pin(process.pid, 0)
    return Contender(port, process.pid, urls)


def _pin(pid: int, core: int) -> None:
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(pid, {sorted(os.sched_getaffinity(0))[core]})


def _python_with_fastapi(quick: bool) -> str | None:
    """A Python that has FastAPI: this one, or an environment of its own below build/, made once; None where neither."""
    if all(importlib.util.find_spec(name) for name in ("fastapi", "uvicorn", "orjson", "uvloop", "httptools")):
        return sys.executable
    folder = PROJECT_ROOT / "build" / "fastapi"
    program = folder / "bin" / "python"
    if not program.exists() and not quick:
        try:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
            subprocess.run([str(program), "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=300)
        except (OSError, subprocess.SubprocessError):
            shutil.rmtree(folder, ignore_errors=True)
    return str(program) if program.exists() else None


@contextlib.contextmanager
def _fastapi(python: str, database: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    command = [python, "-m", "tests.bench.fastapi_service", str(database), str(port), *map(str, cores[:1])]
    process = subprocess.Popen(command, cwd=PROJECT_ROOT, env=environment(), stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError("the FastAPI service did not start")
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(timeout=20)


def _same_answers(ours: Contender, port: int, urls: Sequence[str]) -> list[str]:
    """The URLs of the same queries for the other service; fails where its rows are not those of the files."""
    pages: dict[str, tuple[str, str]] = {}  # our cursor: the URL that led to it, and theirs
    translated = {}
    for url in dict.fromkeys(url for url in urls if "cursor=" not in url):
        mine, theirs = _get(ours.port, url), _get(port, url)
        _compare(url, mine, theirs)
        translated[url] = url
        if mine["next_cursor"] is not None:
            pages[str(mine["next_cursor"])] = (url, str(theirs["next_cursor"]))
    for url in dict.fromkeys(url for url in urls if "cursor=" in url):
        token = url.partition("cursor=")[2]
        if token not in pages:
            # Only the page before it knows the other service's cursor; every such page is one of the listing.
            for limit in (1, 5, 20, 50, 200):
                first = f"/v1/assets?limit={limit}"
                mine, theirs = _get(ours.port, first), _get(port, first)
                pages[str(mine["next_cursor"])] = (first, str(theirs["next_cursor"]))
        translated[url] = f"/v1/assets?cursor={pages[token][1]}"
        _compare(url, _get(ours.port, url), _get(port, translated[url]))
    return [translated[url] for url in urls]


def _compare(url: str, ours: dict[str, object], theirs: dict[str, object]) -> None:
    if ours["data"] != theirs["data"] or (ours["next_cursor"] is None) != (theirs["next_cursor"] is None):
        raise AssertionError(f"{url}: the two services do not answer the same rows")


def _get(port: int, url: str) -> dict[str, object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{url}", timeout=20) as response:
        document: dict[str, object] = json.loads(response.read())
    return document


def _measure(
    wrk: str, contenders: dict[str, Contender], rounds: int, seconds: int, folder: Path
) -> dict[str, list[Load]]:
    loads: dict[str, list[Load]] = {name: [] for name in contenders}
    order = list(contenders)
    for number in range(rounds):
        turn = number % len(order)
        for name in order[turn:] + order[:turn]:
            loads[name].append(_load(wrk, contenders[name], seconds, folder))
    return loads


def _load(wrk: str, contender: Contender, seconds: int, folder: Path) -> Load:
    script = folder / "wrk.lua"
    script.write_text(_WRK % contender.urls)
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s", "-s", str(script)]
    command += ["-H", "Accept-Encoding: gzip"] if contender.gzip else []
    before = _cpu_seconds(contender.pid)
    process = subprocess.Popen(
        [*command, f"http://127.0.0.1:{contender.port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    _pin(process.pid, -1)
    output, _ = process.communicate(timeout=seconds + 60)
    match = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+)", output)
    if match is None or int(match[4]) or not int(match[1]):
        raise RuntimeError(f"wrk did not measure, or some of its requests failed:\n{output}")
    requests, microseconds, p99, _ = map(int, match.groups())
    taken = _cpu_seconds(contender.pid) - before
    return Load(requests * 1e6 / microseconds, p99 / 1000, 1e6 * taken / requests)


def _cpu_seconds(pid: int) -> float:
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _findings(loads: dict[str, list[Load]]) -> Iterator[Finding]:
    what = f"{CONNECTIONS} connections, one process on one core"
    if "fastapi" in loads:
        yield _ratio(
            loads, "rule", "fastapi", f"requests per second, {what}: nginx with the rule / FastAPI", Target(10)
        )
        p99 = [theirs.p99 / max(ours.p99, 0.001) for ours, theirs in zip(loads["rule"], loads["fastapi"], strict=True)]
        facts = {f"{name}_ms": _median(load.p99 for load in loads[name]) for name in ("rule", "fastapi")}
        yield Finding("p99: FastAPI / nginx with the rule", Spread.of(p99), "times as long", Target(5), facts)
    else:
        yield Finding("skipped: FastAPI is not installed", Spread.of([0.0]), "times as many")
    yield _ratio(loads, "rule", "bare", "the rule / bare nginx, the same files by their paths", Target(0.5))
    for theirs in sorted(loads.keys() & {"fastapi", "bare"}):
        if all(load.cpu for name in ("rule", theirs) for load in loads[name]):
            # What a busy machine disturbs least.
            ratios = [two.cpu / one.cpu for one, two in zip(loads["rule"], loads[theirs], strict=True)]
            facts = {f"{name}_us": _median(load.cpu for load in loads[name]) for name in ("rule", theirs)}
            title = f"processor time for a request: {theirs} / the rule"
            target = Target(0.97) if theirs == "bare" else None
            yield Finding(title, Spread.of(ratios), "times as much", target, facts)
    yield _ratio(loads, "rule, gzip", "rule", "the rule, compressing as it sends / not compressing", None)
    yield _ratio(loads, "rule, twins", "rule, gzip", "the rule, sending gzip twins / compressing as it sends", None)


def _ratio(loads: dict[str, list[Load]], ours: str, theirs: str, title: str, target: Target | None) -> Finding:
    ratios = [one.per_second / two.per_second for one, two in zip(loads[ours], loads[theirs], strict=True)]
    facts = {f"{name}_per_second": _median(load.per_second for load in loads[name]) for name in (ours, theirs)}
    facts |= {f"{name}_p99_ms": _median(load.p99 for load in loads[name]) for name in (ours, theirs)}
    return Finding(title, Spread.of(ratios), "times as many", target, facts)


def _median(values: Iterator[float]) -> float:
    median = Spread.of(list(values)).median
    return round(median) if median >= 100 else round(median, 2)
