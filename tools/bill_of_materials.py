"""The packages that a release runs with, as a software bill of materials (CycloneDX).

    python -m tools.bill_of_materials OUT

It is made from requirements/runtime.lock alone, so that it is the same wherever it is made.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import exporter

LOCK = Path(__file__).parent.parent / "requirements" / "runtime.lock"


def bill_of_materials(lock: str) -> dict[str, Any]:
    """The document for the text of a lock: each package with its version and the SHA-256 of its files."""
    blocks = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)[^\n]*\\?\n((?: +--hash=\S+.*\n)*)", lock, re.MULTILINE)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "lending-markets-exporter",
                "version": exporter.__version__,
                "purl": f"pkg:pypi/lending-markets-exporter@{exporter.__version__}",
            }
        },
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
                "hashes": [
                    {"alg": "SHA-256", "content": digest} for digest in re.findall(r"sha256:([0-9a-f]{64})", hashes)
                ],
            }
            for name, version, hashes in blocks
        ],
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill_of_materials(LOCK.read_text()), indent=1) + "\n")
