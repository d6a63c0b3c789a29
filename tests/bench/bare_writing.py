"""Writes the files of a tree anew, as barely as Python can: ``python -m tests.bench.bare_writing TREE FOLDER``.

All files are read into memory first. Then each folder is made once and each file written once, with nothing checked,
renamed or made durable; what that took of the processor is printed. A process of its own, so that nothing else is
measured.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import process_time

from tests.bench.child import run_child


def bare_seconds(tree: Path, folder: Path) -> float:
    """Seconds of processor time for writing the files of ``tree`` into ``folder``, which does not exist yet."""
    cost = run_child([sys.executable, "-m", "tests.bench.bare_writing", str(tree), str(folder)])
    if cost.exit_code != 0:
        raise RuntimeError(f"bare writing ended with code {cost.exit_code}:\n{cost.output}")
    return float(cost.output)


def _main(tree: str, folder: str) -> None:
    files, folders = [], []
    for place, _, names in os.walk(tree):
        there = folder + place.removeprefix(tree)
        folders.append(there)
        files += [(f"{there}/{name}", Path(place, name).read_bytes()) for name in names]
    began = process_time()
    for place in folders:
        os.mkdir(place)  # noqa: PTH102 - as bare as it gets
    for path, data in files:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        os.write(descriptor, data)
        os.close(descriptor)
    print(process_time() - began)


if __name__ == "__main__":
    _main(*sys.argv[1:])
