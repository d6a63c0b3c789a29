"""Reads ledger entries and contract calls, from a Stellar RPC or a stored ledger, as the state of one ledger."""
