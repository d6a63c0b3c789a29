"""Fixtures of the audit's tests."""

from __future__ import annotations

import pytest

from exporter.past.archive_source import FromArchive
from tests.job.recorded_archive import recorded_archive
from tests.past.archive.simulated_archive import SimulatedArchive


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[SimulatedArchive, FromArchive]:
    """The archive of the recorded network's state, which no test changes."""
    return recorded_archive(tmp_path_factory.mktemp("recorded"))
