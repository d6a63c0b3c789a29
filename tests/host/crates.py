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


def resolve(folder: Path, command: str) -> tuple[str, list[str]]:
    """Let cargo write a lock; gives the registry that it names, and its crates. The project's own has no source."""
    if subprocess.run(["cargo", "--quiet", command], cwd=folder, check=False).returncode:
        raise SystemExit(f"error: cargo {command} failed; its message above says why")
    packages = [each for each in tomllib.loads((folder / "Cargo.lock").read_text())["package"] if "source" in each]
    crates = sorted((each["name"], each["version"], each["checksum"]) for each in packages)
    return packages[0]["source"], list(map(" ".join, crates))


def main(arguments: list[str]) -> None:
    """Give the program's folder a lock, and end with an error unless it has exactly the crates of the list."""
    write = "--write" in arguments
    folder = Path(next(argument for argument in arguments if argument != "--write"))
    (folder / "Cargo.lock").unlink(missing_ok=True)
    registry, got = resolve(folder, "generate-lockfile")
    wanted = [] if write else [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    while wanted != got:  # with --write there are fewer every time: of two versions that both would do, one is enough
        wanted = got if write else wanted
        lock = "version = 4\n"
        for crate in wanted:  # without what depends on what: that cargo adds itself
            name, version, checksum = crate.split()
            lock += f'\n[[package]]\nname = "{name}"\nversion = "{version}"\nsource = "{registry}"\n'
            lock += f'checksum = "{checksum}"\n'
        (folder / "Cargo.lock").write_text(lock)
        _, got = resolve(folder, "fetch")
        if wanted != got and not write:
            changed = "; ".join(sorted(set(wanted) ^ set(got))[:6])
            raise SystemExit(
                f"error: cargo does not take the crates of {LIST.name}: {changed}; "
                "after a change of Cargo.toml write the list again with scripts/suite host --lock"
            )
    if write:
        lines = "".join(f"{crate}\n" for crate in got)
        LIST.write_text(f"# Made by scripts/suite host --lock: name, version, SHA-256 of each crate.\n{lines}")


if __name__ == "__main__":
    main(sys.argv[1:])
