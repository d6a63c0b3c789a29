"""Runs over a recorded network at several ledgers, and the archive that its validators' messages prove."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporter.config import load
from exporter.ledger.codec import strkey
from exporter.ledger.codec.entries import instance_key
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import create_app, running
from tests.job.recorded_archive import records_of
from tests.job_runs import run
from tests.localnet.recorded import BLEND_V2, pools_of
from tests.past.archive.simulated_archive import ORGANISATIONS, PASSPHRASE, SimulatedArchive, trust_document

TIME = 1_700_000_000
CHECKPOINT = 127


class SignedNetwork:
    """A recorded network up to ledger 127, one second for each, in which Blend's v2 market of four pools moves.

    ``archive`` is the folder of a history archive that proves the state at ledger 127, ``trust`` the file that says
    by whose messages.
    """

    def __init__(self, folder: Path, first: int, without_pools: int = 0) -> None:
        """Args: where archive and trust are written; the first ledger; a later one at which no pool can be read."""
        network = RecordedNetwork(start_ledger=first, start_time=TIME + first, close_seconds=1)
        network.pools = pools_of(network, BLEND_V2)
        tokens = {key: network.look(key) for key in (instance_key(pool.token) for pool in network.pools)}
        while network.chain.latest < CHECKPOINT:
            if network.chain.latest == without_pools - 1:
                network.close(dict.fromkeys(tokens))
            elif network.chain.latest == without_pools:
                network.close(tokens)
            else:
                network.advance()
        self.state = {ledger: network.chain.state(ledger) for ledger in range(first, CHECKPOINT + 1)}
        records = records_of(self.state[CHECKPOINT])
        self.archive, self.trust = folder / "archive", folder / "trust.json"
        SimulatedArchive(self.archive, [records], hot=[[]], version=25, kind=3)
        self.trust.write_bytes(trust_document(ORGANISATIONS))

    def publish(
        self,
        out: Path,
        ledger: int,
        entries: Mapping[bytes, RawEntry] | None = None,
        since: int = TIME,
        replaced_ledger: int | None = None,
    ) -> None:
        """A run over an RPC of the network, or over one that has other entries; ``since`` is when ledger 0 closed."""
        chain = Chain(entries or self.state[ledger], start_ledger=ledger, start_time=since + ledger)
        with running(create_app(LocalNetwork(chain, PASSPHRASE, 25))) as url:
            values = {
                "network.passphrase": PASSPHRASE,
                "network.max_ledger_age": "0s",
                "network.rpc_urls": [url],
                "network.requests_per_second": 10_000.0,
                "discovery.enabled": False,
                "output.uri": str(out),
                "output.page_sizes": [1, 50],
                "markets": [{"protocol": "blend", "address": BLEND_V2}],
            }
            run(load(None, values, environment={}).settings, replaced_ledger=replaced_ledger)


def keys_named(entries: Mapping[bytes, RawEntry], name: bytes) -> list[bytes]:
    """The keys of the market's entries that have a name in them, sorted."""
    own = strkey.decode(BLEND_V2)[1]
    return sorted(key for key, entry in entries.items() if key[8:40] == own and name in key and entry.live_until)
