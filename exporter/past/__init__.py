"""What the network published of its own past: ledger lakes and history archives, and proofs made from them."""
