"""The manifest of a run against the files that were seen: all of them, and no other.

Of each file a number goes into a sum, which is the same in whatever order the files come. So no file is kept.
"""

from __future__ import annotations

from exporter.check.summary import Whole
from exporter.tree.documents import RunManifest, SystemStatus
from exporter.tree.families import POINTER_KEY, kind_of
from exporter.tree.read_back import parse_back
from exporter.tree.run_listing import RunListing


class RunFiles:
    """The files that were seen of a run, and what its manifest says of them."""

    def __init__(self) -> None:
        self._seen = 0
        self._manifest: RunManifest | None = None
        self._sha256: dict[str, str] = {}
        self._listed: tuple[int, str, tuple[int, int]] | None = None
        self._misplaced: list[str] = []

    def add(self, key: str, kind: str, size: int, sha256: str) -> None:
        """Take in a file that the manifest must list."""
        self._seen += hash((key, kind, size, sha256))

    def add_manifest(self, key: str, data: bytes, sha256: str) -> None:
        """Take in the manifest. Raises `CheckError` or `ValueError` for what is none."""
        manifest = parse_back(key, data)
        assert isinstance(manifest, RunManifest)  # by its key
        self._manifest, self._sha256[key] = manifest, sha256

    def add_listing(self, key: str, data: bytes, sha256: str) -> None:
        """Take in the listing of the files. Raises `CheckError` for what is none."""
        self._sha256[key] = sha256
        listing, total = RunListing.from_parquet(data), 0
        for file in listing:
            total += hash((file.key, file.kind, file.bytes, file.sha256))
            if file.kind != kind_of(file.key):
                self._misplaced.append(f"lists {file.key} as a {file.kind}")
        self._listed = total, listing.run_id(0).partition("-")[2], listing.size

    def check(self, whole: Whole, status: SystemStatus) -> None:
        """See that the manifest is the one that the status names, and that it lists what was seen."""
        key, manifest = status.manifest_key, self._manifest
        if key not in whole.seen:
            whole.faults.add(key, "is missing, though the status names it as the manifest of the run")
        if manifest is None:
            return
        if self._sha256.get(key) != status.manifest_sha256:
            whole.faults.add(key, "does not have the digest that the status gives for it")
        if manifest.run_id != status.run_id or manifest.observed_ledger != status.observed_ledger:
            whole.faults.add(
                key, f"is of run {manifest.run_id} at ledger {manifest.observed_ledger}, not of the status's"
            )
        if manifest.published_at != status.generated_at:
            whole.faults.add(POINTER_KEY, f"$.generated_at is {status.generated_at}, not the manifest's")
        if manifest.files_key not in whole.seen:
            whole.faults.add(manifest.files_key, "is missing, though the run's manifest names it")
        if self._listed is None:
            return
        total, digest, size = self._listed
        whole.faults.add_all(key, self._misplaced)
        if manifest.run_id != (made := f"{manifest.observed_ledger}-{digest}"):
            whole.faults.add(key, f"$.run_id is {manifest.run_id}, but the files listed give {made}")
        if self._sha256.get(manifest.files_key) != manifest.files_sha256:
            whole.faults.add(manifest.files_key, "does not have the digest that the run's manifest gives for it")
        if (manifest.file_count, manifest.bytes) != size:
            whole.faults.add(key, f"counts {manifest.file_count} files of {manifest.bytes} bytes, but lists {size}")
        if total != self._seen and not whole.partial and not whole.faults.total:
            whole.faults.add(key, "lists other files, or other bytes of them, than were seen")
