"""What the tests against the contract host share: the host, and a real market on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.past.archive.archive_files import FolderFiles
from exporter.past.archive.checkpoint import HistoryArchive
from tests.host.blend_world import World, real_state, start_machine
from tests.host.machine import Machine
from tests.past.archive.archive_snapshot import CheckpointState

_PROGRAM = os.environ.get("CONTRACT_HOST")
_STATES = int(os.environ.get("CONTRACT_HOST_STATES") or 2_000)


@pytest.fixture(scope="session")
def program() -> Path:
    """The contract host; skips if it was not built."""
    if not _PROGRAM:
        pytest.skip("the contract host was not built: scripts/suite host builds it and runs these tests")
    return Path(_PROGRAM)


@pytest.fixture(scope="session")
def archive_state(testnet_archive: Path) -> CheckpointState:
    """All contracts of the testnet archive at its last checkpoint."""
    return real_state(HistoryArchive(FolderFiles(testnet_archive)))


@pytest.fixture(scope="session")
def world(program: Path, archive_state: CheckpointState) -> Iterator[World]:
    """The market with users of our own. Tests begin with ``world.restart()``."""
    with Machine(program) as machine:
        yield World(machine, archive_state)


@pytest.fixture
def untouched(program: Path, archive_state: CheckpointState) -> Iterator[Machine]:
    """A host that has the archive's state and nothing else, with the true ends of the entries' lives."""
    with Machine(program) as machine:
        start_machine(machine, archive_state)
        yield machine


@pytest.fixture(scope="session")
def states() -> int:
    """How many states of a reserve to compare."""
    return _STATES
