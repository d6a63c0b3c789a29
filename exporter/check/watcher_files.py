"""What monitors and feed readers take from a tree: that they can read it, and that it is of the run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

from exporter.check.whole import Whole
from exporter.errors import CheckError
from exporter.tree.documents import ChangeList, SystemStatus
from exporter.tree.families import METRICS

_ATOM = "{http://www.w3.org/2005/Atom}"
_SAMPLE = re.compile(r"[a-z_]+(?:\{[^\n]*\})? [0-9]+(?:\.[0-9]+)?")
_RUN_LEDGER = "lending_run_ledger "


@dataclass(frozen=True, slots=True)
class Watched:
    """What is kept of such a file: the ids of a feed's entries, or the ledger of the metrics."""

    entries: tuple[str, ...] = ()
    ledger: str | None = None


def read_feed(data: bytes) -> Watched:
    """Take a feed apart. Raises `CheckError` where a reader could not."""
    if b"<!" in data:
        raise CheckError("has a declaration or a comment, which no feed of a tree has")
    try:
        feed = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise CheckError(f"is no XML: {error}") from error
    parts = (feed, *feed.iterfind(f"{_ATOM}entry"))
    if feed.tag != f"{_ATOM}feed" or feed.find(f"{_ATOM}author/{_ATOM}name") is None:
        raise CheckError("is no Atom feed with an author")
    for part in parts:
        for name in ("id", "title", "updated"):
            if not part.findtext(_ATOM + name):
                raise CheckError(f"has a feed or an entry without {name}")
    return Watched(entries=tuple(part.findtext(f"{_ATOM}id", "") for part in parts[1:]))


def read_metrics(data: bytes) -> Watched:
    """Take the metrics apart. Raises `CheckError` where a monitor could not."""
    *lines, end, nothing = data.decode().split("\n")
    if (end, nothing) != ("# EOF", ""):
        raise CheckError("does not end with # EOF and a line feed")
    for line in lines:
        if not line.startswith(("# HELP ", "# TYPE ")) and _SAMPLE.fullmatch(line) is None:
            raise CheckError(f"has a line that is no sample: {line[:100]}")
    ledgers = [line.removeprefix(_RUN_LEDGER) for line in lines if line.startswith(_RUN_LEDGER)]
    return Watched(ledger=ledgers[0] if len(ledgers) == 1 else "")


def check_watched(whole: Whole, status: SystemStatus, watched: dict[str, Watched]) -> None:
    """See that the metrics are of the run, and that the feeds have the changes that are published."""
    changes = {change.id for listed in whole.of(ChangeList).values() for change in listed.data}
    for key, file in watched.items():
        whole.faults.add_all(key, _faults(status, key, file, changes))


def _faults(status: SystemStatus, key: str, file: Watched, changes: set[str]) -> Iterator[str]:
    if key == METRICS.template and file.ledger != str(status.observed_ledger):
        yield f"is of ledger {file.ledger or 'none'}, but the run is of ledger {status.observed_ledger}"
    if len(set(file.entries)) < len(file.entries):
        yield "has an entry twice"
    strangers = sorted(set(file.entries) - changes)
    if strangers:
        yield f"has the entry {strangers[0]}, which is none of the published changes"
