"""The organisations whose signatures count: the exporter's own list for each network, or a list that a reader gives."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from exporter.deployments.networks import network_of
from exporter.errors import ConfigError
from exporter.past.archive.stellar_proof import Proven, RefusedError, Trust, read_file, read_trust

MAX_BYTES = 1 << 20
_HERE = "exporter.past.archive"


def trust_of(passphrase: str, path: Path | None = None) -> Trust:
    """The organisations of a file, or else those that are known for a network. Raises `ConfigError`."""
    content, name = trust_file(passphrase, path)
    try:
        trust = read_trust(content)
    except RefusedError as error:
        raise ConfigError(f"{name}: {error}") from None
    if trust.network != passphrase:
        raise ConfigError(f"{name}: it is of the network {trust.network!r}, not of {passphrase!r}")
    return trust


def trust_file(passphrase: str, path: Path | None = None) -> tuple[bytes, str]:
    """The list in a file, or the packaged one, and its name. Raises `ConfigError` where there is none to read."""
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
    """How many of the trusted organisations signed. One signed if more than half of its validators did."""
    return sum(2 * proven.signed[name] > len(keys) for name, keys in trust.organisations.items())
