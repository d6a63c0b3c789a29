"""Reads the list of organisations whose signatures count: the packaged list of a network, or a reader's own list."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from exporter.deployments.networks import network_of
from exporter.errors import ConfigError
from exporter.past.archive.stellar_proof import Proven, RefusedError, Trust, read_file, read_trust

MAX_BYTES = 1 << 20
_HERE = "exporter.past.archive"


def trust_of(passphrase: str, path: Path | None = None) -> Trust:
    """The trusted organisations in a file; without a file, those of the packaged list for a network.

    Raises `ConfigError` if the list cannot be read, is of another network, or there is none for this network.
    """
    content, name = trust_file(passphrase, path)
    try:
        trust = read_trust(content)
    except RefusedError as error:
        raise ConfigError(f"{name}: {error}") from None
    if trust.network != passphrase:
        raise ConfigError(f"{name}: it is of the network {trust.network!r}, not of {passphrase!r}")
    return trust


def trust_file(passphrase: str, path: Path | None) -> tuple[bytes, str]:
    """The content of a list, and its name: the file's, or the packaged one's.

    Raises `ConfigError` if there is no such list or it cannot be read.
    """
    if path is not None:
        try:
            return read_file(str(path), MAX_BYTES), path.name
        except OSError as error:
            raise ConfigError(f"--trust {path.name}: it cannot be read: {error.strerror or error}") from None
    name = network_of(passphrase).name
    file = files(_HERE).joinpath("trusted", f"{name}.json")
    if not file.is_file():
        raise ConfigError(
            f"no organisations are known to trust on the network {passphrase!r}; name them in a file with --trust "
            "(docs/proofs.md has its form)"
        )
    return file.read_bytes(), f"{name}.json"


def signed_by(proven: Proven, trust: Trust) -> int:
    """The number of trusted organisations that signed: those with more than half of their validators."""
    return sum(2 * proven.signed[name] > len(keys) for name, keys in trust.organisations.items())
