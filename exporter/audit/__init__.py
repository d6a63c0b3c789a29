"""Judges a published tree: checks, renders again, verifies, proves and compares it with the chain."""
