"""The published tree: its keys, the documents under them, and everything that follows from a key."""
