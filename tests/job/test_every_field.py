"""No field of any record of a tree can be changed without `exporter verify` saying so, as docs/proofs.md has it."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from exporter.backfill import liquidations
from exporter.cli import main
from exporter.errors import ExitCode
from exporter.history.manifest import file_reference
from exporter.job.evidence import _FIELDS as EVIDENCE_FIELDS
from exporter.job.evidence import Evidence
from exporter.job.unproven import Reason
from exporter.publishing.retention import SUPERSEDED_KEY, _Record
from exporter.tables import COLUMNS
from exporter.tree import documents
from exporter.tree.families import (
    DAILY_ROLLUP,
    HISTORY_MANIFEST_KEY,
    INTENT_KEY,
    LIQUIDATIONS,
    POINTER_KEY,
    PROOFS,
)
from exporter.tree.run_listing import RunListing
from exporter.tree.same_values import same_values
from tests.check.trees import Files, digest, encoded, keys, manifest_of, read, seal, status_of, write
from tests.job.archived_runs import ArchivedRuns
from tests.references import ROOT

REFUTED, STATED = "8", "stated"

RECORDS = (
    documents.SystemStatus,
    documents.RunManifest,
    documents.ManifestFile,
    documents.HistoryManifest,
    documents.HistoryFile,
    documents.HistoryRollup,
    documents.Transitions,
    documents.LiquidationsFile,
    documents.LedgerSpan,
    documents.ProofList,
    documents.Proof,
    documents.Census,
    documents.Intent,
)
"""The documents that no run lists as its own, whose fields the table has one by one. All others are compared whole."""


def table() -> dict[str, str]:
    """How each field is reported, by its name in docs/proofs.md: `REFUTED`, `STATED` or a reason."""
    text = (ROOT / "docs/proofs.md").read_text()
    rows = text.partition("Field | Follows from | Otherwise\n---|---|---\n")[2].partition("\n\n")[0].splitlines()
    found: dict[str, str] = {}
    for row in rows:
        names, _, how = (cell.strip() for cell in row.split("|"))
        record, *fields = re.findall(r"`([^`]+)`", names)
        for name in fields:
            assert f"{record}.{name}" not in found, f"{record}.{name} has two rows"
            found[f"{record}.{name}"] = how.strip("`")
    return found


def test_every_field_has_a_row() -> None:
    """Each field of a record that is not compared whole has one row in docs/proofs.md, and no row is of another."""
    expected = {f"{model.__name__}.{name}" for model in RECORDS for name in model.__struct_fields__}
    expected |= {f"sweep.{name}" for name in _Record.__struct_fields__}
    for word, fields in EVIDENCE_FIELDS.items():
        expected |= {f"evidence {word}.{at}" for at in range(1, 1 + len(fields.__args__))}
    found = table()

    assert sorted(expected) == sorted(found)
    assert {*found.values()} <= {REFUTED, STATED, *Reason}
