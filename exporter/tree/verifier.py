"""The program that checks proofs, as a file that trees publish, and the digests by which readers know it."""

from __future__ import annotations

import hashlib
from importlib.resources import files

_HERE = "exporter.past.archive"
"""The folder of the program and of the lists of trusted organisations. They are read as data, never imported."""


def verifier_file() -> bytes:
    """The program that checks proofs."""
    return files(_HERE).joinpath("stellar_proof.py").read_bytes()


def checker_digests(network: str | None = None) -> dict[str, str]:
    """The SHA-256 of the program that checks proofs and of the lists that come with it, or of one network's."""
    lists = sorted(files(_HERE).joinpath("trusted").iterdir(), key=lambda file: file.name)
    digests = {"stellar_proof.py": verifier_file()} | {
        f"trusted/{file.name}": file.read_bytes()
        for file in lists
        if file.name.endswith(".json") and network in (None, file.name.removesuffix(".json"))
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in digests.items()}
