"""Prints the sums of what the tests against the contract host counted: ``python -m tests.host.counted FILE``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def main(path: Path) -> None:
    """One line a thing counted."""
    total: Counter[str] = Counter()
    for line in path.read_text().splitlines():
        what, number = json.loads(line)
        total[what] += number
    for what, number in sorted(total.items()):
        print(f"{number:>10,}  {what}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
