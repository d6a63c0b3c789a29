"""The public ledger lake: its objects, and the state of watched entries after each ledger."""
