"""The answers of known contracts' view functions from the entries that they would read (docs/oracles.md)."""
