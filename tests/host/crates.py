"""The crates that the contract host is built from: a list of names, versions and checksums, and cargo's lock from it.

A Cargo.lock names the registry that it was made with, so none is kept. ``python -m tests.host.crates FOLDER`` gives the
copy of tests/host/machine in FOLDER one that has exactly the crates of tests/host/machine/crates.txt;
``--write`` makes that list again from what cargo resolves today.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

LIST = Path(__file__).parent / "machine" / "crates.txt"

Crate = tuple[str, str, str]
"""Name, version, SHA-256 of the crate's file."""


def read_list() -> list[Crate]:
    """The crates of the list."""
    found = []
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, version, checksum = line.split()
            found.append((name, version, checksum))
    return found


def locked(lock: Path) -> tuple[str, list[Crate]]:
    """Which registry a lock names, and the crates in it. The project's own package has no source."""
    packages = [package for package in tomllib.loads(lock.read_text())["package"] if "source" in package]
    sources = {package["source"] for package in packages}
    if len(sources) != 1:
        raise SystemExit(f"error: {lock} names {len(sources)} registries; one is expected")
    return sources.pop(), sorted((package["name"], package["version"], package["checksum"]) for package in packages)


def main(arguments: list[str]) -> None:
    """Give the program's folder a lock, and end with an error unless it has exactly the crates of the list."""
    write = "--write" in arguments
    folder = Path(next(argument for argument in arguments if argument != "--write"))
    lock = folder / "Cargo.lock"
    lock.unlink(missing_ok=True)
    _cargo(folder, "generate-lockfile")
    registry, resolved = locked(lock)
    wanted = resolved if write else read_list()
    got = _resolve_with(folder, registry, wanted)
    while write and wanted != got:  # fewer every time: of two versions that both would do, one is enough
        wanted, got = got, _resolve_with(folder, registry, got)
    if write:
        lines = [f"{name} {version} {checksum}\n" for name, version, checksum in got]
        LIST.write_text("# Made by scripts/test-host --lock: name, version, SHA-256 of each crate.\n" + "".join(lines))
    elif wanted != got:
        changed = [" ".join(crate) for crate in sorted(set(wanted) ^ set(got))]
        raise SystemExit(
            f"error: cargo does not take the crates of {LIST.name}: {'; '.join(changed[:6])}; "
            "after a change of Cargo.toml write the list again with scripts/test-host --lock"
        )


def _resolve_with(folder: Path, registry: str, crates: list[Crate]) -> list[Crate]:
    """What cargo takes when it is given a lock of these crates, without what depends on what: that it adds itself."""
    entries = [
        f'\n[[package]]\nname = "{name}"\nversion = "{version}"\nsource = "{registry}"\nchecksum = "{checksum}"\n'
        for name, version, checksum in crates
    ]
    (folder / "Cargo.lock").write_text("version = 4\n" + "".join(entries))
    _cargo(folder, "fetch")
    return locked(folder / "Cargo.lock")[1]


def _cargo(folder: Path, command: str) -> None:
    if subprocess.run(["cargo", "--quiet", command], cwd=folder, check=False).returncode:
        raise SystemExit(f"error: cargo {command} failed; its message above says why")


if __name__ == "__main__":
    main(sys.argv[1:])
