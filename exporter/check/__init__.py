"""Checking each file of a tree: its digest, its schema, its links, and numbers that follow from each other."""
