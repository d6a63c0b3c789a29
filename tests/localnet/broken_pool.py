"""A recorded network with a pool that no reader understands."""

from __future__ import annotations

from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import BOOL
from exporter.ledger.codec.scval_encode import encode_scval
from exporter.localnet.chain import Change
from exporter.localnet.player import RecordedNetwork
from exporter.protocols.blend.layout import reserve_data_key
from exporter.tables import PoolKey
from tests.localnet.recorded import BLEND_V2
from tools.recording.tokens import token_address


def network_with_a_broken_pool() -> tuple[RecordedNetwork, PoolKey]:
    """A network in which the entry of one pool of a listed market is not what it must be, and that pool."""
    network = RecordedNetwork()
    pool = PoolKey(BLEND_V2, token_address("USDC"))
    key = reserve_data_key(*pool)
    stored = network.chain.entry(key, network.chain.latest)
    assert stored is not None
    data, value = stored.data, encode_scval(decode_contract_data(stored.data).value)
    at = data.rindex(value)
    broken = data[:at] + encode_scval((BOOL, True)) + data[at + len(value) :]
    network.chain.close(
        [Change(key, broken, stored.live_until)], close_time=network.chain.close_time(network.chain.latest) + 5
    )
    return network, pool
