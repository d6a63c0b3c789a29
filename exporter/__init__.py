"""Exact snapshots of every lending market on Soroban, as files."""

__version__ = "0.1.0"
