"""A real S3 server for tests and benchmarks: the one that the environment names, or one of ``scripts/radosgw``."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ENDPOINT_VARIABLE = "EXPORTER_TEST_S3_ENDPOINT"
NAMES = (ENDPOINT_VARIABLE, "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")
LONGEST_START = 300.0

_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "radosgw"
# Read now: the tests take every EXPORTER_* variable away before they run.
_given = {name: os.environ[name] for name in NAMES if name in os.environ}


class GatewayError(Exception):
    """No real S3 server could be started; the message says why."""


def given_gateway() -> Mapping[str, str] | None:
    """The environment of the server that ``scripts/radosgw run`` gave to this process; None where there is none."""
    return _given if ENDPOINT_VARIABLE in _given else None


@contextmanager
def gateway() -> Iterator[Mapping[str, str]]:
    """Have a real S3 server while a block runs; gives the environment to reach it with.

    Raises GatewayError where none can be started.
    """
    given = given_gateway()
    if given is not None:
        yield given
        return
    process = subprocess.Popen(
        [_SCRIPT], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(LONGEST_START, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        variables: dict[str, str] = {}
        for line in process.stdout:
            name, _, value = line.strip().removeprefix("export ").partition("=")
            variables[name] = value
            if len(variables) == len(NAMES):
                break
        else:
            raise GatewayError((process.stderr.read().strip().splitlines() or ["scripts/radosgw ended"])[-1])
        watchdog.cancel()
        yield variables
    finally:
        watchdog.cancel()
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
