"""A set of very many keys in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class KeySet:
    """A set of keys by 64 bits of their hashes, which Python salts anew in each process.

    It takes 12 to 48 bytes a key, where a ``set`` of as many integers takes about 90. Of a million keys two have the
    same hash in one of 40 million runs.
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._slots = array("Q", bytes(8 * 1024))  # each a hash, or 0, which is free; a power of two of them
        self._count = 0
        for key in keys:
            self.add(key)

    def add(self, key: str) -> bool:
        """Add a key; False where it is there already."""
        if key in self:
            return False
        if 3 * self._count > 2 * len(self._slots):
            taken = filter(None, self._slots)
            self._slots = array("Q", bytes(4 * 8 * len(self._slots)))
            for wanted in taken:
                self._put(wanted)
        self._put(hash(key) & _ALL_BITS or 1)
        self._count += 1
        return True

    def __contains__(self, key: object) -> bool:
        wanted, slots, last = hash(key) & _ALL_BITS or 1, self._slots, len(self._slots) - 1
        place = wanted & last
        while found := slots[place]:
            if found == wanted:
                return True
            place = (place + 1) & last
        return False

    def __len__(self) -> int:
        return self._count

    def _put(self, wanted: int) -> None:
        slots, last = self._slots, len(self._slots) - 1
        place = wanted & last
        while slots[place]:
            place = (place + 1) & last
        slots[place] = wanted


_ALL_BITS = (1 << 64) - 1
