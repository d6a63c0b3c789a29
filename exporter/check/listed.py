"""The files that a run lists, as far as they are known before they are seen."""

from __future__ import annotations

from exporter.tree.run_listing import RunListing


class Listed:
    """The files that a run lists, as far as they are known before they are seen."""

    def __init__(self, listing: RunListing | None = None) -> None:
        self.frame = (RunListing.of(()) if listing is None else listing).frame
        self._keys = frozenset(self.frame["key"])

    def __contains__(self, key: object) -> bool:
        return key in self._keys
