"""A network that the embedded RPC server serves: a chain, what its contracts answer, and how it moves on."""

from __future__ import annotations

from exporter.deployments.networks import NETWORKS, network_id
from exporter.errors import SnapshotFileError
from exporter.ledger.snapshot_file import LedgerSnapshot
from exporter.localnet.answers import Answering, PlayedAnswers
from exporter.localnet.chain import Chain


class LocalNetwork:
    """The served network: a chain with a passphrase. No ledger of this one closes; `exporter.localnet.player` plays on.

    Calls are answered by storage rules, unless ``contracts`` says how.
    """

    def __init__(
        self, chain: Chain, passphrase: str, protocol_version: int, contracts: Answering | None = None
    ) -> None:
        self.chain = chain
        self.passphrase = passphrase
        self.protocol_version = protocol_version
        self.contracts = contracts or PlayedAnswers()

    def advance(self) -> int:
        """Close one more ledger, where the network can, and give the latest one's number."""
        return self.chain.latest


def snapshot_network(snapshot: LedgerSnapshot, passphrase: str | None = None) -> LocalNetwork:
    """The network of a ledger snapshot file: one ledger that no other follows.

    The file names its network by the hash of the passphrase only; ``passphrase`` is needed for a network that
    `exporter.deployments.networks` does not know. Raises `SnapshotFileError` when no known or given passphrase has
    that hash.
    """
    known = [network.passphrase for network in NETWORKS.values()] if passphrase is None else [passphrase]
    for candidate in known:
        if network_id(candidate) == snapshot.network_id:
            chain = Chain(snapshot.entries, start_ledger=snapshot.ledger, start_time=snapshot.close_time)
            return LocalNetwork(chain, candidate, snapshot.protocol_version)
    problem = "a network that is not known here: give its passphrase" if passphrase is None else "another network"
    raise SnapshotFileError(f"the ledger snapshot file is of {problem} (its network_id is {snapshot.network_id})")
