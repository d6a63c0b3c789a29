"""scripts/site-branch: the published tree survives from run to run on a branch, with the times of its files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflows.scripts import SYSTEM_PATH, call

STATUS = "v1/system/status.json"


class Repository:
    """A remote repository, and the machines that come to it one after the other."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.remote = folder / "remote.git"
        self.git("init", "--quiet", "--bare", str(self.remote))

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], env=self._environment(), capture_output=True, text=True, timeout=60, check=True
        ).stdout

    def call(self, command: str, site: Path, **environment: str) -> tuple[int, str]:
        environment = self._environment() | {"SITE_REMOTE": f"file://{self.remote}"} | environment
        return call(self.root, "site-branch", command, str(site), **environment)

    def commits(self) -> int:
        return int(self.git("-C", str(self.remote), "rev-list", "--count", "site"))

    def _environment(self) -> dict[str, str]:
        return {"PATH": SYSTEM_PATH, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def repository(project_root: Path, tmp_path: Path) -> Repository:
    return Repository(project_root, tmp_path)


def publish(site: Path, run: str) -> None:
    """Write what a run would: a page of its own, the lock, and the status document."""
    for key, text in {f"v1/pages/{run}.json": run, STATUS: run, ".exporter.lock": "", "v1/.tmp-1": "half"}.items():
        path = site / "public" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_tree_outlives_its_machines(repository: Repository, tmp_path: Path) -> None:
    """Each run finds what those before it left, with the times of the files; the branch has one commit."""
    for number, run in enumerate(("first", "second", "third")):
        site = tmp_path / f"machine-{number}"
        assert 0 == repository.call("restore", site)[0]
        publish(site, run)
        page = site / "public" / "v1" / "pages" / f"{run}.json"
        os.utime(page, (1_700_000_000 + number, 1_700_000_000 + number))
        if run == "third":
            page.with_name("first.json").unlink()
        assert (0, "") == repository.call("save", site)
        assert 1 == repository.commits()
        shutil.rmtree(site)

    site = tmp_path / "reader"
    assert 0 == repository.call("restore", site)[0]
    pages = {path.stem: int(path.stat().st_mtime) for path in (site / "public" / "v1" / "pages").iterdir()}
    assert {"second": 1_700_000_001, "third": 1_700_000_002} == pages
    assert "third" == (site / "public" / STATUS).read_text()
    assert [] == [path.name for path in (site / "public").rglob(".*")]


def test_nothing_is_begun_again_by_accident(repository: Repository, tmp_path: Path) -> None:
    """A remote that cannot be asked ends the restoring; only one that has no branch makes an empty tree."""
    shutil.move(repository.remote, tmp_path / "elsewhere")

    code, said = repository.call("restore", tmp_path / "site")

    assert (1, True) == (code, "cannot be listed" in said)
    assert not (tmp_path / "site").exists()


def test_another_run_is_not_overwritten(repository: Repository, tmp_path: Path) -> None:
    """If two runs began on the same tree, the later one fails to save, whether or not there was a branch before."""
    for round_number in range(2):
        sites = [tmp_path / f"{name}-{round_number}" for name in ("fast", "late")]
        for site in sites:
            repository.call("restore", site)
            publish(site, site.name)
        assert [0, 1] == [repository.call("save", site)[0] for site in sites]

    repository.call("restore", tmp_path / "reader")
    assert "fast-1" == (tmp_path / "reader" / "public" / STATUS).read_text()


def test_what_is_not_saved(repository: Repository, tmp_path: Path) -> None:
    """A run that published nothing leaves the branch alone, and so does one whose tree is above the limit of Pages."""
    site = tmp_path / "site"
    repository.call("restore", site)
    assert 1 == repository.call("save", site)[0]

    publish(site, "first")
    (site / "public" / "large.json").write_bytes(bytes(3_000_000))
    code, said = repository.call("save", site, SITE_MAX_MEGABYTES="2")

    assert (1, True) == (code, "output.retention" in said)
    assert "" == repository.git("-C", str(repository.remote), "branch", "--list")
