"""The same Blend pools from the same RPC, read by Blend's own SDK, by a plain script of stellar-sdk, and by us.

`exporter.read` is given the same markets as the two others. Each reading is a process of its own, and its figures
include the start of Python or Node. The network is this process.

A judge holds what a reading gives to every ledger that was the newest while it ran. Shares times index must be the
amount, and the price must be the oracle's, for all reserves at one ledger: otherwise the numbers are of no single
ledger.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.observation import Entry
from exporter.ledger.oracles import by_address
from exporter.ledger.source import ContractCall
from exporter.localnet.player import RecordedNetwork, copies_for
from exporter.localnet.server import Behaviour, create_app, running
from exporter.protocols.blend import layout
from exporter.protocols.movement import MovingPool
from tests.served_commands import PROJECT_ROOT
from tools.bench.table import Row

SIZES = (24, 165)
"""Pools of the recorded network with its copies. Of these, 6 and 150 are reserves of Blend."""

LATENCY, CLOSES = 0.200, 5.0
"""Seconds before each answer in the slow readings, and from ledger to ledger while the network moves."""

ROUNDS, MOVING, MOVING_OF_SDK = 7, 6, 1

CHANGED_IN_A_LEDGER = 20
"""How many pools change in each ledger that closes."""

FOLDER = Path(__file__).parent
INSTALLED = PROJECT_ROOT / "build" / "peers"
"""The folder in which ``scripts/bench peers`` installs Blend's SDK."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
    "PYTHONPATH": os.pathsep.join((str(FOLDER / "plain"), str(PROJECT_ROOT))),
    "PYTHONPYCACHEPREFIX": str(INSTALLED / "bytecode"),
}
"""Python as in a plain installation: with the bytecode of all modules, which a first reading makes, and with no more
packages than the exporter brings."""

SCALES = {"v1": 10**9, "v2": 10**12}
_SECONDS_LIMIT = 300


class Peer(NamedTuple):
    """A way to read pools: its name in the table, and the command that gets the URL, the markets and the passphrase."""

    name: str
    command: Sequence[str | Path]
    options: Sequence[str] = ()


OURS = Peer("exporter.read", (sys.executable, FOLDER / "exporter_read.py"))
SCRIPT = Peer("the script", (sys.executable, FOLDER / "plain_script.py"))
SDK = Peer("Blend's SDK", ("node", FOLDER / "blend_sdk.mjs"), ("one-by-one",))
SDK_AT_ONCE = Peer("the SDK with all markets at once", ("node", FOLDER / "blend_sdk.mjs"), ("all-at-once",))


@dataclass(frozen=True, slots=True)
class Measured:
    """One reading: seconds by the clock and of the processor, peak memory, and what it asked the network."""

    numbers: list[dict[str, str]]
    seconds: float
    processor_seconds: float
    peak_bytes: int
    requests: int
    calls: int
    """JSON-RPC calls; a request may have several."""
    keys: int
    ledgers: range
    """The ledgers that were the newest while it ran."""


@dataclass(slots=True)
class Asked:
    """Counts HTTP requests, the JSON-RPC calls and ledger keys in them, before an application answers them."""

    app: ASGIApp
    requests: int = 0
    calls: int = 0
    keys: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()

        async def counted() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    self.requests += 1
                    content = json.loads(body)
                    for call in content if isinstance(content, list) else [content]:
                        self.calls += 1
                        self.keys += (call.get("params") or {}).get("keys") or ()
            return message

        await self.app(scope, counted, send)


class BusyNetwork(RecordedNetwork):
    """A recorded network on which much happens."""

    def advance(self, moved: Sequence[MovingPool] | None = None) -> int:
        count = min(CHANGED_IN_A_LEDGER, len(self.pools))
        return super().advance(self._random.sample(self.pools, count) if moved is None else moved)


class Bench:
    """A recorded network that is served, and the markets of Blend on it with their generations."""

    def __init__(self, pools: int) -> None:
        self.network = BusyNetwork(copies=copies_for(pools))
        self.behaviour = Behaviour()
        self.asked = Asked(create_app(self.network, self.behaviour))
        moving = {pool.market for pool in self.network.pools if pool.protocol == "blend"}
        self.generations = {market: self._instance(market).generation for market in sorted(moving)}
        self.reserves = {
            (market, token): self._instance(market).oracle
            for market in self.generations
            for token in self._tokens(market)
        }

    def _value(self, key: bytes, ledger: int | None = None) -> Entry:
        chain = self.network.chain
        raw = chain.entry(key, chain.latest if ledger is None else ledger)
        assert raw is not None
        return Entry(key, raw)

    def _instance(self, market: str) -> layout.PoolInstance:
        return layout.decode_instance(self._value(instance_key(market)))

    def _tokens(self, market: str) -> tuple[str, ...]:
        return layout.decode_reserve_list(self._value(layout.market_keys(market)[1]))

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        self.behaviour.latency = seconds
        yield
        self.behaviour.latency = 0.0

    @contextmanager
    def moving(self, seconds: float) -> Iterator[None]:
        """Close a ledger at each interval of seconds. It closes when somebody asks next."""
        self.behaviour.advance_every_seconds = seconds
        yield
        self.behaviour.advance_every_seconds = None

    def holds_at(self, ledger: int, numbers: Iterable[dict[str, str]]) -> bool:
        """Whether all numbers are what the ledger's entries and oracles give, as stellar-sdk decodes them."""
        return all(self._number_holds_at(ledger, each) for each in numbers)

    def _number_holds_at(self, ledger: int, number: dict[str, str]) -> bool:
        from stellar_sdk import scval, xdr

        market, token = number["market"], number["token"]
        entry = self._value(layout.reserve_data_key(market, token), ledger)
        data = xdr.LedgerEntryData.from_xdr_bytes(entry.raw.data).contract_data
        assert data is not None
        state: Any = scval.to_native(data.val)
        scale = SCALES[self.generations[market]]
        supplied = state["b_supply"] * int(number["supply_index"]) // scale
        borrowed = -(-state["d_supply"] * int(number["borrow_index"]) // scale)
        call = ContractCall(self.reserves[market, token], "lastprice", (by_address(token),))
        answer = self.network.contracts.simulate(self.network.chain, ledger, call)
        assert answer.result is not None
        price = next(value for (_, name), (_, value) in decode_scval(answer.result)[1] if name == "price")
        return [supplied, borrowed, price] == [int(number[name]) for name in ("supplied", "borrowed", "price")]

    def read(self, peer: Peer) -> Measured:
        """Let a peer read every market once. Raises RuntimeError with what it said if it fails."""
        chain = self.network.chain
        with tempfile.TemporaryDirectory(prefix="bench-") as name, running(self.asked) as url:
            markets = Path(name) / "markets"
            markets.write_text("".join(f"{version} {market}\n" for market, version in self.generations.items()))
            first, requests, keys = chain.latest, self.asked.requests, len(self.asked.keys)
            calls = self.asked.calls
            command = [*peer.command, url, markets, self.network.passphrase, *peer.options]
            began, before = perf_counter(), os.times()
            done = subprocess.run(
                command,
                cwd=INSTALLED if peer.command[0] == "node" else PROJECT_ROOT,
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=_SECONDS_LIMIT,
                check=False,
            )
            seconds, after = perf_counter() - began, os.times()
        if done.returncode:
            raise RuntimeError(f"{peer.name} failed: {done.stderr[-2_000:]}")
        *numbers, peak = done.stdout.splitlines()
        measured = Measured(
            numbers=[json.loads(line) for line in numbers],
            seconds=seconds,
            processor_seconds=sum(after[2:4]) - sum(before[2:4]),  # of children
            peak_bytes=1024 * int(peak),
            requests=self.asked.requests - requests,
            calls=self.asked.calls - calls,
            keys=len(self.asked.keys) - keys,
            ledgers=range(first, chain.latest + 1),
        )
        places = Counter((each["market"], each["token"]) for each in measured.numbers)
        if places != Counter(self.reserves.keys()):
            raise RuntimeError(f"{peer.name} gave {len(places)} of {len(self.reserves)} reserves")
        return measured

    def of_one_ledger(self, measured: Measured) -> bool:
        return any(self.holds_at(ledger, measured.numbers) for ledger in measured.ledgers)


def run(quick: bool = False) -> list[Row]:
    """Measure all peers at each size; without Blend's SDK if ``scripts/bench`` did not install it."""
    has_sdk = (INSTALLED / "node_modules" / ".package-lock.json").is_file()
    others = [SCRIPT, *([SDK, SDK_AT_ONCE] if has_sdk else [])]
    return [row for pools in SIZES[: 1 if quick else None] for row in _side_by_side(Bench(pools), others, quick)]


def _side_by_side(bench: Bench, others: Sequence[Peer], quick: bool) -> list[Row]:
    peers = [OURS, *others]
    for peer in peers:
        bench.read(peer)
    quiet = _in_turn(bench, peers, 1 if quick else ROUNDS)
    for name, readings in quiet.items():
        if not all(map(bench.of_one_ledger, readings)):
            raise RuntimeError(f"{name} differs from the ledger although no ledger closed")
    with bench.slow(0.001 if quick else LATENCY), bench.moving(0.5 if quick else CLOSES):
        slow = {
            peer.name: [bench.read(peer) for _ in range(1 if quick else MOVING_OF_SDK if peer is SDK else MOVING)]
            for peer in peers
        }
    torn = {
        name: f"{sum(not bench.of_one_ledger(each) for each in readings)} of {len(readings)}"
        for name, readings in slow.items()
    }
    where = f"{len(bench.generations)} markets, {len(bench.reserves)} reserves"

    def compared(
        what: str, readings: dict[str, list[Measured]], measure: Callable[[Measured], float], unit: str
    ) -> Row:
        figures = {name: f"{_rounded(median(map(measure, each)))}{unit}" for name, each in readings.items()}
        ratios = [measure(a) / measure(b) for a, b in zip(readings[OURS.name], readings[SCRIPT.name], strict=True)]
        against = ", ".join(f"{peer.name} {figures[peer.name]}" for peer in others)
        return Row(f"{where}: {what}", figures[OURS.name], against, ratios, "times the script's")

    return [
        compared("requests", quiet, lambda each: each.requests, ""),
        compared("JSON-RPC calls in them", quiet, lambda each: each.calls, ""),
        compared("ledger keys", quiet, lambda each: each.keys, ""),
        compared("processor time", quiet, lambda each: each.processor_seconds, " s"),
        compared("time without latency", quiet, lambda each: each.seconds, " s"),
        compared(
            f"time at {1000 * LATENCY:.0f} ms, a ledger each {CLOSES:.0f} s", slow, lambda each: each.seconds, " s"
        ),
        compared("peak memory", quiet, lambda each: each.peak_bytes / 1e6, " MB"),
        Row(
            f"{where}: readings of no single ledger, at {1000 * LATENCY:.0f} ms",
            torn[OURS.name],
            ", ".join(f"{peer.name} {torn[peer.name]}" for peer in others),
        ),
    ]


def _rounded(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:.3g}"


def _in_turn(bench: Bench, peers: Sequence[Peer], rounds: int) -> dict[str, list[Measured]]:
    """Readings of each peer, round by round, so that what disturbs a round disturbs all of them."""
    readings: dict[str, list[Measured]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        for peer in peers if number % 2 else reversed(peers):
            readings[peer.name].append(bench.read(peer))
    return readings
