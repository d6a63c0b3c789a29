"""The embedded network: a Stellar RPC server for the demo, the tests and the benchmarks.

    network = RecordedNetwork(copies=3, seed=1)                      # exporter.localnet.player
    network = snapshot_network(LedgerSnapshot.load(path))            # exporter.localnet.network
    app = create_app(network, Behaviour(lags=(0, 2), latency=0.05))  # exporter.localnet.server
    with running(app) as url: ...                                    # a socket, in a thread

``network.advance()`` closes a ledger. ``network.chain`` has the true state at each ledger.
"""
