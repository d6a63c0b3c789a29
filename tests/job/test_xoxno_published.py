"""XOXNO from the embedded network to the page: what its aggregator gives as a map stands as a price in the output."""

from __future__ import annotations

import json
from pathlib import Path

from exporter.deployments.made_addresses import made_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import address, symbol, vec
from exporter.ledger.source import ContractCall
from exporter.localnet.made import MadeNetwork, Others
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.stores.memory import MemoryStore
from tests.jobs import run, settings_for


def test_prices_through_the_map(tmp_path: Path) -> None:
    """Every hub market whose token the aggregator prices has that very price in its document and on its page.

    The aggregator's answer is a map with a status for each of the tokens, one of which it does not know
    (XOXNO/rs-lending-xlm at 5a27d74f, interfaces/price-aggregator/src/lib.rs:17).
    """
    network = MadeNetwork(pools=1, others=Others(xoxno_pools=8))
    xoxno = network.others.xoxno
    store = MemoryStore()
    with running(create_app(network)) as url:
        assert 0 == run(settings_for(tmp_path, url), store)[0]
    status = json.loads(text(store, "v1/system/status.json"))

    tokens = sorted({market.token for market in xoxno.markets})
    keys = vec(*(vec(symbol("Token"), address(token)) for token in tokens))
    call = ContractCall(made_address("localnet xoxno price aggregator"), "quotes", (keys,))
    simulation = network.contracts.simulate(network.chain, status["observed_ledger"], call)
    assert simulation.result is not None
    kind, pairs = decode_scval(simulation.result)
    assert (scval.MAP, len(tokens)) == (kind, len(pairs))
    statuses = {key[1][1][1]: {name[1]: item[1] for name, item in value[1]} for key, value in pairs}

    shown = {}
    for market in xoxno.markets:
        pool = f"{market.hub}-{market.token}"
        document = json.loads(text(store, f"v1/assets/{xoxno.controller}/{pool}.json"))
        price = shown[pool] = document["oracle_price_usd"]
        given = statuses[market.token]
        assert price == (decimal(given["final_wad"]) if given["valid"] else None)
        if price is not None:
            assert price.rstrip("0")[:8] in text(store, f"pools/{xoxno.controller}/{pool}.html")
    assert 8 == len(shown)
    assert {xoxno.stale, xoxno.unpriced, xoxno.deviating} == {
        pool.partition("-")[2] for pool, price in shown.items() if price is None
    }


def decimal(price: int) -> str:
    """A WAD as it is published."""
    return f"{price // 10**18}.{price % 10**18:018}"


def text(store: MemoryStore, key: str) -> str:
    """A file that has to be there."""
    stored = store.get(key)
    assert stored is not None, key
    return stored.data.decode()
