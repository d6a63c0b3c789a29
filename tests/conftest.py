"""What every test shares: property-test profiles, a clean environment and the mainnet ledger snapshot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT_ROOT = Path(__file__).resolve().parent.parent

SNAPSHOT_VARIABLE = "EXPORTER_MAINNET_SNAPSHOT"
# Read now: ``clean_environment`` takes it away before a test runs.
_SNAPSHOT_OVERRIDE = os.environ.get(SNAPSHOT_VARIABLE)

# No deadline: a slow first call on a busy machine is not a bug. CI repeats the same examples at every run; at home
# new ones are tried each time. ``pytest --hypothesis-profile thorough`` looks longer.
settings.register_profile("fast", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True, database=None, print_blob=True)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=2_000)
settings.load_profile("ci" if os.environ.get("CI") else "fast")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of the machine out of the tests: no ``EXPORTER_*`` variable reaches one."""
    for name in [name for name in os.environ if name.startswith("EXPORTER_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The folder that holds pyproject.toml."""
    return PROJECT_ROOT


@pytest.fixture(scope="session")
def mainnet_snapshot_path() -> Path:
    """The real mainnet entries of ledger 55,261,759; skips where the file is not at hand."""
    if _SNAPSHOT_OVERRIDE:
        path = Path(_SNAPSHOT_OVERRIDE)
        if not path.is_file():
            pytest.fail(f"{SNAPSHOT_VARIABLE} names {path}, which is not a file")
        return path
    path = PROJECT_ROOT.parent / "shared" / "data" / "mainnet-55261759.json"
    if not path.is_file():
        pytest.skip(
            f"the mainnet ledger snapshot is not at ../shared/data/{path.name}; set {SNAPSHOT_VARIABLE} to its path"
        )
    return path
