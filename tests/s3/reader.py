"""A reader that walks everything that is published, all the time, and writes down every promise that is broken."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from exporter.errors import StoreError
from exporter.publishing.published_state import Pointer, read_current_listing, read_published
from exporter.stores.memory import MemoryStore
from exporter.stores.store import StoredObject
from exporter.tree.documents import ManifestFile
from exporter.tree.families import POINTER_KEY, alias_of
from exporter.tree.files import FileKind
from tests.publishing.published_tree import MadeRun, make_run, walk
from tests.render.rendering import contract

Fetch = Callable[[str], bytes | None]
"""Gives the bytes under a key, None where the bucket says 404; ConnectionError where it cannot be asked."""

POINTER_ALIAS = str(alias_of(POINTER_KEY))

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


class _Fetched(MemoryStore):
    """What is fetched, for functions that read a store."""

    def __init__(self, fetch: Fetch) -> None:
        super().__init__()
        self._fetch = fetch

    def get(self, key: str) -> StoredObject | None:
        data = self._fetch(key)
        return None if data is None else StoredObject(data, "")


class Reader:
    """One reader. ``broken`` holds a sentence for every promise that was not kept.

    Args:
        fetch: reads a key.
        grace: seconds for which a run that a reader began with must stay whole.
    """

    def __init__(self, fetch: Fetch, grace: float = 3600.0) -> None:
        self.broken: list[str] = []
        self.walks = self.rounds = 0
        self._fetch, self._store = fetch, _Fetched(fetch)
        self._grace = grace
        self._newest: dict[str, int] = {}
        self._began = 0.0

    def look(self) -> None:
        """Look at everything once: the pointer, all that its run lists, the aliases, and every walk to its end."""
        self._began = time.monotonic()
        try:
            pointer = self._pointer()
            if pointer is None:
                if POINTER_KEY in self._newest:
                    self._report(POINTER_KEY, "is gone")
                return
            self._not_back(POINTER_KEY, pointer.observed_ledger)
            status = self._fetch(POINTER_ALIAS)
            if status is not None:
                self._not_back(POINTER_ALIAS, ledger_of(status))
            listing = read_current_listing(self._store, pointer)
        except StoreError as error:
            self._report("the run", f"cannot be read: {error}")
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
        data = self._fetch(file.key)
        if file.kind == FileKind.DOCUMENT:
            self._document(file.key, file.key, data, pointer_ledger)
            alias = alias_of(file.key)
            if alias is not None:
                self._document(alias, file.key, self._fetch(alias), pointer_ledger)
        elif data is None:
            self._report(file.key, f"is missing, though the run of ledger {pointer_ledger} lists it")
        elif hashlib.sha256(data).hexdigest() != file.sha256:
            self._report(file.key, f"does not have the digest that the run of ledger {pointer_ledger} gives")

    def _document(self, key: str, of: str, data: bytes | None, pointer_ledger: int) -> None:
        """Look at a document, or at the alias of one."""
        if data is None:
            if self._still_listed(of) and self._fetch(key) is None:
                self._report(key, f"is missing, though the run of ledger {pointer_ledger} lists {of}")
            return
        ledger = ledger_of(data)
        self._not_back(key, ledger)
        run = run_at(ledger)
        if ledger < pointer_ledger:
            self._report(key, f"is of ledger {ledger}, though the published ledger is {pointer_ledger}")
        elif data != run.document(of):
            self._report(key, f"is not what the run of ledger {ledger} rendered")
        elif key in run.rows:
            self._walk(key, data, run)

    def _walk(self, key: str, data: bytes, run: MadeRun) -> None:
        try:
            rows = walk(self._store, data)
        except KeyError as error:
            self._report(str(error.args[0]), f"is missing in the walk from {key} of ledger {run.ledger}")
            return
        if rows != run.rows[key]:
            self._report(key, f"leads to {rows}")
        self.walks += 1

    def _pointer(self) -> Pointer | None:
        published = read_published(self._store)
        return None if published is None else published.pointer

    def _still_listed(self, key: str) -> bool:
        """Whether the run that is published now lists a document."""
        with suppress(StoreError):
            pointer = self._pointer()
            return pointer is not None and read_current_listing(self._store, pointer).sha256_of(key) is not None
        return False

    def _not_back(self, key: str, ledger: int) -> None:
        before = self._newest.get(key, 0)
        if ledger < before:
            self._report(key, f"went back from ledger {before} to {ledger}")
        self._newest[key] = max(before, ledger)

    def _report(self, key: str, text: str) -> None:
        if time.monotonic() - self._began < self._grace:
            self.broken.append(f"{key} {text}")
