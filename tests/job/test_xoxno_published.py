"""XOXNO from the recorded network to the page: what its aggregator gives as a map is a price in the output."""

from __future__ import annotations

import json
from pathlib import Path

from exporter.deployments.networks import NETWORKS
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import variant_key
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.protocols.xoxno.prices import quotes_call
from exporter.stores.memory import MemoryStore
from tests.jobs import run, settings_for

(LISTED,) = (item for item in NETWORKS[NETWORK].deployments if item.protocol == "xoxno")


def test_prices_through_the_map(tmp_path: Path) -> None:
    """Every hub market whose token the aggregator prices has that very price in its document and on its page.

    The aggregator's answer is a map with a status for each of the tokens, one of which it does not know
    (XOXNO/rs-lending-xlm at 5a27d74f, interfaces/price-aggregator/src/lib.rs:17).
    """
    aggregator = LISTED.address("price_aggregator")
    assert aggregator is not None
    unknown = LISTED.pools[0].token
    oracle = variant_key(aggregator, "Oracle", vec(symbol("Token"), address(unknown)))
    network, store = RecordedNetwork(without=[oracle], close_seconds=300), MemoryStore()
    network.advance([])  # dollars are no longer worth the same
    with running(create_app(network)) as url:
        assert 0 == run(settings_for(tmp_path, url), store)[0]
    status = json.loads(text(store, "v1/system/status.json"))

    tokens = sorted({pool.token for pool in LISTED.pools})
    answer = network.contracts.simulate(network.chain, status["observed_ledger"], quotes_call(aggregator, tokens))
    assert answer.result is not None
    kind, pairs = decode_scval(answer.result)
    assert (scval.MAP, 4) == (kind, len(pairs))
    statuses = {key[1][1][1]: {name[1]: item[1] for name, item in value[1]} for key, value in pairs}

    shown = {}
    for pool in LISTED.pools:
        document = json.loads(text(store, f"v1/assets/{pool.market}/{pool.pool}.json"))
        price = shown[pool.token] = document["oracle_price_usd"]
        given = statuses[pool.token]
        assert price == (decimal(given["final_wad"]) if given["valid"] else None)
        if price is not None:
            assert price.rstrip("0")[:8] in text(store, f"pools/{pool.market}/{pool.pool}.html")
    assert [unknown] == [token for token, price in shown.items() if price is None]
    assert 4 == len({*shown.values()})  # so that no price is taken for another's


def decimal(price: int) -> str:
    """A WAD as it is published."""
    return f"{price // 10**18}.{price % 10**18:018}"


def text(store: MemoryStore, key: str) -> str:
    """A file that has to be there."""
    stored = store.get(key)
    assert stored is not None, key
    return stored.data.decode()
