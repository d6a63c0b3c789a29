"""The command ``exporter demo``: gives a recorded network a past, and publishes a run of it.

The ledger follows from the wall clock, so that a later demo into the same output has a later ledger. Events are kept
for a month, so that the later demo misses none. An output with a history keeps it. The network moves through the same
past again, so that the markets are where the earlier demo left them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from exporter.config import load
from exporter.console import Console
from exporter.durations import duration_text
from exporter.history.manifest import read_history_manifest
from exporter.job.run import RunResult, run
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.codec.scval_encode import symbol
from exporter.localnet.lake_writer import live_into_lake, live_through, remember
from exporter.localnet.player import NETWORK, RecordedNetwork, copies_for
from exporter.localnet.server import Behaviour, create_app, running
from exporter.protocols.movement import NumberField
from exporter.publishing.acceptance import refuse_files_of_others
from exporter.stores import open_store
from exporter.stores.store import Store

CLOSE_SECONDS = 5
"""Time between two ledgers while the last run reads."""

QUIET_LEDGERS = 30 * 86_400 // CLOSE_SECONDS
"""Number of ledgers whose events the network keeps: a month."""

FIRST_MOVES = 3
"""How often every pool moves before anything is published, so that markets have their usual size."""

PAST_CLOSE_SECONDS = 4 * 3_600
"""Time between two ledgers of the past."""

PAST_EVERY_SECONDS = 8 * 3_600
"""Time between two observations of the past."""

ON_ICE = 3
"""The status of Blend's markets in a new demo's first run, so that its second run has changes to show."""

_FIRST_LEDGER = 65_000_000
_FIRST_TIME = 1_790_000_000


class _Demo(Struct, frozen=True):
    """One demo: its network, its output, and the settings of its runs."""

    network: RecordedNetwork
    store: Store
    is_new: bool
    settings: dict[str, object]
    console: Console

    def publish(self, behaviour: Behaviour) -> RunResult:
        """Run the exporter against the network, served as an RPC that behaves like this."""
        with running(create_app(self.network, behaviour)) as url:
            settings = load(None, self.settings | {"network.rpc_urls": [url]}, environment={}).settings
            return run(settings, console=self.console)

    def live(self, past: timedelta, ledgers: int) -> None:
        """Move the network through its past, but for the two ledgers of `blend_on_ice`.

        A new output gets the history of it, from a lake.
        """
        what = f"simulating {duration_text(past)}{' and replaying them' if self.is_new else ''}"
        with (
            self.console.step("past", what) as facts,
            tempfile.TemporaryDirectory(prefix="exporter-lake-") as name,
        ):
            facts.update(ledgers=ledgers)
            if not self.is_new:
                live_through(self.network, ledgers - 2)
                return
            folder = Path(name)
            state = live_into_lake(self.network, ledgers - 2, folder)
            settings = load(None, self.settings, environment={}).settings
            added = remember(self.network, state, folder, PAST_EVERY_SECONDS, settings, self.store)
            facts.update(observations=added.added, rows=added.rows)

    @contextmanager
    def blend_on_ice(self) -> Iterator[None]:
        """Close a ledger in which Blend's markets are on ice, and at the end one in which they are as before."""
        network = self.network
        markets = {pool.market for pool in network.pools if pool.protocol == "blend"}
        statuses = [NumberField(instance_key(market), (symbol("Config"), symbol("status"))) for market in markets]
        before = {status.key: network.look(status.key) for status in statuses}
        self._close({status.key: status.write(network.look, ON_ICE) for status in statuses})
        yield
        self._close(before)

    def _close(self, written: dict[bytes, bytes | None]) -> None:
        """Close a ledger of the past with these entries, and with new prices."""
        network = self.network
        close_time = network.chain.close_time(network.chain.latest) + PAST_CLOSE_SECONDS
        network.close(written | network.prices.advance(close_time))


def run_demo(
    console: Console, out: str, pools: int | None, seed: int, past: timedelta, report: str | None
) -> RunResult:
    """Publish a run of a recorded network into an output, after ``past`` if the output is new. Raises `ExporterError`.

    ``pools`` is the number of pools of the network; None leaves it as it was recorded.
    """
    now = int(time.time())
    ledger = _FIRST_LEDGER + (now - _FIRST_TIME) // CLOSE_SECONDS
    console.event("demo", f"a recorded network, at ledger {ledger}", ledger=ledger)
    store = open_store(out)
    is_new = read_history_manifest(store, older=True) is None
    if is_new:
        refuse_files_of_others(store)
    past_ledgers = past // timedelta(seconds=PAST_CLOSE_SECONDS)
    before = past_ledgers + FIRST_MOVES
    network = RecordedNetwork(
        copies=copies_for(pools),
        seed=seed,
        start_ledger=ledger - before,
        start_time=now - now % CLOSE_SECONDS - before * PAST_CLOSE_SECONDS,
        close_seconds=PAST_CLOSE_SECONDS,
        window=QUIET_LEDGERS,
        quiet_ledgers=QUIET_LEDGERS,
    )
    settings: dict[str, object] = {
        "network.name": NETWORK,
        "network.requests_per_second": 1000.0,  # the network is on this machine
        "output.uri": out,
        "output.report": report,
        # No list names the copies, so the settings do.
        "markets": [{"protocol": "blend", "address": market} for market in network.copies],
    }
    demo = _Demo(network, store, is_new, settings, console)
    network.settle(FIRST_MOVES)
    if past_ledgers:
        demo.live(past, past_ledgers)
        with demo.blend_on_ice():
            if is_new:
                demo.publish(Behaviour())
    network.close_seconds = CLOSE_SECONDS
    return demo.publish(Behaviour(advance_every_seconds=CLOSE_SECONDS))
