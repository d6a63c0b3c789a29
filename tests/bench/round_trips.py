"""Reading a network of mainnet's shape from an RPC that takes 100 ms to answer: requests, how many follow each other.

The chain has all that the package's lists know of mainnet, with made entries. It is read twice with one memory: the
first time as a new installation does, which looks at all the events that are kept. Seconds are at the default rate;
round trips are told where no rate spaces requests, with the default number of them at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from time import perf_counter

from exporter.config import NetworkSettings, Settings
from exporter.deployments.networks import network_id, network_of
from exporter.discovery.known_markets import Memory
from exporter.job.reading import OpenSource, read_markets, router_for
from exporter.ledger.rpc.client import RpcEvent, RpcSource
from exporter.ledger.rpc.endpoints import RpcLimits
from exporter.localnet.behaviour import Behaviour
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.bench.timing import Finding, Spread, Target
from tests.job.mainnet_chain import MAINNET, MainnetChain

LATENCY_S = 0.1
REPEATS = 5
TARGETS = {"round trips": 8, "requests": 20, "s": 4}


def run(quick: bool = False) -> list[Finding]:
    """The first run into an output and the next one, each several times."""
    chain = MainnetChain(found=0, reserves=(1,))
    figures: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with running(create_app(chain, Behaviour(latency=LATENCY_S))) as url:
        for paced in (False, True) * (1 if quick else REPEATS):
            memory = Memory(network_id(MAINNET.passphrase))
            for which in ("first run", "next run"):
                seconds, asked = _read(url, memory, RpcLimits() if paced else RpcLimits(requests_per_second=10_000))
                figures[which, "requests"].append(len(asked))
                if paced:
                    figures[which, "s"].append(seconds)
                else:
                    figures[which, "round trips"].append(in_a_row(asked))
    where = f"reading {chain.pools} pools of mainnet's lists, {1000 * LATENCY_S:g} ms to each answer"
    return [
        Finding(f"{where}, {which}: {unit}", Spread.of(values), unit, Target(TARGETS[unit], at_least=False))
        for (which, unit), values in figures.items()
    ]


def in_a_row(asked: list[tuple[float, float]]) -> int:
    """The most of these requests, by when they began and ended, of which each began after another's end."""
    best: list[tuple[float, int]] = []
    for began, ended in sorted(asked):
        best.append((ended, 1 + max((count for end, count in best if end <= began), default=0)))
    return max(count for _, count in best)


def _read(url: str, memory: Memory, limits: RpcLimits) -> tuple[float, list[tuple[float, float]]]:
    """The seconds of a reading, and its requests."""
    asked: list[tuple[float, float]] = []
    settings = Settings(network=NetworkSettings(name="mainnet", rpc_urls=(url,)))

    def note(event: RpcEvent) -> None:
        asked.append((perf_counter() - event.seconds, perf_counter()))

    async def work() -> float:
        started = perf_counter()
        async with RpcSource([url], settings.passphrase, limits=limits, on_event=note) as source:
            opened = OpenSource(source, network_of(settings.passphrase), [], "bench", source.counters)
            await read_markets(settings, opened, memory, router_for(settings, opened))
        return perf_counter() - started

    return asyncio.run(work()), asked
