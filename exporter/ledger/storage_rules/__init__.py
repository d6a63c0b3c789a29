"""The answers of known contracts' getters from the entries that they would read (docs/oracles.md)."""
