"""Work on many workers: every piece has its result once, and a worker that dies is reported."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from exporter.errors import ConfigError, WorkerDiedError
from exporter.past.backfill import executors
from exporter.past.backfill.executors import processes, run_all, workers_of
from tests.past.backfill.recorded_lake import IN_LINE


def double(number: int) -> int:
    return 2 * number


def test_work_is_taken_up_as_there_is_room() -> None:
    """Only this many pieces of a long stream are held at a time, and each has its result once."""
    taken: list[int] = []

    def stream() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    done = {}
    for piece, result in run_all(IN_LINE, double, stream(), 4):
        done[piece] = result
        assert len(taken) <= len(done) + 2 * 4
    assert {number: 2 * number for number in range(100)} == done


def killed_while_it_reports(number: int) -> None:
    """Kill its own process in the middle of a result: the pool waits for the rest of it."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1_000) + b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_while_it_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job ends and says how to go on, and does not wait for ever."""
    monkeypatch.setattr(executors, "SILENT_SECONDS", 0.5)

    with processes(1) as executor, pytest.raises(WorkerDiedError, match="run the same command again to continue"):
        list(run_all(executor, killed_while_it_reports, range(4), 4))


def test_processes_or_a_cluster() -> None:
    """Processes of this machine and a cluster are not asked for together."""
    with pytest.raises(ConfigError, match=r"a cluster \(--scheduler\) has its own"):
        workers_of(1, "tcp://127.0.0.1:1", print)


WITHOUT_A_GUARD = """
from exporter.errors import ExporterError
from exporter.past.backfill.executors import processes, run_all

with processes(1) as executor:
    try:
        print(list(run_all(executor, abs, [1], 1)))
    except ExporterError as error:
        print(int(error.exit_code), error)
"""


@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":\n'], ids=["without", "with"])
def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path, project_root: Path, guard: str) -> None:
    """A worker imports the script that calls the exporter; where that begins workers again, the error says why."""
    script = tmp_path / "script.py"
    script.write_text(guard + indent(WITHOUT_A_GUARD.strip(), "    " if guard else ""))
    environment = os.environ | {"PYTHONPATH": str(project_root)}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, timeout=300)

    if guard:
        assert "[(1, 1)]\n" == ran.stdout
    else:
        assert ran.stdout.startswith("2 no worker could begin")
        assert 'below `if __name__ == "__main__":`' in ran.stdout


def test_a_worker_that_dies_over_its_work() -> None:
    """The error says that the worker may have used too much memory, and not that it could not begin."""
    with processes(1) as executor, pytest.raises(WorkerDiedError, match="too much memory"):
        list(run_all(executor, os._exit, [9], 1))
