"""A published tree that the tests of this folder look at."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.job_runs import run, settings_for
from tests.render.whole_tree import publish_tree


@pytest.fixture(scope="package")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tree of all protocols."""
    folder = tmp_path_factory.mktemp("tree")
    publish_tree(folder)
    return folder


@pytest.fixture(scope="package")
def mainnet_tree(mainnet_snapshot_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one run publishes about mainnet's ledger 55,261,759."""
    folder = tmp_path_factory.mktemp("mainnet")
    settings = settings_for(folder, network__name="mainnet")
    # This runs in a thread of its own, because an open browser of Playwright keeps an event loop running in this one.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(run, settings, snapshot=mainnet_snapshot_path).result()
    return folder
