"""What is wrong in a tree: a fault for each thing, and the error that has all of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from exporter.errors import CheckError, pluralize

MAX_SHOWN_FAULTS = 20
"""Largest number of faults that a message lists one by one; it counts the rest."""


class Fault(Struct, frozen=True, order=True):
    """One thing that is wrong in a tree: the key of the file in which it shows, and a text that says what it is."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class TreeFaultsError(CheckError):
    """A tree failed its checks. ``faults`` has everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        shown = [f"  {fault}" for fault in faults[:MAX_SHOWN_FAULTS]]
        if len(faults) > len(shown):
            shown.append(f"  and {len(faults) - len(shown)} more")
        super().__init__("\n".join((f"the tree fails its checks: {pluralize(len(faults), 'fault')}", *shown)))
        self.faults = tuple(faults)
