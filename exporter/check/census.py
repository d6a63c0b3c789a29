"""The census of a tree: that its counts agree. Only its archives show whether they are the network's."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.discovery.census import LENDING, Kind
from exporter.past.archive.archive_files import checkpoint_of
from exporter.tree.documents import Census


def census_faults(census: Census, network: str) -> Iterator[str]:
    """The faults of a census in a tree of this network (its passphrase)."""
    if census.network != network:
        yield f"$.network is {census.network!r}, but the status says {network!r}"
    if census.checkpoint != checkpoint_of(census.checkpoint):
        yield f"$.checkpoint is {census.checkpoint}, which is not a checkpoint"
    if (total := sum(census.counts.values())) != census.contract_count:
        yield f"$.contract_count is {census.contract_count}, but its kinds sum up to {total}"
    for kind in LENDING:
        of_codes = sum(item.contracts for item in census.codes if item.kind == kind)
        if of_codes != census.counts.get(kind, 0):
            yield f"$.counts.{kind} is {census.counts.get(kind, 0)}, but its codes sum up to {of_codes}"
    places = [(LENDING.index(Kind(item.kind)) if item.kind in LENDING else -1, item.address) for item in census.unread]
    if places != sorted(set(places)) or any(place < 0 for place, _ in places):
        yield "$.unread must have lending contracts, by kind and address, each once"
    if len(census.unread) > census.unread_count:
        yield f"$.unread_count is {census.unread_count}, but {len(census.unread)} are listed"
