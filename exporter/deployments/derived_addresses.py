"""Addresses that are ours: of the recorded network, and of tests."""

from __future__ import annotations

import hashlib

from exporter.ledger.codec import strkey


def derived_address(label: str) -> str:
    """The address of a contract: its id is the SHA-256 of a label."""
    return strkey.encode_contract(hashlib.sha256(label.encode()).digest())
