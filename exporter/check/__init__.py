"""Checking a tree: that every promise of the API holds in it, told from the files alone."""
