"""A Dask cluster as an executor: who may work on it, and what is said where it loses work or falls silent."""

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
"""How often a cluster does a piece of work again whose worker died."""

CONNECT_SECONDS = 15

WORKERS_SECONDS = 60
"""How long a worker is waited for: the first one, and one after all have gone."""

ANSWER_SECONDS = 30
"""How long the scheduler and the workers have for an answer that is no work."""

RESULT_SECONDS = 1_800
"""How long a cluster that has workers may bring no result at all."""

_CONTINUE = "what was finished is kept: run the same command again to continue, once the cluster is well"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Versions(NamedTuple):
    """What has to be the same on every machine: versions of the exporter, Python (as 3.13), Dask and its scheduler."""

    exporter: str
    python: str
    dask: str
    distributed: str

    @classmethod
    def here(cls) -> Versions:
        """Those of this process."""
        return cls(__version__, _minor(platform.python_version()), version("dask"), version("distributed"))

    def difference(self, other: Versions) -> str | None:
        """The first thing of which the other has another version, as text for an error."""
        for name, own, theirs in zip(_NAMES, self, other, strict=True):
            if own != theirs:
                return f"{name} {theirs or 'not at all'}, and here it is {own}"
        return None


_SCHEDULER = "the scheduler"
_NAMES = ("the exporter", "Python", "dask", "distributed")


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


class Cluster(Executor):
    """The workers of a Dask scheduler. Whoever takes a piece of work, also one that joined later, checks its versions.

    Args:
        client: a client of dask.distributed.
        address: the scheduler's, for messages.
        announce: called with what is waited for.
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
        """Wait for a worker, and see that scheduler and workers have what this process has. Raises `ConfigError`."""
        self._announce(f"waiting up to {WORKERS_SECONDS} s for a worker of {self._name}")
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError:
            raise ConfigError(
                f"{self._name}: no worker joined the scheduler within {WORKERS_SECONDS} s; start workers "
                "(`dask worker ADDRESS`) in an environment with this exporter, and run the same command again"
            ) from None
        stated = self._ask("the scheduler or a worker", self._client.get_versions)
        for name, said in {_SCHEDULER: stated["scheduler"], **stated["workers"]}.items():
            packages = said.get("packages", {})
            dask, distributed = (packages.get(package) or "" for package in ("dask", "distributed"))
            self._require(name, Versions(__version__, _minor(packages.get("python") or ""), dask, distributed))
        # The scheduler unpacks the work, too.
        self._require(_SCHEDULER, self._ask(_SCHEDULER, self._client.run_on_scheduler, Versions.here))
        for name, versions in self._ask("a worker", self._client.run, Versions.here).items():
            self._require(name, versions)

    def when_silent(self, seconds: float) -> None:
        """Raise `WorkerDiedError` where nobody is left to work, or nobody brought a result for too long."""
        try:
            workers = len(self._client.sync(self._client.nthreads, callback_timeout=ANSWER_SECONDS))
        except Exception as error:
            raise WorkerDiedError(
                f"{self._name}: the scheduler does not answer ({type(error).__name__}); {_CONTINUE}"
            ) from None
        if seconds >= (RESULT_SECONDS if workers else WORKERS_SECONDS):
            who = f"none of {pluralize(workers, 'worker')} brought a result" if workers else "there was no worker"
            raise WorkerDiedError(f"{self._name}: {who} for {seconds:.0f} s; {_CONTINUE}")
        what = f"a result of {pluralize(workers, 'worker')}" if workers else "a worker"
        limit = RESULT_SECONDS if workers else WORKERS_SECONDS
        self._announce(f"waiting for {what} of {self._name} for {seconds:.0f} s, at most {limit} s")

    def _ask(self, who: str, question: Callable[..., Any], *given: object) -> Any:
        try:
            return self._client.sync(question, *given, callback_timeout=ANSWER_SECONDS)
        except Exception as error:  # of a machine without the package, with another Dask, or that hangs
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
    """The workers of a Dask scheduler, such as ``tcp://10.0.0.1:8786``; they need this package installed.

    Raises `ConfigError` where dask.distributed is not installed, no scheduler answers, no worker comes within
    `WORKERS_SECONDS`, or versions differ, before any work is given out.
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
        with suppress(Exception):  # of a scheduler that is gone
            client.close()


def _checked(
    versions: Versions, function: Callable[Parameters, Result], *args: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Do a piece of work, on a worker that has these versions. Raises `ConfigError` on any other one."""
    if (difference := versions.difference(Versions.here())) is not None:
        raise ConfigError(
            f"a worker on {platform.node()} has {difference}; install the same versions on each machine and run the "
            "same command again to continue"
        )
    return function(*args, **named)


def explain_loss(error: BaseException) -> ExporterError | None:
    """What a piece of work ended with, if it is the cluster that failed; None for an error of the work itself."""
    if isinstance(error, CancelledError):
        return WorkerDiedError(f"the scheduler is gone, and with it the work that it had; {_CONTINUE}")
    if isinstance(error, ImportError | AttributeError) and (error.name or "").partition(".")[0] == "exporter":
        return ConfigError(
            f"a worker has no version {__version__} of the exporter ({error}); install it on each machine and run the "
            "same command again to continue"
        )
    if type(error).__module__.partition(".")[0] in ("distributed", "dask", "tornado"):
        return WorkerDiedError(
            f"the cluster lost a piece of work {RETRIES + 1} times or more ({type(error).__name__}); {_CONTINUE}"
        )
    return None
