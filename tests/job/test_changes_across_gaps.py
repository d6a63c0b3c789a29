"""Runs die at each operation of the store while markets are unread in turns. No change is lost or said twice."""

from __future__ import annotations

import io
from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from exporter.localnet.player import RecordedNetwork
from exporter.stores.memory import MemoryStore
from exporter.stores.store import Store
from exporter.tree.families import CHANGES_TABLE
from tests.job_runs import run, settings_for
from tests.localnet.recorded import BLEND_V1, BLEND_V2, only, readable, unreadable, with_collateral_factor
from tests.stores.bucket_simulator import WRITES, BucketSimulator, SimulatedKill, content

pytestmark = pytest.mark.usefixtures("without_pages")

MARKETS = (BLEND_V1, BLEND_V2)
FLAGS: dict[str, Any] = only("blend") | {"output__page_sizes": [1, 50], "output__default_page_size": 50}


def publish(store: Store, network: RecordedNetwork, **options: Any) -> None:
    run(settings_for(**FLAGS), store, network=network, **options)


class Step(NamedTuple):
    """What a change says of one parameter."""

    observed_ledger: int
    previous_ledger: int
    before: str
    after: str


def steps_of(store: Store) -> dict[str, list[Step]]:
    """The changes of collateral factors by market, ascending, as the table of all changes has them."""
    rows = pq.read_table(io.BytesIO(content(store, CHANGES_TABLE.only_key))).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    found = defaultdict[str, list[Step]](list)
    for row in rows:
        if row["kind"] == "parameter":
            found[row["market"]].append(Step(*(row[name] for name in Step._fields)))
    return found


class Chain:
    """A network whose markets change their collateral factors in each ledger, and are unread in turns.

    Attributes:
        factors: the factor that each market has, by its address.
    """

    def __init__(self) -> None:
        self.network = RecordedNetwork()
        self.factors: dict[str, str] = {}
        self._step = 0

    def close(self, unread: str | None) -> None:
        """Close a ledger in which both factors change, and this market alone cannot be read."""
        self._step += 1
        written: dict[bytes, bytes | None] = {}
        for market in MARKETS:
            factor = 1_000_000 + self._step
            self.factors[market] = f"{factor / 10**7:.7f}".rstrip("0")
            written |= with_collateral_factor(self.network, market, factor)
            written |= (unreadable if market == unread else readable)(self.network, market)
        self.network.close(written)

    def check(self, store: Store) -> int:
        """Each market's changes lead from one to the next, up to what it has now. Returns their number."""
        steps = steps_of(store)
        for market in MARKETS:
            own = steps[market]
            assert all(
                (earlier.after, earlier.observed_ledger) == (later.before, later.previous_ledger)
                for earlier, later in pairwise(own)
            )
            assert self.factors[market] == own[-1].after
        return sum(map(len, steps.values()))


@pytest.mark.slow
def test_deaths_at_each_write() -> None:
    """A run dies after each of its writes. It and the run before it and after it each miss another market."""
    chain, base = Chain(), MemoryStore()
    for unread in (None, BLEND_V1):
        chain.close(unread)
        publish(base, chain.network)
    chain.close(BLEND_V2)
    trial = BucketSimulator(MemoryStore(base))
    publish(trial, chain.network)
    positions = [position for position, call in enumerate(trial.calls) if call.operation in WRITES]
    left = list[MemoryStore]()
    for position in positions:
        store = MemoryStore(base)
        dying = BucketSimulator(store)
        dying.die_at(position)
        with pytest.raises(SimulatedKill):
            publish(dying, chain.network)
        left.append(store)
    for unread in (BLEND_V1, None):
        chain.close(unread)
        for store in left:
            publish(store, chain.network)
    changes = sum(map(chain.check, left))

    print(f"{len(left)} deaths, {changes} changes of collateral factors")  # the figures of a report
    assert len(left) > 50
