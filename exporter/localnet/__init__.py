"""The embedded network: a Stellar RPC server of our own, for the demo, the tests and the benchmarks.

It speaks the real protocol over HTTP, over the recorded network (recording.md) or over a ledger snapshot file:

    network = RecordedNetwork(copies=3, seed=1)                      # exporter.localnet.player
    network = snapshot_network(LedgerSnapshot.load(path))            # exporter.localnet.network
    behaviour = Behaviour(lags=(0, 2), latency=0.05)                 # exporter.localnet.behaviour
    app = create_app(network, behaviour)                             # exporter.localnet.server

    with running(app) as url: ...                                    # exporter.localnet.runner: a socket, in a thread
    httpx.AsyncClient(transport=httpx.ASGITransport(app))            # no socket

``network.advance()`` closes a ledger, ``network.chain`` has the true state at each (`Chain.entry`, `Chain.state`).
``behaviour.counts`` counts the calls.

This package imports its HTTP libraries in the modules that need them, so import from those modules, not from here.
"""
