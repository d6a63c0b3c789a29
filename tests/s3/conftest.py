"""The surroundings of the tests of publishing to S3: nothing that the machine says of AWS reaches them."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def clean_aws_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every variable of AWS away; all tests speak plain HTTP to this machine, and bring their own keys."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
