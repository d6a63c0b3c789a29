"""Checking each file of a tree: its digest, its schema, and its links."""
