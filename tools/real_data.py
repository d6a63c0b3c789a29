"""Real ledger data next to the checkout: where it lies, and how its public originals are fetched and verified.

``python -m tools.real_data FOLDER`` brings the originals that tools/real_data.txt lists into a folder, each checked
against its size and SHA-256. What is there already, whole, is not fetched again.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from urllib.parse import quote

import httpx

PROJECT_ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FOLDER = PROJECT_ROOT.parent / "shared" / "data" / "real"
VARIABLE = "EXPORTER_REAL_DATA"
LIST = Path(__file__).with_suffix(".txt")
RAW_FILES = "https://raw.githubusercontent.com"


def fetch(folder: Path, base_url: str = RAW_FILES) -> None:
    """Bring the files of the list into a folder; ends the program at the first that cannot be had or is another.

    A file is either there whole or not at all. Redirections are not followed.
    """
    lines = [line.split(" ") for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    with httpx.Client(timeout=30) as client:
        for digest, size, source, place in lines:
            path = folder / place
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
                print(f"{place}: is there")
                continue
            data = bytearray()
            with client.stream("GET", f"{base_url.rstrip('/')}/{quote(source)}") as response:
                response.raise_for_status()
                for chunk in response.iter_bytes():
                    data += chunk
                    if len(data) > int(size):
                        break
            if hashlib.sha256(data).hexdigest() != digest:
                sys.exit(f"error: {source}: is not the file that the list means (size or SHA-256 differ)")
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + ".part")
            partial.write_bytes(data)
            partial.replace(path)
            print(f"{place}: fetched, {size} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/suite real --fetch", description="Fetch the public originals.")
    parser.add_argument("folder", type=Path, help="where they go")
    parser.add_argument("--base-url", default=RAW_FILES, help="of a mirror, instead of %(default)s")
    arguments = parser.parse_args()
    try:
        fetch(arguments.folder, arguments.base_url)
    except (httpx.HTTPError, OSError) as error:
        sys.exit(f"error: {type(error).__name__}: {error}")
