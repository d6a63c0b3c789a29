"""Reads the network's published past: ledger lakes and history archives, and proofs made from them."""
