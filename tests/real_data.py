"""Real ledger data next to the checkout: where it lies, and how its public originals are fetched and verified.

``python -m tests.real_data FOLDER`` brings the originals that tests/real_data.txt lists into a folder, each checked
against its size and SHA-256. What is there already, whole, is not fetched again.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote, urlsplit

import httpx

PROJECT_ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FOLDER = PROJECT_ROOT.parent / "shared" / "data" / "real"
VARIABLE = "EXPORTER_REAL_DATA"
LIST = Path(__file__).with_suffix(".txt")
RAW_FILES = "https://raw.githubusercontent.com"

MAX_BYTES = 64 * 2**20
"""Of one file: no list may ask for more."""


class FetchError(Exception):
    """A file that could not be brought, or is not what the list says; the message names it."""


@dataclass(frozen=True, slots=True)
class Original:
    """A public file: its digest and size, its ``repository/commit/path``, and its place in the folder."""

    sha256: str
    size: int
    source: str
    place: str

    def lies_in(self, folder: Path) -> bool:
        """Whether the file is there, byte for byte."""
        path = folder / self.place
        return path.is_file() and path.stat().st_size == self.size and self.is_in(path.read_bytes())

    def is_in(self, data: bytes) -> bool:
        """Whether these bytes are the file's."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256


def originals(text: str) -> list[Original]:
    """The files of a list. Raises `FetchError` naming a line that is invalid, too large, or leads out of the folder."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        parts = line.split(" ")
        if len(parts) != 4 or len(parts[0]) != 64 or not parts[1].isdecimal() or int(parts[1]) > MAX_BYTES:
            raise FetchError(f"line {number}: is not a digest, size, source and place, or above {MAX_BYTES} bytes")
        if any(PurePosixPath(part).is_absolute() or ".." in part.split("/") for part in parts[2:]):
            raise FetchError(f"line {number}: leads out of the folder")
        found.append(Original(parts[0], int(parts[1]), parts[2], parts[3]))
    return found


def fetch(wanted: list[Original], folder: Path, base_url: str = RAW_FILES) -> Iterator[str]:
    """Bring files into a folder and say of each what was done.

    Raises `FetchError` at the first that cannot be had or is another; a file is either there whole or not at all.
    Redirections are not followed, and nothing but HTTPS is, except to this machine.
    """
    target = urlsplit(base_url)
    if target.scheme != "https" and (target.scheme, target.hostname) not in (("http", "127.0.0.1"), ("http", "::1")):
        raise FetchError(f"{base_url}: only https is fetched from (http from 127.0.0.1)")
    with httpx.Client(timeout=30, follow_redirects=False, trust_env=True) as client:
        for original in wanted:
            if original.lies_in(folder):
                yield f"{original.place}: is there"
                continue
            data = _download(client, f"{base_url.rstrip('/')}/{quote(original.source)}", original.size)
            if not original.is_in(data):
                raise FetchError(f"{original.source}: is not the file that the list means (size or SHA-256 differ)")
            path = folder / original.place
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + ".part")
            partial.write_bytes(data)
            partial.replace(path)
            yield f"{original.place}: fetched, {original.size} bytes"


def _download(client: httpx.Client, url: str, size: int) -> bytes:
    data = bytearray()
    try:
        with client.stream("GET", url) as response:
            if response.status_code != 200:
                raise FetchError(f"{url}: HTTP status {response.status_code}")
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > size:
                    raise FetchError(f"{url}: more than the {size} bytes that the list says")
    except httpx.HTTPError as error:
        raise FetchError(f"{url}: {type(error).__name__}: {error}") from error
    return bytes(data)


def main() -> int:
    """Fetch what the list says; 1 when a file cannot be had, or is another."""
    parser = argparse.ArgumentParser(prog="scripts/test-real --fetch", description="Fetch the public originals.")
    parser.add_argument("folder", type=Path, help="where they go")
    parser.add_argument("--base-url", default=RAW_FILES, help="of a mirror, instead of %(default)s")
    arguments = parser.parse_args()
    try:
        for line in fetch(originals(LIST.read_text(encoding="utf-8")), arguments.folder, arguments.base_url):
            print(line)
    except (FetchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
