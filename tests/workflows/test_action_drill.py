"""The action's steps in order, from the template to what readers get, with each exit code, for Pages and for S3."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from exporter.cli import main
from exporter.errors import ExitCode
from exporter.localnet.player import DEFAULT_START_LEDGER, RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.stores.s3_client import LEASE_KEY
from exporter.tree.families import HISTORY_MANIFEST_KEY
from tests.s3.wire_bucket import Stored, WireBucket
from tests.workflows.act import PROGRAM, REPOSITORY, Act, JobRun, commit_all, copy_repository, git
from tests.workflows.fake_gh import FakeGitHub

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.is_file(), reason="act is not in build/act; scripts/suite workflows installs it"),
]

STATUS = "v1/system/status.json"
NOBODY = "http://127.0.0.1:9"
"""An RPC at which nothing listens."""

Files = MutableMapping[str, bytes]
"""The files of a published tree, by their keys."""


def remove_parquet(files: Files) -> None:
    del files[msgspec.json.decode(files[HISTORY_MANIFEST_KEY])["files"][0]["key"]]


def damage_status(files: Files) -> None:
    files[STATUS] = b"{"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a run ends with a code.

    Attributes:
        network: the RPC that is asked: one that answers, one whose oracles are all stale, or nobody.
        tree: what happened to the published tree before.
        interval: the input ``interval-minutes``.
        settings: more lines of exporter.toml.
        environment: variables of the machine.
        python: shell lines that run before the exporter's Python; ``$3`` is the command of the exporter.
        held: another publisher holds the output.
    """

    network: str = "good"
    tree: Callable[[Files], None] | None = None
    interval: str = "60"
    settings: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    python: str = ""
    held: bool = False


CAUSES = {
    ExitCode.DONE: Cause(),
    ExitCode.UNEXPECTED: Cause(environment=(("EXPORT_TIME_LIMIT", "0.2s"),)),
    ExitCode.CONFIG: Cause(interval="zzz"),
    ExitCode.SOURCE: Cause(network="nobody"),
    ExitCode.CHECK: Cause(settings="[discovery]\nenabled = false\n"),
    ExitCode.LOST_RACE: Cause(held=True),
    ExitCode.PUBLISHED_CHECK: Cause(tree=remove_parquet),
    # Proofs need archives that validators signed; here the command `prove` says what it would say.
    ExitCode.REFUTED: Cause(python='[ "$3" != prove ] || exit 8'),
    ExitCode.UNPROVEN: Cause(python='[ "$3" != prove ] || exit 9'),
    ExitCode.STORE: Cause(tree=damage_status),
    ExitCode.UNREAD: Cause(network="stale"),
}


@pytest.fixture(scope="module")
def networks() -> Iterator[dict[str, str]]:
    """The RPC of the recorded network, where a ledger closes each second, and that of a later day without prices."""
    # A run refuses more than ten ledgers a second, so the later network is so far from the other in time, too.
    now = int(time.time())
    yesterday = now - 86_400
    later = RecordedNetwork(start_ledger=DEFAULT_START_LEDGER + 10_000, start_time=yesterday, close_seconds=86_400)
    later.close()
    moving = create_app(RecordedNetwork(start_time=now - 3_000, close_seconds=1), Behaviour(advance_every_seconds=1.0))
    with running(moving) as good, running(create_app(later)) as stale:
        yield {"good": good, "stale": stale, "nobody": NOBODY}


@pytest.fixture(scope="module")
def exporter(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository, as a runner fetches an action."""
    return copy_repository(project_root, tmp_path_factory.mktemp("action") / "exporter")


class Operator(ABC):
    """A repository made of the template's files, on a machine that forgets everything between two runs."""

    causes = CAUSES

    def __init__(self, folder: Path, exporter: Path, networks: dict[str, str]) -> None:
        self.folder, self.exporter, self.networks = folder, exporter, networks
        self.github = FakeGitHub(folder / "bin")
        self.kept = folder / "scratch" / "kept"
        self._python = folder / "bin" / "python3.13"
        self._remote = folder / REPOSITORY
        git(folder, "init", "--quiet", "--bare", str(self._remote))

    def workflow(self, text: str) -> str:
        """The template's workflow, as the operator changes it."""
        return text

    def environment(self) -> dict[str, str]:
        # The branch `site` of this repository is on this machine.
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{self.folder}/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/",
        }

    def actions(self) -> dict[str, str]:
        return {"actions/deploy-pages": 'echo deployed >>"$KEPT/deployed"\n'}

    def run(self, cause: Cause = CAUSES[ExitCode.DONE], **actions: str) -> JobRun:
        """Run the workflow; ``actions`` add lines to the stand-ins, by the last part of their names."""
        checkout, template = self.folder / "checkout", self.exporter / "templates" / "repository"
        shutil.rmtree(checkout, ignore_errors=True)
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir(parents=True)
        shutil.copytree(template, checkout)
        with (checkout / "exporter.toml").open("a") as settings:
            settings.write(f'[network]\nname = "local"\nrequests_per_second = 1000.0\n{cause.settings}')
        path = checkout / ".github" / "workflows" / "markets.yml"
        text = self.workflow(path.read_text())
        path.write_text(text.replace('interval-minutes: "60"', f'interval-minutes: "{cause.interval}"'))
        commit_all(checkout, remote=f"https://github.com/{REPOSITORY}")
        self._python.write_text(f'#!/bin/sh\n{cause.python}\nexec "{sys.executable}" "$@"\n')
        self._python.chmod(0o755)
        machine = Act(
            checkout=checkout,
            scratch=self.folder / "scratch",
            path=(self.github.folder,),
            environment=self.environment() | dict(cause.environment) | {"EXPORTER_PYTHON": str(self._python)},
            secrets={"EXPORTER_RPC_URLS": self.networks[cause.network]},
            actions=self.actions() | {f"actions/{name.replace('_', '-')}": lines for name, lines in actions.items()},
            repositories={f"OWNER/REPOSITORY@{'0' * 40}": self.exporter},
        )
        return machine.run("markets")["publish"]

    @abstractmethod
    def tree(self) -> AbstractContextManager[Files]:
        """The files of the tree as the last run left it; what is changed in the block is so for the next run."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Another publisher is at work."""
        yield

    @abstractmethod
    def read_run(self) -> str | None:
        """The id of the run that readers get."""

    @abstractmethod
    def judged(self) -> tuple[int, str]:
        """The exit code of `exporter status` on what readers get, and its message if that is not 0."""


def status_of(uri: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, ["status", uri])
    return ran.exit_code, ran.output if ran.exit_code else ""


class PagesOperator(Operator):
    """Publishes to GitHub Pages, as the template does; what is deployed is what was uploaded last."""

    # A run's own copy of the branch has no other publisher.
    causes = CAUSES | {ExitCode.LOST_RACE: Cause(python='[ "$3" != run ] || exit 5')}

    @contextmanager
    def tree(self) -> Iterator[Files]:
        folder = self.folder / "branch"
        shutil.rmtree(folder, ignore_errors=True)
        git(self.folder, "clone", "--quiet", "--branch", "site", str(self._remote), str(folder))
        public = folder / "public"
        files = {str(path.relative_to(public)): path.read_bytes() for path in public.rglob("*") if path.is_file()}
        before = dict(files)
        yield files
        for key in before.keys() - files.keys():
            (public / key).unlink()
        for key in (key for key, data in files.items() if before.get(key) != data):
            (public / key).write_bytes(files[key])
        if before != files:
            git(folder, "add", "--all")
            git(folder, "commit", "--quiet", "--amend", "--no-edit")
            git(folder, "push", "--quiet", "--force")

    def read_run(self) -> str | None:
        site = self.kept / "build" / "site" / "public" / STATUS
        deployed = (self.kept / "deployed").is_file()
        assert deployed == site.is_file(), "what is uploaded is deployed"
        return run_id(site.read_bytes()) if deployed else None

    def judged(self) -> tuple[int, str]:
        handler = partial(SimpleHTTPRequestHandler, directory=self.kept / "build" / "site" / "public")
        handler.log_message = lambda *_: None  # type: ignore[attr-defined]
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                return status_of(f"http://127.0.0.1:{server.server_address[1]}")
            finally:
                server.shutdown()


class BucketOperator(Operator):
    """Publishes to S3 with a role, as docs/operations.md says that the template is changed."""

    ROLE = "arn:aws:iam::123456789012:role/exporter"

    def __init__(self, folder: Path, exporter: Path, networks: dict[str, str], bucket: WireBucket) -> None:
        super().__init__(folder, exporter, networks)
        self.bucket = bucket

    def workflow(self, text: str) -> str:
        text = re.sub(r"    environment:\n(      .*\n)+", "", text)
        text = re.sub(r"      (contents|pages): write.*\n", "", text)
        text = text.replace("    permissions:\n", "    permissions:\n      contents: read\n")
        added = f"aws-role: {self.ROLE}\n          aws-region: us-east-1\n          s3-endpoint: {self.bucket.endpoint}"
        return text.replace("out: pages", f"out: s3://bucket/live\n          {added}")

    def actions(self) -> dict[str, str]:
        taken = self.bucket.environment("of-the-role")
        lines = "".join(f"echo {key}={value} >>$GITHUB_ENV\n" for key, value in taken.items() if "ENDPOINT" not in key)
        return {"aws-actions/configure-aws-credentials": lines}

    @contextmanager
    def tree(self) -> Iterator[Files]:
        own = {key for key in self.bucket.objects if key.startswith("live/") and ".exporter" not in key}
        files = {key.removeprefix("live/"): self.bucket.objects[key].data for key in own}
        before = dict(files)
        yield files
        for key in before.keys() - files.keys():
            del self.bucket.objects[f"live/{key}"]
        for key in (key for key, data in files.items() if before.get(key) != data):
            self.bucket.objects[f"live/{key}"] = Stored(files[key], datetime.now(UTC), {})

    @contextmanager
    def held(self) -> Iterator[None]:
        key = f"live/{LEASE_KEY}"
        free = self.bucket.objects[key]
        lease = msgspec.json.decode(free.data) | {"holder": "another"}
        self.bucket.objects[key] = Stored(msgspec.json.encode(lease), datetime.now(UTC), free.headers)
        yield
        self.bucket.objects[key] = free

    def read_run(self) -> str | None:
        return run_id(self.bucket.objects[f"live/{STATUS}"].data)

    def judged(self) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch:
            for key, value in self.bucket.environment("reader").items():
                patch.setenv(key, value)
            return status_of("s3://bucket/live")


def run_id(status: bytes) -> str | None:
    found: str | None = msgspec.json.decode(status)["run_id"] if status != b"{" else None
    return found


@pytest.fixture(scope="module", params=["pages", "s3"])
def operator(
    request: pytest.FixtureRequest,
    exporter: Path,
    networks: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operator]:
    """An operator whose first run is published."""
    with WireBucket() as bucket:
        folder = tmp_path_factory.mktemp(request.param)
        home = PagesOperator if request.param == "pages" else partial(BucketOperator, bucket=bucket)
        operator = home(folder, exporter, networks)
        first = operator.run()
        assert ("success", True) == (first.result, operator.read_run() is not None), first.printed
        yield operator


@contextmanager
def caused(operator: Operator, cause: Cause) -> Iterator[None]:
    """The tree is changed, or the output held, while a run is tried; then that is mended."""
    with operator.tree() as files:
        whole = dict(files)
        if cause.tree is not None:
            cause.tree(files)
        lost = {key: data for key, data in whole.items() if files.get(key) != data}
    with operator.held() if cause.held else nullcontext():
        yield
    with operator.tree() as files:
        files.update(lost)


@pytest.mark.parametrize(
    "code", [code for code in CAUSES if code is not ExitCode.UNREAD], ids=lambda code: code.name.lower()
)
def test_each_exit_code_ends_as_the_page_says(operator: Operator, code: ExitCode) -> None:
    """A published run is saved, deployed and green; any other one is red and leaves readers what they had.

    The issue has the words of the code's table, or there is none.
    """
    operator.github.forget()
    with operator.tree() as files:
        before = run_id(files[STATUS])
    with caused(operator, cause := operator.causes[code]):
        ended = operator.run(cause)
        after = operator.read_run()

    green = code.is_published or code is ExitCode.LOST_RACE
    assert ("success" if green else "failure") == ended.result, ended.printed
    shown = ExitCode.DONE if code is ExitCode.UNPROVEN else code  # a run is done, whatever its proof lacks
    assert f"## Exit code {shown:d}: {shown.meaning}" in ended.summary
    titles = [f"The scheduled markets needs a look: {code.meaning} (exit code {code:d})"]
    assert titles * (code.situation is not None) == [issue["title"] for issue in operator.github.open]
    if code.is_published:
        assert after not in (None, before)
        assert (0, "") == operator.judged()
    elif code is ExitCode.REFUTED:
        assert (after is None) == isinstance(operator, PagesOperator), "what an RPC that lied said is not deployed"
    elif code is not ExitCode.STORE:
        assert after in (None, before), "None: nothing was deployed"


def test_one_issue_lasts_as_long_as_the_trouble(operator: Operator) -> None:
    """Two failures keep one issue, and the next run that works closes it; a failed upload of the report opens none."""
    operator.github.forget()

    assert ["failure"] * 2 == [operator.run(CAUSES[code]).result for code in (ExitCode.SOURCE, ExitCode.CONFIG)]
    assert [True] == [issue["open"] for issue in operator.github.issues]
    assert "success" == operator.run(upload_artifact="exit 1\n").result
    assert [False] == [issue["open"] for issue in operator.github.issues]


def test_a_failed_deployment_is_no_success(operator: Operator) -> None:
    """A run that is done but not deployed is red, and the issue says which part failed."""
    if not isinstance(operator, PagesOperator):
        pytest.skip("a bucket has no deployment")
    operator.github.forget()

    assert "failure" == operator.run(deploy_pages="exit 1\n").result
    (issue,) = operator.github.open
    assert "a step after the run failed (exit code of the run: 0)" in issue["title"]


def test_a_run_whose_oracles_are_stale(operator: Operator) -> None:
    """Published with 7, and the last test here: the network of the others never gets to that ledger."""
    test_each_exit_code_ends_as_the_page_says(operator, ExitCode.UNREAD)
