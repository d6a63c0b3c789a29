"""A tree whose evidence unpacks to more than any run needs: `exporter verify` ends in bounded memory and time."""

from __future__ import annotations

import gzip
import os
import resource
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from exporter.tree.families import EVIDENCE
from tests.job.signed_runs import CHECKPOINT
from tests.job.test_verify_attacks import Forger, Trees

MEMORY_KB = 700_000


@pytest.mark.slow
def test_evidence_that_unpacks_to_128_mb(tmp_path: Path) -> None:
    """A file of 130 kB in the tree is refused for its size with 3, before anything is made of it."""
    trees = Trees(tmp_path)
    trees.publish(tmp_path / "out", CHECKPOINT)
    forger = Forger(tmp_path / "out", tmp_path)
    key = forger.status["evidence_key"]
    content = gzip.decompress((forger.out / key).read_bytes())
    bomb = gzip.compress(content + b'["notice",""]\n' * (10 << 20), 9)
    (forger.out / key).unlink()
    del forger.files[key]
    forger.status["evidence_key"] = EVIDENCE.key(sha256=sha256(bomb).hexdigest())
    forger.put(forger.status["evidence_key"], bomb)
    out = forger.seal()

    with subprocess.Popen(
        [
            *(sys.executable, "-m", "exporter", "verify", str(out)),
            *("--archive", str(trees.archive), "--trust", str(trees.trust)),
        ],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    ) as verify:
        assert verify.stderr is not None
        printed = verify.stderr.read()
        _, status, usage = os.wait4(verify.pid, 0)
        verify.returncode = os.waitstatus_to_exitcode(status)

    assert (3, True) == (verify.returncode, "the entries file has more than" in printed), printed
    assert usage.ru_maxrss < MEMORY_KB
