"""Writes the files of a tree anew, as barely as Python can: ``python -m tests.bench.bare_writing TREE FOLDER``.

The files are read into memory first. What writing them took of the processor is printed. A process of its own, so that
nothing else is measured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from time import process_time

from tests.bench.child import run_child

TRIES = 5


def write_bare(root: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files by key below a new folder: each folder made once, nothing checked, renamed or made durable."""
    made = set[str]()

    def make(folder: str) -> None:
        if folder not in made:
            if folder != root:
                make(folder.rpartition("/")[0])
            os.mkdir(folder)  # noqa: PTH102 - as bare as it gets
            made.add(folder)

    for key, data in files:
        path = f"{root}/{key}"
        make(path.rpartition("/")[0])
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        os.write(descriptor, data)
        os.close(descriptor)


def bare_seconds(tree: Path, folder: Path) -> float:
    """Seconds of processor time for writing the files of ``tree`` into ``folder``: the least of some tries.

    The least, because making room in memory for so many files takes the system another time at each try.
    """
    cost = run_child([sys.executable, "-m", "tests.bench.bare_writing", str(tree), str(folder)])
    if cost.exit_code != 0:
        raise RuntimeError(f"bare writing ended with code {cost.exit_code}:\n{cost.output}")
    return float(cost.output)


def _main(tree: str, folder: str) -> None:
    files = [(str(path.relative_to(tree)), path.read_bytes()) for path in Path(tree).rglob("*") if path.is_file()]
    took = []
    for _ in range(TRIES):
        began = process_time()
        write_bare(folder, files)
        took.append(process_time() - began)
        shutil.rmtree(folder)
    print(min(took))


if __name__ == "__main__":
    _main(*sys.argv[1:])
