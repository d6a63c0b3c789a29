"""History out of the network's own past, the ledger lake, on any number of workers."""
