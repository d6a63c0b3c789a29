"""Writes the recording and its lists of contracts into the package."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.recording import lists, parts, recording

PACKAGE = Path(__file__).parents[2] / "exporter"

if __name__ == "__main__":
    folder = Path(sys.argv[1] if sys.argv[1:] else PACKAGE.parents[1] / "shared" / "data")
    found = parts(folder)
    for protocol, text in lists(found).items():
        target = PACKAGE / "deployments" / "local" / f"{protocol}.toml"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    (PACKAGE / "localnet" / "recording.bin").write_bytes(recording(found).packed())
