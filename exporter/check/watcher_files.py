"""What monitors, feed readers and lists of yields take from a tree: that it can be read, and is of the run."""

from __future__ import annotations

import codecs
import io
import re
from xml.etree import ElementTree

import msgspec

from exporter.check.summary import Whole
from exporter.errors import CheckError
from exporter.tree.decoding import decode_json

_ATOM = "{http://www.w3.org/2005/Atom}"
_SAMPLE = re.compile(r"[a-z_]+(?:\{[^\n]*\})? [0-9]+(?:\.[0-9]+)?")
_RUN_LEDGER = "lending_run_ledger "
_END = b"# EOF\n"
_PART_BYTES = 1 << 20


class _Row(msgspec.Struct):
    """An object of which nothing is kept: of each pool there is one."""


class _Yields(msgspec.Struct):
    data: list[_Row]


class Watchers:
    """The feeds, the metrics and the yields of a tree."""

    def __init__(self, whole: Whole) -> None:
        self._whole = whole

    def read_feed(self, data: bytes) -> None:
        """Take a feed apart. Raises `CheckError` where a reader could not."""
        if b"<!" in data:
            raise CheckError("has a declaration or a comment, which no feed of a tree has")
        try:
            feed = ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise CheckError(f"is not XML: {error}") from error
        parts = (feed, *feed.iterfind(f"{_ATOM}entry"))
        if feed.tag != f"{_ATOM}feed" or feed.find(f"{_ATOM}author/{_ATOM}name") is None:
            raise CheckError("is not an Atom feed with an author")
        for part in parts:
            for name in ("id", "title", "updated"):
                if not part.findtext(_ATOM + name):
                    raise CheckError(f"has a feed or an entry without {name}")
        entries = [part.findtext(f"{_ATOM}id", "") for part in parts[1:]]
        if len(set(entries)) < len(entries):
            raise CheckError("has an entry twice")

    def read_metrics(self, data: bytes) -> None:
        """Take the metrics apart. Raises `CheckError` where a monitor could not."""
        if not data.endswith(b"\n" + _END):
            raise CheckError("does not end with # EOF and a line feed")
        lines, ledgers = io.BytesIO(data), []
        while lines.tell() < len(data) - len(_END):  # one at a time: of each pool there are ten
            line = lines.readline().decode().removesuffix("\n")
            if line.startswith(_RUN_LEDGER):
                ledgers.append(line.removeprefix(_RUN_LEDGER))
            if not line.startswith(("# HELP ", "# TYPE ")) and _SAMPLE.fullmatch(line) is None:
                raise CheckError(f"has a line that is not a sample: {line[:100]}")
        if ledgers != [str(self._whole.run.observed_ledger)]:
            found = " and ".join(ledgers) or "none"
            raise CheckError(f"is of ledger {found}, but the run is of ledger {self._whole.run.observed_ledger}")

    def read_yields(self, data: bytes) -> None:
        """Take a file of yields apart. Raises `ValueError` where a reader could not."""
        text = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(data), _PART_BYTES):  # fields that are not kept are not looked at for it
            text.decode(data[start : start + _PART_BYTES])
        text.decode(b"", final=True)
        decode_json(data, _Yields)
