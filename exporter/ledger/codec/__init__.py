"""XDR: ledger keys and entries, contract values (ScVal), addresses (strkey) and ledger headers."""
