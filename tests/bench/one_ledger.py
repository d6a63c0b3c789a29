"""Reading 1,000 quiet entries and 5 that change at every ledger, while a ledger closes every three requests."""

from __future__ import annotations

import asyncio
import math
from random import Random

from exporter.ledger.source import MAX_KEYS_PER_REQUEST
from exporter.ledger.view import LedgerView, Reading, read_at_one_ledger
from tests.bench.timing import Finding, Spread, Target
from tests.chain_simulator import Chain, ChainSource

QUIET, BUSY = 1_000, 5
REQUESTS_PER_LEDGER = 3
HANDFUL = 5
State = dict[bytes, bytes | None]


def run(quick: bool = False) -> list[Finding]:
    """The rounds, and the requests against the least possible, over many orders in which the keys are asked for."""
    results = [read(seed) for seed in range(2 if quick else 100)]
    least = math.ceil((QUIET + BUSY) / MAX_KEYS_PER_REQUEST)
    rounds = Spread.of([float(rounds) for rounds, _ in results])
    requests = Spread.of([float(requests) for _, requests in results])
    facts = {"least_possible_requests": least, "requests": requests.median, "orders": len(results)}
    where = f"{QUIET:,} quiet entries and {BUSY} busy ones, a ledger every {REQUESTS_PER_LEDGER} requests"
    worst = Spread(rounds.high, rounds.low, rounds.high, rounds.count)
    return [
        Finding(f"{where}: most rounds to a common ledger", worst, "rounds", Target(HANDFUL, at_least=False), facts),
        Finding(f"{where}: requests / the least possible", requests.times(1 / least), "times as many", None, facts),
    ]


def read(seed: int) -> tuple[int, int]:
    """The rounds and requests of one reading; AssertionError when what it read is not the chain's state."""
    busy = [f"busy {number}".encode() for number in range(BUSY)]
    keys = [f"quiet {number}".encode() for number in range(QUIET)] + busy
    Random(seed).shuffle(keys)
    chain = Chain()
    for key in keys:
        chain.put(key, b"value")
    for _ in range(50):
        chain.close_ledger()

    def change(chain: Chain) -> None:
        for key in busy:
            chain.put(key, str(chain.ledger + 1).encode())

    chain.on_close = change
    chain.close_ledger()
    source = ChainSource(chain, requests_per_ledger=REQUESTS_PER_LEDGER)

    async def program(view: LedgerView) -> State:
        entries = await view.read(keys)
        return {key: None if entry is None else entry.raw.data for key, entry in entries.items()}

    reading: Reading[State] = asyncio.run(read_at_one_ledger(source, program))
    truth = {key: chain.at(key, reading.certificate.ledger) for key in keys}
    if reading.result != {key: None if raw is None else raw.data for key, raw in truth.items()}:
        raise AssertionError(f"seed {seed}: what was read is not the state of ledger {reading.certificate.ledger}")
    return reading.certificate.rounds, len(source.log)
