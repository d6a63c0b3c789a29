"""The records of a run: its manifest and the listing of its files, against the status that leads to them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from exporter.tree.documents import RunManifest, SystemStatus
from exporter.tree.families import POINTER_KEY, kind_of
from exporter.tree.run_listing import RunListing


def record_faults(
    status: SystemStatus, manifest: RunManifest, content: bytes, listed: RunListing
) -> Iterator[tuple[str, str]]:
    """The faults of the files, by key; ``content`` are the manifest's bytes."""
    key = status.manifest_key
    if hashlib.sha256(content).hexdigest() != status.manifest_sha256:
        yield key, "does not have the digest that the status gives for it"
    if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
        yield key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's"
    if manifest.published_at != status.generated_at:
        yield POINTER_KEY, f"$.generated_at is {status.generated_at}, not the manifest's"
    if manifest.run_id != (made := listed.run_id(manifest.observed_ledger)):
        yield key, f"$.run_id is {manifest.run_id}, but the files listed give {made}"
    if (manifest.file_count, manifest.bytes) != listed.size:
        yield key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {listed.size}"
    for file in listed:
        if file.kind != kind_of(file.key):
            yield key, f"lists {file.key} as a {file.kind}"
