"""Reads the list of proofs in a published tree."""

from __future__ import annotations

import msgspec

from exporter.errors import StoreError
from exporter.stores.store import Store
from exporter.tree.decoding import decode_json
from exporter.tree.documents import Proof, ProofList
from exporter.tree.families import PROOFS


def published_proofs(store: Store) -> list[Proof]:
    """The proofs that a tree lists, none if it has no list. Raises `StoreError` if the list cannot be understood."""
    stored = store.get(PROOFS.only_key)
    try:
        return [] if stored is None else decode_json(stored.data, ProofList).proofs
    except msgspec.DecodeError as error:
        raise StoreError(f"{PROOFS.only_key} cannot be understood ({error}); remove it, and prove again") from None
