"""The program that checks proofs, which every tree publishes, and the digests by which readers recognise it."""

from __future__ import annotations

import hashlib
from importlib.resources import files

_HERE = "exporter.past.archive"
"""The package that has the program and the lists of trusted organisations. They are read as data, never imported."""


def verifier_file() -> bytes:
    """The bytes of the program that checks proofs."""
    return files(_HERE).joinpath("stellar_proof.py").read_bytes()


def checker_digests(network: str | None = None) -> dict[str, str]:
    """The SHA-256 of the program that checks proofs, and of the lists of trusted organisations, by file name.

    If a network is named, only its list is there.
    """
    lists = sorted(files(_HERE).joinpath("trusted").iterdir(), key=lambda file: file.name)
    digests = {"stellar_proof.py": verifier_file()} | {
        f"trusted/{file.name}": file.read_bytes()
        for file in lists
        if file.name.endswith(".json") and network in (None, file.name.removesuffix(".json"))
    }
    return {name: hashlib.sha256(content).hexdigest() for name, content in digests.items()}
