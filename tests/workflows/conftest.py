"""What the tests of workflows share: an embedded network, a checkout, a GitHub of its own, and a machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from exporter.localnet.behaviour import Behaviour
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from tests.workflows.act import PROGRAM, Act, copy_repository, stand_in_for_python
from tests.workflows.fake_gh import FakeGitHub

ActMaker = Callable[..., Act]


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """The embedded network; a ledger closes each second."""
    with running(create_app(RecordedNetwork(), Behaviour(advance_every_seconds=1.0))) as url:
        yield url


@pytest.fixture(scope="module")
def checkout(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as a runner checks it out."""
    return copy_repository(project_root, tmp_path_factory.mktemp("runner") / "markets")


@pytest.fixture
def github(tmp_path: Path) -> FakeGitHub:
    return FakeGitHub(tmp_path / "bin")


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A configuration for a network on this machine: no limit to be kept, and few files."""
    path = tmp_path / "settings.toml"
    path.write_text("[network]\nrequests_per_second = 1000.0\n[output]\npage_sizes = [1, 5]\ndefault_page_size = 5\n")
    return path


@pytest.fixture
def act(checkout: Path, github: FakeGitHub, settings: Path, tmp_path: Path) -> ActMaker:
    """Makes a machine that has the packages already, with the given variables and secrets of the repository."""
    if not PROGRAM.is_file():
        pytest.skip("act is not installed in build/act; scripts/test-workflows does that")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def make(secrets: Mapping[str, str] | None = None, event: str = "schedule", **variables: str) -> Act:
        return Act(
            checkout=checkout,
            scratch=scratch,
            path=(github.folder, stand_in_for_python(tmp_path / "python")),
            environment={"EXPORTER_PYTHON": sys.executable},
            vars={"EXPORTER_NETWORK": "local", "EXPORTER_CONFIG": str(settings), **variables},
            secrets=secrets or {},
            event=event,
        )

    return make
