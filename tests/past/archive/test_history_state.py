"""Tests of a checkpoint's state file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.errors import DecodeError
from exporter.past.archive.checkpoint import decode_history_state
from tests.past.archive.simulated_archive import levels

GOOD: dict[str, Any] = {"version": 1, "currentLedger": 63, "currentBuckets": levels([b"a" * 32, bytes(32), b"c" * 32])}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 3}, r"Invalid enum value 3 - at `\$.version`"),
        ({"version": True}, r"Expected `int`, got `bool` - at `\$.version`"),
        ({"currentLedger": "63"}, r"Expected `int`, got `str` - at `\$.currentLedger`"),
        ({"currentBuckets": GOOD["currentBuckets"][1:]}, r"Expected `array` of length >= 11 - at `\$.currentBuckets`"),
        ({"version": 2}, "hotArchiveBuckets is missing"),
        ({"networkPassphrase": 1}, r"Expected `str \| null`, got `int` - at `\$.networkPassphrase`"),
        ({"currentBuckets": [{"curr": "XX", "snap": ""}] * 11}, r"Expected `str` matching regex .*currentBuckets"),
    ],
)
def test_a_malformed_state_file_is_refused(changes: dict[str, Any], reason: str) -> None:
    """The error names the field and what is expected."""
    with pytest.raises(DecodeError, match=reason):
        decode_history_state(json.dumps({**GOOD, **changes}).encode())


def test_what_is_not_json_is_refused() -> None:
    """A page of a web server in place of a state file is an error of the archive."""
    for content in (b"<html>", b"[]", b"[" * 100_000):
        with pytest.raises(DecodeError, match=r"Expected|JSON|recursion"):
            decode_history_state(content)
