"""A Dask cluster as an executor. It checks the versions of its workers, and explains lost work and silence."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any, NamedTuple, ParamSpec, TypeVar

from exporter import __version__
from exporter.errors import ConfigError, ExporterError, WorkerDiedError, pluralize

RETRIES = 2
"""How often a cluster tries a piece of work again, if its worker died."""

CONNECT_SECONDS = 15

WORKERS_SECONDS = 60
"""Longest time to wait for a worker: for the first one, and for another one after all have gone."""

ANSWER_SECONDS = 30
"""Longest time for an answer of the scheduler or a worker that needs no work."""

RESULT_SECONDS = 1_800
"""Longest time in which a cluster with workers may bring no result."""

_HOW_TO_CONTINUE = "what was finished is kept: run the same command again to continue, once the cluster is well"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Versions(NamedTuple):
    """The versions that have to be the same on every machine: of the exporter, Python (such as 3.13), and Dask."""

    exporter: str
    python: str
    dask: str
    distributed: str

    @classmethod
    def here(cls) -> Versions:
        """The versions of this process."""
        return cls(__version__, _minor(platform.python_version()), version("dask"), version("distributed"))

    def difference(self, other: Versions) -> str | None:
        """The first difference from other versions, as text for an error; None if all are the same."""
        for name, own, theirs in zip(_NAMES, self, other, strict=True):
            if own != theirs:
                return f"{name} {theirs or 'not at all'}, and here it is {own}"
        return None


_SCHEDULER = "the scheduler"
_NAMES = ("the exporter", "Python", "dask", "distributed")


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


class Cluster(Executor):
    """The workers of a Dask scheduler. Each checks its versions before a piece of work, even if it joined later.

    Args:
        client: a client of dask.distributed.
        address: the address of the scheduler, for messages.
        announce: called with a text that says what is waited for.
    """

    def __init__(self, client: Any, address: str, announce: Callable[[str], None]) -> None:
        self._client, self._announce = client, announce
        self._name = f"--scheduler {address}"
        self._executor: Any = client.get_executor(retries=RETRIES, pure=False)
        self._versions = Versions.here()

    def submit(
        self, function: Callable[Parameters, Result], /, *args: Parameters.args, **named: Parameters.kwargs
    ) -> Future[Result]:
        future: Future[Result] = self._executor.submit(_checked, self._versions, function, *args, **named)
        return future

    def require_same_versions(self) -> None:
        """Wait for a worker, and check that the scheduler and the workers have the versions of this process.

        Raises `ConfigError` if no worker comes, or versions differ.
        """
        self._announce(f"waiting up to {WORKERS_SECONDS} s for a worker of {self._name}")
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError:
            raise ConfigError(
                f"{self._name}: no worker joined the scheduler within {WORKERS_SECONDS} s; start workers "
                "(`dask worker ADDRESS`) in an environment with this exporter, and run the same command again"
            ) from None
        stated = self._ask("the scheduler or a worker", self._client.get_versions)
        for name, versions_of_one in {_SCHEDULER: stated["scheduler"], **stated["workers"]}.items():
            packages = versions_of_one.get("packages", {})
            dask, distributed = (packages.get(package) or "" for package in ("dask", "distributed"))
            self._require(name, Versions(__version__, _minor(packages.get("python") or ""), dask, distributed))
        # The scheduler needs the exporter, too, because it unpickles the work.
        self._require(_SCHEDULER, self._ask(_SCHEDULER, self._client.run_on_scheduler, Versions.here))
        for name, versions in self._ask("a worker", self._client.run, Versions.here).items():
            self._require(name, versions)

    def when_silent(self, seconds: float) -> None:
        """Raise `WorkerDiedError` if there are no workers, or none brought a result, for too many seconds."""
        try:
            workers = len(self._client.sync(self._client.nthreads, callback_timeout=ANSWER_SECONDS))
        except Exception as error:
            raise WorkerDiedError(
                f"{self._name}: the scheduler does not answer ({type(error).__name__}); {_HOW_TO_CONTINUE}"
            ) from None
        if seconds >= (RESULT_SECONDS if workers else WORKERS_SECONDS):
            who = f"none of {pluralize(workers, 'worker')} brought a result" if workers else "there was no worker"
            raise WorkerDiedError(f"{self._name}: {who} for {seconds:.0f} s; {_HOW_TO_CONTINUE}")
        what = f"a result of {pluralize(workers, 'worker')}" if workers else "a worker"
        limit = RESULT_SECONDS if workers else WORKERS_SECONDS
        self._announce(f"waiting for {what} of {self._name} for {seconds:.0f} s, at most {limit} s")

    def _ask(self, who: str, question: Callable[..., Any], *arguments: object) -> Any:
        """The answer to a question about versions. Raises `ConfigError` if ``who`` cannot answer it."""
        try:
            return self._client.sync(question, *arguments, callback_timeout=ANSWER_SECONDS)
        except Exception as error:  # the machine lacks the package, has another Dask, or hangs
            raise ConfigError(
                f"{self._name}: {who} could not say which versions it has ({type(error).__name__}); install version "
                f"{__version__} of the exporter, with the same versions of Python and Dask, on scheduler and workers"
            ) from None

    def _require(self, name: str, versions: Versions) -> None:
        if (difference := self._versions.difference(versions)) is not None:
            who = name if name == _SCHEDULER else f"worker {name}"
            raise ConfigError(
                f"{self._name}: {who} has {difference}; install the same versions on scheduler and workers"
            )


@contextmanager
def dask_cluster(address: str, announce: Callable[[str], None] = lambda _: None) -> Iterator[Executor]:
    """The workers of a Dask scheduler, such as ``tcp://10.0.0.1:8786``. They need this package.

    Raises `ConfigError`, before any work begins, if dask.distributed is not installed, no scheduler answers, no worker
    comes within `WORKERS_SECONDS`, or versions differ.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError(
            "--scheduler needs dask.distributed; install the exporter with the extra: lending-markets-exporter[dask]"
        ) from None
    try:
        client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"--scheduler {address}: no Dask scheduler answers there ({type(error).__name__})") from None
    try:
        cluster = Cluster(client, address, announce)
        cluster.require_same_versions()
        yield cluster
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close()


def _checked(
    versions: Versions, function: Callable[Parameters, Result], *args: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Do a piece of work on a worker. Raises `ConfigError` if it does not have these versions."""
    if (difference := versions.difference(Versions.here())) is not None:
        raise ConfigError(
            f"a worker on {platform.node()} has {difference}; install the same versions on each machine and run the "
            "same command again to continue"
        )
    return function(*args, **named)


def explain_loss(error: BaseException) -> ExporterError | None:
    """The error for people, if a piece of work failed because of the cluster; None if the work itself failed."""
    if isinstance(error, CancelledError):
        return WorkerDiedError(f"the scheduler is gone, and with it the work that it had; {_HOW_TO_CONTINUE}")
    if isinstance(error, ImportError | AttributeError) and (error.name or "").partition(".")[0] == "exporter":
        return ConfigError(
            f"a worker has no version {__version__} of the exporter ({error}); install it on each machine and run the "
            "same command again to continue"
        )
    if type(error).__module__.partition(".")[0] in ("distributed", "dask", "tornado"):
        return WorkerDiedError(
            f"the cluster lost a piece of work {RETRIES + 1} times or more ({type(error).__name__}); {_HOW_TO_CONTINUE}"
        )
    return None
