"""Checking a tree: that every promise of the API holds in it, from the files alone."""
