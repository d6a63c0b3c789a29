"""Lag, failures, latency and moving ledgers on demand, and the log of calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork
from exporter.localnet.server import Behaviour
from tests.localnet.rpc_client import LocalRpc, text

START = DEFAULT_START_LEDGER
HEALTH = b'{"jsonrpc":"2.0","id":7,"method":"getHealth"}'


def rpc_of(advanced: int = 0, **behaviour: Any) -> LocalRpc:
    """A server over a small network that has moved on by some ledgers."""
    network = RecordedNetwork()
    for _ in range(advanced):
        network.advance()
    return LocalRpc(network, Behaviour(**behaviour))


def latest(rpc: LocalRpc, path: str = "/") -> int:
    """The latest ledger that an endpoint says it has."""
    ledger: int = rpc.result("getHealth", path)["latestLedger"]
    return ledger


def test_each_node_lags_by_its_own_ledgers() -> None:
    """A node answers for its own latest ledger, never for one before the first; a balanced endpoint goes round them."""
    rpc = rpc_of(advanced=4, lags=(0, 2, 50))
    key = text(next(iter(rpc.network.chain.known_keys())))

    assert [START + 4, START + 2, START] == [latest(rpc, f"/node/{node}") for node in range(3)]
    assert START + 2 == rpc.result("getLedgerEntries", "/node/1", keys=[key])["latestLedger"]
    assert START + 2 == rpc.result("getLatestLedger", "/node/1")["sequence"]
    assert START + 4 == rpc.simulate(ORACLE, "decimals")["latestLedger"]
    assert [START + ahead for ahead in (2, 0, 4, 2)] == [latest(rpc) for _ in range(4)]


def test_the_chain_advances_by_calls() -> None:
    """Each time this many calls of any method were made, the chain closes a ledger."""
    rpc = rpc_of(advance_every_requests=3)

    assert [START, START, START, START + 1, START + 1, START + 1, START + 2] == [latest(rpc) for _ in range(7)]
    rpc.error("noSuchMethod")
    rpc.result("getNetwork")
    assert START + 3 == rpc.network.chain.latest


def test_the_chain_advances_by_the_clock() -> None:
    """The ledgers that should have closed since the first request are there at the next; the rest of time counts."""
    now = [100.0]
    rpc = rpc_of(advance_every_seconds=5.0, clock=lambda: now[0])

    seen = []
    for seconds in (0.0, 4.9, 0.2, 0.0, 15.0, 4.8, 0.2):
        now[0] += seconds
        seen.append(latest(rpc) - START)
    assert [0, 0, 1, 1, 4, 4, 5] == seen


def test_a_chain_that_is_to_close_faster_than_it_can_still_answers() -> None:
    """A request closes ledgers for half a second, after a long pause and if closing takes longer than it may."""
    now = [100.0]
    rpc = rpc_of(advance_every_seconds=0.02, clock=lambda: now[0])
    advance = rpc.network.advance

    def slowly() -> int:
        now[0] += 0.06
        return advance()

    rpc.network.advance = slowly  # type: ignore[method-assign]
    latest(rpc)
    now[0] += 3600

    before = now[0]
    behind = latest(rpc)
    assert START + 9 == behind
    assert 0.56 > now[0] - before
    assert behind == latest(rpc)


def test_a_share_of_requests_fails() -> None:
    """The given share of requests fails, some with HTTP 503 and some with -32603; the seed decides which."""
    runs = []
    for _ in range(2):
        rpc = rpc_of(fail_rate=0.3, seed=9)
        answers = [rpc.post(HEALTH) for _ in range(200)]
        runs.append([(answer.status_code, b"-32603" in answer.content) for answer in answers])

    assert runs[0] == runs[1]
    outcomes = Counter(runs[0])
    assert {(200, False), (503, False), (200, True)} == set(outcomes)
    assert 100 < outcomes[200, False] < 180
