"""A reader that walks everything that is published, all the time, and writes down every promise that is broken."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from functools import cache

import msgspec

from exporter.publishing.published_state import Pointer
from exporter.tree.documents import ManifestFile, RunManifest
from exporter.tree.families import POINTER_KEY, alias_of
from exporter.tree.files import FileKind
from exporter.tree.run_listing import RunListing
from tests.publishing.published_tree import MadeRun, make_run
from tests.render.rendering import contract

Fetch = Callable[[str], bytes | None]
"""Gives the bytes under a key, None where the bucket says 404; ConnectionError where it cannot be asked."""

_LEDGER = re.compile(rb'@(\d+)"|"observed_ledger": ?(\d+)|Ledger (\d+)')


@cache
def run_at(ledger: int) -> MadeRun:
    """The run of a ledger: the number of its pools differs from run to run, and one market comes and goes."""
    markets = {contract(1): 2 + ledger % 4, contract(2): 2}
    if ledger % 3 == 0:
        markets[contract(3)] = 3
    return make_run(ledger, markets)


def ledger_of(data: bytes) -> int:
    """The ledger that a document of a made-up run states; 0 where there is none."""
    match = _LEDGER.search(data)
    return 0 if match is None else int(next(group for group in match.groups() if group is not None))


class Reader:
    """One reader. ``broken`` holds a sentence for every promise that was not kept.

    Args:
        fetch: reads a key.
        grace: seconds for which a run that a reader began with must stay whole.
    """

    def __init__(self, fetch: Fetch, grace: float = 3600.0) -> None:
        self.broken: list[str] = []
        self.walks = self.rounds = 0
        self.newest = 0
        self._fetch = fetch
        self._grace = grace
        self._newest: dict[str, int] = {}
        self._began = 0.0

    def look(self) -> None:
        """Look at everything once: the pointer, all that its run lists, the aliases, and every walk to its end."""
        self._began = time.monotonic()
        data = self._get(POINTER_KEY)
        if data is None:
            if self.newest:
                self._report(POINTER_KEY, "is gone")
            return
        pointer = msgspec.json.decode(data, type=Pointer)
        self._not_back(POINTER_KEY, pointer.observed_ledger)
        self.newest = max(self.newest, pointer.observed_ledger)
        alias = alias_of(POINTER_KEY)
        status = None if alias is None else self._get(alias)
        if alias is not None and status is not None:
            self._not_back(alias, msgspec.json.decode(status, type=Pointer).observed_ledger)
        manifest = self._get(pointer.manifest_key)
        if manifest is None or hashlib.sha256(manifest).hexdigest() != pointer.manifest_sha256:
            self._report(pointer.manifest_key, "is missing" if manifest is None else "is another one")
            return
        listing = self._listing(manifest)
        if listing is None:
            self._report(pointer.manifest_key, "names a listing that is missing or another one")
            return
        for file in listing:
            self._file(file, pointer.observed_ledger)
        self.rounds += 1

    def keep_looking(self, until: threading.Event) -> None:
        """Look again and again; a bucket that does not answer for a moment breaks no promise."""
        while not until.is_set():
            try:
                self.look()
            except (ConnectionError, TimeoutError):
                time.sleep(0.01)

    def _file(self, file: ManifestFile, pointer_ledger: int) -> None:
        data = self._get(file.key)
        if data is None:
            if file.kind != FileKind.DOCUMENT or self._still_listed(file.key):
                self._report(file.key, f"is missing, though the run of ledger {pointer_ledger} lists it")
        elif file.kind != FileKind.DOCUMENT:
            if hashlib.sha256(data).hexdigest() != file.sha256:
                self._report(file.key, f"does not have the digest that the run of ledger {pointer_ledger} gives")
        else:
            self._document(file.key, data, pointer_ledger)
            alias = alias_of(file.key)
            if alias is not None:
                self._alias(alias, pointer_ledger, file.key)

    def _document(self, key: str, data: bytes, pointer_ledger: int) -> None:
        ledger = ledger_of(data)
        self._not_back(key, ledger)
        run = run_at(ledger)
        if ledger < pointer_ledger:
            self._report(key, f"is of ledger {ledger}, though the published ledger is {pointer_ledger}")
        elif data != run.document(key):
            self._report(key, f"is not what the run of ledger {ledger} rendered")
        elif key in run.rows:
            self._walk(key, data, run)

    def _walk(self, key: str, data: bytes, run: MadeRun) -> None:
        rows: list[str] = []
        page = json.loads(data)
        for _ in range(1_000):
            rows += page["data"]
            if page["next_cursor"] is None:
                break
            page_key = f"v1/pages/{page['next_cursor']}.json"
            following = self._get(page_key)
            if following is None:
                self._report(page_key, f"is missing in the walk from {key} of ledger {run.ledger}")
                return
            page = json.loads(following)
        if rows != run.rows[key]:
            self._report(key, f"leads to {rows}")
        self.walks += 1

    def _alias(self, alias: str, pointer_ledger: int, of: str) -> None:
        data = self._get(alias)
        if data is None:
            if self._still_listed(of):
                self._report(alias, f"is missing, though there is {of}")
            return
        ledger = ledger_of(data)
        self._not_back(alias, ledger)
        if ledger < pointer_ledger:
            self._report(alias, f"is of ledger {ledger}, though the published ledger is {pointer_ledger}")
        elif data != run_at(ledger).document(of):
            self._report(alias, f"is not what the run of ledger {ledger} rendered")

    def _still_listed(self, key: str) -> bool:
        """Whether the run that is published now lists a document."""
        data = self._get(POINTER_KEY)
        manifest = None if data is None else self._get(msgspec.json.decode(data, type=Pointer).manifest_key)
        listing = None if manifest is None else self._listing(manifest)
        if listing is None or listing.sha256_of(key) is None:
            return False
        return self._get(key) is None

    def _listing(self, manifest: bytes) -> RunListing | None:
        read = msgspec.json.decode(manifest, type=RunManifest)
        data = self._get(read.files_key)
        if data is None or hashlib.sha256(data).hexdigest() != read.files_sha256:
            return None
        return RunListing.from_parquet(data)

    def _not_back(self, key: str, ledger: int) -> None:
        before = self._newest.get(key, 0)
        if ledger < before:
            self._report(key, f"went back from ledger {before} to {ledger}")
        self._newest[key] = max(before, ledger)

    def _get(self, key: str) -> bytes | None:
        return self._fetch(key)

    def _report(self, key: str, text: str) -> None:
        if time.monotonic() - self._began < self._grace:
            self.broken.append(f"{key} {text}")
