"""Real metas of ledgers, out of the folder of real data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.bounds import decompress


def facts(folder: Path) -> list[dict[str, Any]]:
    """Values that other decoders read from the ledgers of real networks."""
    path = folder / "ledger-facts.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    ledgers: list[dict[str, Any]] = json.loads(path.read_text())["ledgers"]
    return ledgers


def meta_of(folder: Path, name: str) -> bytes:
    """The LedgerCloseMeta in a file of the lake, or of the bare ledgers."""
    path = folder / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else decompress(path.read_bytes())[12:]


def frames(path: Path) -> Iterator[bytes]:
    """The metas of a stream with record marks, as core writes it."""
    data, position = path.read_bytes(), 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big") & 0x7FFFFFFF
        yield data[position + 4 : position + 4 + length]
        position += 4 + length
