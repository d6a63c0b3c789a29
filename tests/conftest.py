"""What every test shares: property-test profiles, a clean environment, and where real ledger data lies."""

from __future__ import annotations

import atexit
import functools
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from hypothesis import HealthCheck, settings

from exporter.ledger.snapshot_file import LedgerSnapshot
from tests import made_once
from tests.audit.trees import Files, good_tree
from tests.job_runs import leaving_out_pages
from tools import real_data as real

PROJECT_ROOT = Path(__file__).resolve().parent.parent

REAL_FIXTURES = {"real_data", "mainnet_snapshot_path"}

# No deadline: a slow first call on a busy machine is not a bug. The same examples at every run, so that a test fails
# because of a change; scripts/suite random and scripts/suite slow look for new ones, every week.
settings.register_profile(
    "fast",
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.register_profile("thorough", settings.get_profile("fast"), max_examples=2_000, derandomize=False)
settings.load_profile("fast")

# There is no garbage until the tests are collected; afterwards the collector leaves them and their modules alone. It
# runs less often than by default, which would take one part in twenty of the processor time.
gc.disable()
gc.set_threshold(20_000, 20, 20)

# Nothing that a test reaches has a certificate. Reading the machine's own again for each client would take 80 ms.
for _variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
    os.environ.pop(_variable, None)

# Each store of a test has a session of boto3, and each session reads the same descriptions of services: 60 ms.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)


def pytest_configure(config: pytest.Config) -> None:
    """Keep examples the same whatever modules are loaded. Hypothesis would mix in the constants of all of them.

    To read them takes each worker seconds, too. With a profile that looks for new examples, they stay.
    """
    if config.getoption("--hypothesis-profile") is None:
        pytest.MonkeyPatch().setattr("hypothesis.internal.conjecture.providers.is_local_module_file", lambda _: False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--real-data=FOLDER``: where real ledger data lies, instead of ../shared/data/real."""
    named = os.environ.get(real.VARIABLE) or real.DEFAULT_FOLDER
    parser.addoption("--real-data", metavar="FOLDER", default=str(named), help=f"real ledger data ({real.VARIABLE})")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``real`` exactly the tests that ask for data next to the checkout."""
    for item in items:
        if REAL_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("real")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Collect once what is left. Pytest collects twice more, which takes a second if there are objects to look at."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # what is left at the very end is freed then


@pytest.fixture(scope="session", autouse=True)
def folder_of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> None:
    own = tmp_path_factory.getbasetemp()
    made_once.shared_folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    """Keep the settings of the machine out of the tests: no variable of the exporter or of AWS reaches one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("EXPORTER_", "AWS_"))]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def without_pages() -> Iterator[None]:
    """Runs render no web pages: for the tests of a module that look at none."""
    with leaving_out_pages():
        yield


@pytest.fixture(scope="session")
def project_root() -> Path:
    return PROJECT_ROOT


@pytest.fixture(scope="session")
def real_data(pytestconfig: pytest.Config) -> Path:
    """The folder of real ledger data; skips where there is none. A test skips itself when its file is not in there."""
    folder = Path(pytestconfig.getoption("real_data"))
    if not folder.is_dir():
        if folder != real.DEFAULT_FOLDER:
            pytest.fail(f"{folder}, named as the folder of real ledger data, is not a folder")
        pytest.skip(
            f"the real ledger data is not at {folder}; name its folder with --real-data=FOLDER or {real.VARIABLE}, "
            "or fetch what is public of it: scripts/suite real --fetch DIR"
        )
    return folder


@pytest.fixture(scope="session")
def testnet_archive(real_data: Path) -> Path:
    """The history archive of testnet; skips where it is not among the real data."""
    folder = real_data / "archive-testnet"
    if not folder.is_dir():
        pytest.skip("archive-testnet is not in the folder of real ledger data")
    return folder


@pytest.fixture(scope="session")
def mainnet_snapshot_path(pytestconfig: pytest.Config) -> Path:
    """The real mainnet entries of ledger 55,261,759, next to the folder of real data; skips where they are not."""
    path = Path(pytestconfig.getoption("real_data")).resolve().parent / "mainnet-55261759.json"
    if not path.is_file():
        pytest.skip(f"the mainnet ledger snapshot is not at {path}")
    return path


@pytest.fixture(scope="session")
def mainnet_snapshot(mainnet_snapshot_path: Path) -> LedgerSnapshot:
    return LedgerSnapshot.load(mainnet_snapshot_path)


@pytest.fixture
def files() -> Files:
    """The files of a tree without a fault."""
    return good_tree()
