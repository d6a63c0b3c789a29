"""The list of crates that the contract host is built from, as far as it can be looked at without cargo."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.host.crates import LIST, locked, read_list


def test_the_list_has_the_pinned_crates() -> None:
    """What Cargo.toml names is pinned to one version, and that version is in the list, once."""
    manifest = tomllib.loads((LIST.parent / "Cargo.toml").read_text())
    crates = [(name, version) for name, version, _ in read_list()]
    for name, wanted in manifest["dependencies"].items():
        requirement = wanted if isinstance(wanted, str) else wanted["version"]
        crate = name if isinstance(wanted, str) else wanted.get("package", name)

        assert requirement.startswith("=")
        assert 1 == crates.count((crate, requirement.removeprefix("=")))


def test_the_list_is_sorted_and_has_checksums() -> None:
    """Each line is a crate with the SHA-256 of its file, in order, so that changes are easy to see."""
    crates = read_list()

    assert sorted(crates) == crates
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for _, _, checksum in crates)


def test_a_lock_is_read_without_the_project_itself(tmp_path: Path) -> None:
    """The packages of a lock are those that come from the registry."""
    lock = tmp_path / "Cargo.lock"
    lock.write_text(
        'version = 4\n[[package]]\nname = "own"\nversion = "0.0.0"\n'
        '[[package]]\nname = "other"\nversion = "1.2.3"\nsource = "registry"\nchecksum = "ab"\n'
    )

    assert ("registry", [("other", "1.2.3", "ab")]) == locked(lock)
