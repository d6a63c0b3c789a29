"""What the parts of the library load."""

from __future__ import annotations

import subprocess
import sys


def test_a_reading_loads_nothing_that_only_a_run_needs() -> None:
    """``exporter.read`` loads neither Arrow, nor the client of S3, nor templates."""
    program = (
        "import exporter, sys; exporter.read; print(sorted({'pyarrow', 'boto3', 'jinja2', 'dask'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == ended.stdout
