"""The answers of known contracts' view functions, from the entries they would read.

Each module has the rule of one contract, or of one family of releases: how its entries show what it is, and what its
functions make of them. `exporter.ledger.contract_storage` puts them together; docs/oracles.md has layouts and sources.
"""
