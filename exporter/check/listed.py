"""The files that a run lists, and keys that were seen, held as hashes."""

from __future__ import annotations

import polars as pl

from exporter.tree.run_listing import RunListing


class Keys:
    """A set of keys by 60 bits of their hashes, which Python salts anew in each process: a few dozen bytes a key.

    Of a million keys two have the same hash in one of two million runs.
    """

    def __init__(self) -> None:
        self._hashes: set[int] = set()

    def add(self, key: str) -> bool:
        """Add a key; False where it is there already."""
        known = len(self._hashes)
        self._hashes.add(hash(key) >> 4)
        return len(self._hashes) > known

    def __contains__(self, key: object) -> bool:
        return hash(key) >> 4 in self._hashes

    def __len__(self) -> int:
        return len(self._hashes)


class Listed:
    """The files that a run lists, as far as they are known before they are seen."""

    def __init__(self, listing: RunListing | None = None) -> None:
        self.frame = (RunListing.of(()) if listing is None else listing).whole()
        self._keys = Keys()
        for key in self.frame["key"]:
            self._keys.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def histories(self) -> pl.DataFrame:
        """The keys and digests of the newest documents of all histories."""
        of_history = pl.col("key").str.starts_with("v1/") & pl.col("key").str.contains("/history/", literal=True)
        return self.frame.filter(of_history).select("key", "sha256")
