"""The published tree: which keys it has, and what follows from a key."""
